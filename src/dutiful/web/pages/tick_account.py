"""The account of one schedule: the ticks that its cron names, against those that the ledger has."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dutiful.core.cron.cron import Cron
    from dutiful.service.declaration import ScheduleView
    from dutiful.service.types import RunView


class Account(NamedTuple):
    """The ticks from `begin` until now: due = ran + failed + skipped + open + waiting + unaccounted."""

    begin: datetime
    ran: int = 0
    failed: int = 0
    skipped: int = 0
    open: int = 0
    # Ticks after the newest entry, which the worker has still to decide or to record.
    waiting: int = 0
    # Ticks before the newest entry that have none.
    unaccounted: int = 0
    # Runs that a user asked for beside the ticks; no tick was due for them.
    by_hand: int = 0

    @property
    def accounted(self) -> int:
        """Return the number of ticks that have an entry."""
        return self.ran + self.failed + self.skipped + self.open

    @property
    def due(self) -> int:
        """Return the number of all ticks."""
        return self.accounted + self.waiting + self.unaccounted


def account_of(
    view: ScheduleView, runs: Sequence[RunView], since: datetime, now: datetime, more: bool
) -> Account:
    """Return the account from `since`, or from where the entries begin; `runs` are the newest, newest first.

    With `more`, there are older entries, which were not read. The cron counts the ticks since the last edit:
    an earlier edit may have had another cron, so earlier ticks are those that the ledger has.
    """
    begin = max([since, *_limits(view, runs, more)])
    found = Counter[str]()
    for run in runs:
        kind = "by hand" if run.trigger == "manual" else run.status
        found[kind] += _ticks_after(run, view.cron, begin)
    waiting, unaccounted = (0, 0) if view.quarantine else _without_entry(view, runs, begin, now)
    open_ticks = found["ENQUEUED"] + found["STARTED"]
    return Account(
        begin, found["SUCCESS"], found["FAILED"], found["SKIPPED"], open_ticks, waiting, unaccounted,
        found["by hand"],
    )  # fmt: skip


def _limits(view: ScheduleView, runs: Sequence[RunView], more: bool) -> list[datetime]:
    """Return the instants before which the ledger is not complete, or was not read."""
    pruned = [] if view.pruned_until is None else [view.pruned_until]
    return [*pruned, runs[-1].run_at] if more else pruned


def _ticks_after(run: RunView, cron: Cron, begin: datetime) -> int:
    """Return how many ticks of an entry come after `begin`."""
    last = run.run_until or run.run_at
    if run.run_at > begin or last <= begin:
        return run.ticks if run.run_at > begin else 0
    return min(run.ticks, _count(cron, begin, last))


def _without_entry(
    view: ScheduleView, runs: Sequence[RunView], begin: datetime, now: datetime
) -> tuple[int, int]:
    """Return how many ticks after the last edit wait for an entry, and how many should have one."""
    cron, governed = view.cron, max(begin, view.updated_at)
    ticks = [run for run in runs if run.trigger != "manual"]
    newest = max([governed, *(run.run_until or run.run_at for run in ticks)])
    waiting = _within(view, newest, now)
    recorded = sum(_ticks_after(run, cron, governed) for run in ticks)
    return waiting, max(0, _within(view, governed, newest) - recorded)


def _within(view: ScheduleView, after: datetime, until: datetime) -> int:
    """Return the number of ticks in (after, until] that lie in the window of the schedule."""
    begin, end = int(after.timestamp()), int(until.timestamp())
    if view.start_at is not None:
        begin = max(begin, ceil(view.start_at.timestamp()) - 1)
    if view.end_at is not None:
        end = min(end, int(view.end_at.timestamp()))
    return view.cron.count_epoch(begin, max(begin, end))


def _count(cron: Cron, after: datetime, until: datetime) -> int:
    return cron.count_epoch(int(after.timestamp()), int(until.timestamp()))
