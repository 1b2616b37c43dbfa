"""Backfill: which past ticks of a request run, and how the rows that record them as skipped change."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cadence import count_ticks, last_tick, next_tick
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.zone import from_epoch_ms
from dutiful.core.errors import InvalidArgumentError, OversizedBackfillError
from dutiful.core.policy import Overlap
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.snapshot import Snapshot

# All ticks of a backfill become open runs of one schedule, which every pass loads together.
TICKS_MAX = 1000
# Ten years: counting the ticks of a longer range takes too long for one request.
RANGE_MAX = 10 * 366 * 86_400_000


class Backfill(NamedTuple):
    """The changes that make past ticks run, and the number of requested ticks of each kind."""

    changes: Changes
    # Ticks that run now.
    accepted: int
    # Ticks that have run, or will run anyway.
    already_recorded: int
    # Ticks whose rows were pruned: whether they ran is no longer known.
    unknown: int = 0
    # Ticks that would only be skipped for, or cancelled by, another tick of the same request.
    overlapping: int = 0


def past_ticks(due: Snapshot, start: Instant, end: Instant) -> list[Instant]:
    """Return the decided ticks in [start, end) of the schedule as it is now, oldest first.

    Ticks after the cursor are left to the engine. Raises OversizedBackfillError before it lists too many
    ticks, and InvalidArgumentError for a range of more than ten years.
    """
    window, cadence = due.schedule.window, due.schedule.cadence
    after = max(start, window.start if window.start is not None else start) - 1
    until = min(end - 1, due.state.cursor, window.end if window.end is not None else end)
    if until <= after:
        return []
    if until - after > RANGE_MAX:
        raise InvalidArgumentError(
            "start", from_epoch_ms(start).isoformat(), "a backfill covers at most ten years"
        )
    count = count_ticks(cadence, after, until)
    if count > TICKS_MAX:
        raise OversizedBackfillError(count, TICKS_MAX)
    ticks: list[Instant] = []
    while len(ticks) < count and (tick := next_tick(cadence, ticks[-1] if ticks else after)) is not None:
        ticks.append(tick)
    return ticks


def backfill(
    due: Snapshot,
    ticks: Sequence[Instant],
    rows: Sequence[Run],
    overlap: Overlap | None,
    now: Instant,
    force: bool = False,
) -> Backfill:
    """Return the changes that make the ticks run; `rows` are the ledger rows around them, in any order.

    Without an `overlap` every tick runs: concurrently if the schedule allows overlap, else one after the
    other. `force` also runs the ticks whose rows were pruned.
    """
    allowed = due.schedule.policy.overlap is Overlap.ALLOW
    judged_by = overlap or (Overlap.ALLOW if allowed else Overlap.QUEUE)
    recorded = {row.run_at for row in rows if row.kind == "schedule" and not _is_skip(row)}
    skipped = {tick for row in rows if _is_skip(row) for tick in _within(row, ticks)}
    unknown = {tick for tick in ticks if tick <= due.pruned_until} - recorded - skipped
    if force:
        unknown = set()
    candidates = [tick for tick in ticks if tick not in recorded and tick not in unknown]
    wanted = _able_to_run(due, candidates, judged_by)
    counts = len(wanted), len(recorded.intersection(ticks)), len(unknown), len(candidates) - len(wanted)
    if not wanted:
        return Backfill(Changes(), *counts)
    touched = [row for row in rows if _is_skip(row) and _within(row, wanted)]
    pieces = [piece for row in touched for piece in _split(due, row, wanted)]
    runs = [_run(due, tick, judged_by, now) for tick in wanted]
    growing = due.state.skipped
    grows = growing is not None and any(row.run_at == growing.run_at for row in touched)
    state = due.state._replace(skipped=None) if grows else due.state
    put = Put(due.schedule, state, now, due.version)
    return Backfill(Changes([put], (), [*runs, *pieces], touched), *counts)


def _able_to_run(due: Snapshot, ticks: list[Instant], overlap: Overlap) -> list[Instant]:
    """Return the ticks that can run when all are requested at once."""
    if overlap is Overlap.SKIP:
        busy = any(run.phase in IN_FLIGHT for run in due.runs)
        return [] if busy else ticks[:1]
    return ticks[-1:] if overlap is Overlap.CANCEL_OTHER else ticks


def _run(due: Snapshot, tick: Instant, overlap: Overlap, now: Instant) -> Run:
    return Run(
        due.schedule.id, tick, "schedule", Status.ENQUEUED, Phase.DELAYED, now,
        backfill=overlap, created_at=now, updated_at=now,
    )  # fmt: skip


def _is_skip(row: Run) -> bool:
    """Return whether the row only says that its ticks did not run."""
    return row.kind == "schedule" and row.status is Status.SKIPPED and row.attempt == 0


def _within(row: Run, ticks: Sequence[Instant]) -> Sequence[Instant]:
    """Return the ticks of a row, out of ticks in their order: a thousand rows may have a thousand."""
    return ticks[bisect_left(ticks, row.run_at) : bisect_right(ticks, row.run_until or row.run_at)]


def _split(due: Snapshot, row: Run, wanted: Sequence[Instant]) -> Iterator[Run]:
    """Yield the parts of a range of skipped ticks that remain skipped.

    A range recorded under an earlier cadence has other ticks, which the present cadence cannot find: that
    range stays whole, and only begins later where a wanted tick takes its first instant.
    """
    inside, until = _within(row, wanted), row.run_until or row.run_at
    if count_ticks(due.schedule.cadence, row.run_at - 1, until) != row.ticks:
        begins = row.run_at + (row.run_at in inside)
        if begins <= until:
            yield row._replace(run_at=begins, fire_at=begins)
        return
    for before, after in zip([row.run_at - 1, *inside], [*inside, until + 1], strict=True):
        first = next_tick(due.schedule.cadence, before)
        last = last_tick(due.schedule.cadence, before, after - 1)
        if first is not None and last is not None:
            ticks = count_ticks(due.schedule.cadence, before, after - 1)
            run_until = last if last > first else None
            yield row._replace(run_at=first, fire_at=first, run_until=run_until, ticks=ticks)
