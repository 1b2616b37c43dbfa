"""Counts of ticks by status and reason in buckets of time, for views of more ticks than can be listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dutiful.core.cadence import Instant
    from dutiful.core.policy import Reason
    from dutiful.core.run import Run, Status


class Tally(NamedTuple):
    """How many ticks of the bucket that begins at `at` have this status and reason."""

    at: Instant
    status: Status
    reason: Reason | None
    ticks: int


def tallied(runs: Iterable[Run], since: Instant, until: Instant, width: int) -> list[Tally]:
    """Return the tallies of rows in [since, until), ordered; buckets are `width` ms wide, aligned to 1970.

    The ticks of a range are spread evenly from its first to its last tick.
    """
    counts: dict[tuple[Instant, Status, Reason | None], int] = {}
    for run in runs:
        for at, ticks in spread(run.run_at, run.run_until, run.ticks, width):
            if since <= at < until:
                key = at, run.status, run.reason
                counts[key] = counts.get(key, 0) + ticks
    return in_order(Tally(*key, ticks) for key, ticks in counts.items())


def in_order(tallies: Iterable[Tally]) -> list[Tally]:
    """Return tallies by bucket, status and reason."""
    return sorted(tallies, key=lambda tally: (tally.at, tally.status.value, tally.reason or ""))


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
