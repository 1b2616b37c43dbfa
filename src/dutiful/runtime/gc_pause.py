"""The garbage collector during a burst: it would go through every schedule again and again, for nothing."""

from __future__ import annotations

import gc

_NEVER = 1 << 30
# A pass makes tens of thousands of objects, none of which is garbage before its end.
_YOUNG = 50_000


class Collector:
    """Holds full collections off for as long as a burst lasts, and makes those of the young rare.

    A hundred thousand runs that begin together are freed as they end, and none of what stays behind
    is garbage; yet their number alone makes the collector look through the whole process each time.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None

    def __enter__(self) -> None:
        self.hold(True)

    def __exit__(self, *_: object) -> None:
        self.hold(False)

    def hold(self, burst: bool) -> None:
        """Say in every pass whether a burst is on; whoever changed the thresholds meanwhile keeps theirs."""
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
    # Zero is how a program says that it wants no collections at all.
    return max(young, _YOUNG) if young else 0
