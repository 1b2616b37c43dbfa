"""A launcher of your own: hand runs to a queue that dutiful does not know, here a table in SQLite.

DUTIFUL_EXECUTOR=python:own_launcher:launch dutiful serve
"""

import json
import os
import sqlite3
from contextlib import closing
from typing import Any

from dutiful.core.policy import Reason
from dutiful.launchers import Accepted, Outcome, Refused, Unanswered, Unreached
from dutiful.service import Meta

PATH = os.environ.get("QUEUE_FILE", "queue.db")
TABLE = "CREATE TABLE IF NOT EXISTS queue (key TEXT PRIMARY KEY, attempt INTEGER, body TEXT)"
ADD = "INSERT INTO queue VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING"


def launch(dag: Any, meta: Meta) -> Outcome:
    """Put the run into the queue under its key, and say what is known.

    Accepted: the queue has it, now or since an earlier attempt. Unreached: it certainly has not. Unanswered:
    it may have it. Refused: it never will. The service tries Unreached and Unanswered again.
    """
    body = json.dumps({"dag": dag, "meta": meta.as_json()})
    if len(body) > 1_000_000:
        return Refused(Reason.LAUNCH_REFUSED, "the queue takes at most 1 MB")
    try:
        database = sqlite3.connect(PATH, timeout=5)
    except sqlite3.Error as error:
        return Unreached(f"{PATH} cannot be opened: {error}")
    with closing(database):
        try:
            with database:
                database.execute(TABLE)
                database.execute(ADD, (meta.idempotency_key, meta.attempt, body))
        except sqlite3.Error as error:
            return Unanswered(f"{PATH} did not confirm the run: {error}")
    return Accepted(meta.idempotency_key)
