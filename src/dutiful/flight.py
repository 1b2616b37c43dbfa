"""A run in flight, as the engine that carries it sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dutiful.clock_watch import STEP_MIN

if TYPE_CHECKING:
    import asyncio

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.ports import Launch

Key: TypeAlias = "tuple[str, Instant, str]"
"""What no two runs have in common."""


class Flight(NamedTuple):
    """The task that carries a run."""

    task: asyncio.Task[None]
    launch: Launch
    # On the clock that nobody sets.
    began: float

    def outlived(self, now: float) -> bool:
        """Return whether it has been in the air for longer than its timeout."""
        timeout = self.launch.schedule.policy.run_timeout
        return timeout is not None and self.began + (timeout + STEP_MIN) / 1000 < now


def key_of(run: Run) -> Key:
    """Return the key of a run."""
    return run.schedule_id, run.run_at, run.kind
