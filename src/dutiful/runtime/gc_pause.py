"""Pauses garbage collection during bursts, where full collections scan every schedule and free nothing."""

from __future__ import annotations

import gc

_NEVER = 1 << 30
# A pass makes tens of thousands of objects, which all live until its end.
_YOUNG = 50_000


class Collector:
    """Suspends full collections for the length of a burst, and makes young collections rare.

    A hundred thousand runs that begin together are freed by reference counting as they end. Their number
    alone would trigger full collections, each of which scans the whole process and finds no garbage.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None

    def __enter__(self) -> None:
        self.hold(True)

    def __exit__(self, *_: object) -> None:
        self.hold(False)

    def hold(self, burst: bool) -> None:
        """Hold off full collections in a burst; restore the thresholds unless the program changed them."""
        if burst and self._before is None:
            young, middle, old = self._before = gc.get_threshold()
            if old != _NEVER:
                gc.set_threshold(_rarely(young), middle, _NEVER)
        elif not burst and self._before is not None:
            young, middle, old = self._before
            if gc.get_threshold() == (_rarely(young), middle, _NEVER):
                gc.set_threshold(young, middle, old)
            self._before = None


def _rarely(young: int) -> int:
    # A threshold of zero means that the program has disabled collections.
    return max(young, _YOUNG) if young else 0
