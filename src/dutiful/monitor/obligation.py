"""What a task is owed: four facts, and the minutes that its cron matches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.zone import EPOCH
from dutiful.core.errors import CronCalculationError

if TYPE_CHECKING:
    from dutiful.core.cron.cron import Cron
    from dutiful.core.cron.zone import Zone


@dataclass(slots=True)
class Task:
    """What the model knows of one registered name."""

    cron: Cron
    delay: float
    mark: float
    retry: float | None = None
    orphan: bool = False
    started: float | None = None
    ended: float = float("-inf")
    # Start of the last run that succeeded: the next such start needs a due minute in between.
    succeeded: float | None = None
    # Counts changes, so that an old deadline is known to be stale.
    version: int = 0

    def pending_since(self) -> float | None:
        """Return since when, or from when, a start is owed; None while it runs or is never due."""
        if self.started is not None:
            return None
        if self.orphan:
            return float("-inf")
        try:
            due = float(self.cron.next_epoch(int(self.mark // 1)))
        except CronCalculationError:
            due = float("inf")
        return min(due, self.retry if self.retry is not None else float("inf"))


def due_in(cron: Cron, after: float, until: float) -> bool:
    """Return whether the cron matches a minute in (after, until]."""
    return cron.next_epoch(int(after // 1)) <= until


def just_before_minute(now: float, where: Zone) -> float:
    """Return the last second of the civil minute before."""
    instant = int(now // 1)
    return instant - (instant + where.offset(instant)) % 60 - 1


def epoch_seconds(at: Any) -> float:
    """Return an instant of a trace, in any of its forms, as epoch seconds."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    return (at - EPOCH).total_seconds() if isinstance(at, datetime) else float(at)


def iso(seconds: float) -> str:
    """Return epoch seconds as people read them."""
    return (EPOCH + timedelta(seconds=seconds)).isoformat()
