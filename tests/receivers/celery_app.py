"""The Celery app of the tests: what it does is in the environment of its worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from celery import Celery

from dutiful.receivers import SqliteSeen, ValkeySeen, celery_task

app = Celery("tests", broker=os.environ["BROKER"])
app.conf.update(
    task_default_queue=os.environ["QUEUE"],
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": float(os.environ.get("VISIBLE_AFTER", "3600"))},
)
seen_url = os.environ["SEEN"]
seen = ValkeySeen(seen_url, lease=2) if "://" in seen_url else SqliteSeen(seen_url, lease=2)


@celery_task(
    app, "app.run", seen=seen, service=os.environ.get("SERVICE"), secret=os.environ.get("SECRET") or None
)
def run(delivery):
    """Append the key to a file, which is the effect; `fail` raises and `die` kills the worker, once."""
    effects = Path(os.environ["EFFECTS"])
    with effects.open("a") as file:
        file.write(f"{delivery.key} {delivery.attempt}\n")
    if "fail" in delivery.dag:
        raise RuntimeError(delivery.dag["fail"])
    if "die" in delivery.dag and effects.read_text().count(delivery.key) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
