"""Entries of the ledger that match a filter: some of them for a page, or all as a file for a spreadsheet.

A bounded number of rows is read at a time.
"""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi.responses import Response

from dutiful.core.cron.zone import rfc_3339
from dutiful.service.views import decode_cursor
from dutiful.web.csv_cell import csv_cell
from dutiful.web.pages import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.service.types import RunView
    from dutiful.web.authorized_service import AuthorizedService

# Most entries of a file.
FILE_MAX = 10_000
# Most pages of the store that are read for a page and for a file: each scans a bounded number of rows.
_PAGE_SCANS, FILE_SCANS = 6, 60
FIELDS = (
    "schedule_id", "run_at", "status", "reason", "trigger", "attempt", "ticks", "run_until", "fire_at",
    "started_at", "ended_at", "idempotency_key", "run_id", "detail",
)  # fmt: skip


class Found(NamedTuple):
    """Entries, newest first, and the cursor of those that come after them; None where there are none."""

    runs: list[RunView]
    cursor: str | None

    @property
    def back_to(self) -> datetime | None:
        """Return the tick up to which the ledger was read; None if it was read to its end."""
        return None if self.cursor is None else reached(self.cursor)


def reached(cursor: str) -> datetime:
    """Return the tick at which a cursor stands."""
    at = decode_cursor(cursor, int, int, str)[0]
    return datetime.fromtimestamp(int(at) / 1000, UTC)


async def find(
    authorized: AuthorizedService, asked: Mapping[str, Any], limit: int, cursor: str = ""
) -> Found:
    """Return up to `limit` entries of the caller's schedules that match, and where to continue."""
    ask, owner = authorized.service.registrar.list_runs, authorized.tenant
    runs, place = list["RunView"](), cursor or None
    for _ in range(_PAGE_SCANS):
        listed = await ask(**asked, user_id=owner, limit=limit - len(runs), cursor=place)
        runs += listed.items
        place = listed.next_cursor
        if place is None or len(runs) == limit:
            break
    if place is not None and len(runs) == limit:
        # A full page has a cursor even where nothing follows.
        rest = await ask(**asked, user_id=owner, limit=1, cursor=place)
        place = place if rest.items or rest.next_cursor else None
    return Found(runs, place)


class TooManyError(Exception):
    """More entries match than one file holds, or they lie too far apart to be found at once."""

    def __init__(self, count: int, back_to: datetime) -> None:
        many = "too many" if count > FILE_MAX else "too far apart"
        super().__init__(
            f"These entries are {many} for one file, which holds at most {FILE_MAX:,} and would end at"
            f" {back_to:%Y-%m-%d %H:%M:%S} UTC. Choose a time that begins after that."
        )


async def runs_csv(authorized: AuthorizedService, asked: Mapping[str, Any]) -> Response:
    """Return the caller's entries that match as CSV, newest first; raises TooManyError."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(FIELDS)
    count, cursor = 0, None
    for _ in range(FILE_SCANS):
        listed = await authorized.service.registrar.list_runs(
            **asked, user_id=authorized.tenant, limit=1000, cursor=cursor
        )
        count += len(listed.items)
        if count > FILE_MAX:
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
    told = {name: getattr(run, name) for name in FIELDS} | {"detail": words.main_line(run.detail)}
    return [cell(value) for value in told.values()]


def cell(value: object) -> str:
    """Return a value as a cell that no spreadsheet takes for a formula."""
    return csv_cell("" if value is None else rfc_3339(value) if isinstance(value, datetime) else str(value))
