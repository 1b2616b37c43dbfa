"""Entries of the ledger as a file for a spreadsheet: all that match, or a sentence why not."""

from __future__ import annotations

import csv
import io
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fastapi.responses import Response

from dutiful.core.cron.zone import rfc_3339
from dutiful.web.csv_cell import csv_cell
from dutiful.web.pages import words
from dutiful.web.pages.find_runs import reached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.service.types import RunView
    from dutiful.web.authorized_service import AuthorizedService

MOST = 10_000
# Most pages of the store that are read for one file: each scans a bounded number of rows.
SCANS = 60
FIELDS = (
    "schedule_id", "run_at", "status", "reason", "trigger", "attempt", "ticks", "run_until", "fire_at",
    "started_at", "ended_at", "idempotency_key", "run_id", "detail",
)  # fmt: skip


class TooManyError(Exception):
    """More entries match than one file holds, or they lie too far apart to be found at once."""

    def __init__(self, count: int, back_to: datetime) -> None:
        many = "too many" if count > MOST else "too far apart"
        super().__init__(
            f"These entries are {many} for one file, which holds at most {MOST:,} and would end at"
            f" {back_to:%Y-%m-%d %H:%M:%S} UTC. Choose a time that begins after that."
        )


async def runs_csv(authorized: AuthorizedService, asked: Mapping[str, Any]) -> Response:
    """Return the caller's entries that match as CSV, newest first; raises TooManyError."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(FIELDS)
    count, cursor = 0, None
    for _ in range(SCANS):
        listed = await authorized.service.registrar.list_runs(
            **asked, user_id=authorized.tenant, limit=1000, cursor=cursor
        )
        count += len(listed.items)
        if count > MOST:
            break
        writer.writerows(row_of(run) for run in listed.items)
        if (cursor := listed.next_cursor) is None:
            break
    if cursor is not None:
        raise TooManyError(count, reached(cursor))
    headers = {"Content-Disposition": 'attachment; filename="runs.csv"', "Cache-Control": "no-store"}
    return Response(written.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def row_of(run: RunView) -> list[str]:
    """Return the cells of an entry; of its detail the first line."""
    told = {name: getattr(run, name) for name in FIELDS} | {"detail": words.first_line(run.detail)}
    return [cell(value) for value in told.values()]


def cell(value: object) -> str:
    """Return a value as a cell that no spreadsheet takes for a formula."""
    return csv_cell("" if value is None else rfc_3339(value) if isinstance(value, datetime) else str(value))
