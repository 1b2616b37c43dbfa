"""Entries of the ledger that match a filter, read a bounded number of rows at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.service.views import decode_cursor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.service.types import RunView
    from dutiful.web.authorized_service import AuthorizedService

# Most pages of the store that are read to fill one page: each scans a bounded number of rows.
_SCANS = 6


class Found(NamedTuple):
    """Entries, newest first, and the cursor of those that come after them; None where there are none."""

    runs: list[RunView]
    cursor: str | None

    @property
    def back_to(self) -> datetime | None:
        """Return the tick up to which the ledger was read; None where it was read to its end."""
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
    for _ in range(_SCANS):
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
