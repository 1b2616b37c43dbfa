"""Counts of ticks by status and reason in buckets of time, for views of more ticks than can be listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.policy import Reason
from dutiful.core.run import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dutiful.core.cadence import Instant


class Tally(NamedTuple):
    """How many ticks of the bucket that begins at `at` have this status and reason."""

    at: Instant
    status: Status
    reason: Reason | None
    ticks: int


def tallied(
    rows: Iterable[tuple[str, str | None, Instant, Instant | None, int]],
    since: Instant,
    until: Instant,
    width: int,
    counted: Iterable[tuple[Instant, str, str | None, int]] = (),
) -> list[Tally]:
    """Return the tallies of ticks in [since, until), ordered; buckets are `width` ms wide, aligned to 1970.

    `rows` are (status, reason, first tick, last tick, ticks); the ticks of a range are spread evenly between
    its ends. `counted` are (bucket, status, reason, ticks) of other rows, already added up.
    """
    counts = {(at, status, reason): ticks for at, status, reason, ticks in counted}
    for status, reason, first, last, ticks in rows:
        for at, share in spread(first, last, ticks, width):
            if since <= at < until:
                counts[at, status, reason] = counts.get((at, status, reason), 0) + share
    return [
        Tally(at, Status(status), None if reason is None else Reason(reason), counts[at, status, reason])
        for at, status, reason in sorted(counts, key=lambda key: (*key[:2], key[2] or ""))
    ]


def spread(first: Instant, last: Instant | None, ticks: int, width: int) -> Iterator[tuple[Instant, int]]:
    """Yield (bucket, ticks) for a row whose ticks lie evenly from `first` to `last`."""
    begin = first - first % width
    if last is None or last - begin < width:
        yield begin, ticks
        return
    step = (last - first) / max(1, ticks - 1)
    done = 0
    for bucket in range(begin, last + 1, width):
        # Count the ticks before the end of this bucket; the last bucket takes the remaining ticks.
        before = ticks if bucket + width > last else min(ticks, int((bucket + width - 1 - first) / step) + 1)
        if before > done:
            yield bucket, before - done
        done = max(done, before)
