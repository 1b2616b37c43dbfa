"""Notices a wall clock that moves otherwise than time passes: somebody set it, or the host slept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant

# Less than this is the clock being kept right.
STEP_MIN = 1000


class ClockWatch:
    """Compares the wall clock with the one that nobody sets, whenever it is asked."""

    def __init__(self) -> None:
        self._last: tuple[Instant, float] | None = None
        # Whether the wall clock was ever set: what it said of a beginning is then worth nothing.
        self.stepped = False
        # What the clock showed before it was set back. Whatever was due by then was to be looked at at once.
        self.shown_before: Instant = 0

    def step(self, now: Instant, monotonic: float) -> int:
        """Return by how many milliseconds the wall clock was set since the last look; mostly 0."""
        last, self._last = self._last, (now, monotonic)
        if last is None:
            return 0
        step = (now - last[0]) - round((monotonic - last[1]) * 1000)
        if abs(step) < STEP_MIN:
            return 0
        self.stepped = True
        self.shown_before = max(self.shown_before, now - step)
        return step
