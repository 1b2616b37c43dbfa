"""Which deeds excuse a tick that was late: those that touched the leader of its schedule, for so long."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEASE = 2
# Without any deed a call may be so many seconds late, and so much longer after a deed than is promised: the
# machine that runs the tests has two cores for some twenty processes.
SLACK = 3.0
# The promises: a killed worker is replaced after a second, a stopped one after 200 ms, a silent one after a
# lease and a second. A pass whose answer does not come waits five seconds for it, and a second more is for
# the connection that replaces the broken one.
_KILLED, _STOPPED, _SILENT, _UNANSWERED = 1.0, 0.2, LEASE + 1.0, 6.0
# How many seconds after the end of a deed all ticks are on time again, by its kind. Deeds to the API and
# edits excuse nothing.
BOUNDS = {
    "kill": _KILLED,
    **dict.fromkeys(("roll", "roll_long", "skew"), _STOPPED),
    **dict.fromkeys(("freeze", "cut", "refuse", "black_hole", "terminate", "restart"), _SILENT),
    **dict.fromkeys(("half_open", "late", "slow", "freeze_database"), _UNANSWERED),
}
# A stopped worker finishes its runs, so its stop is no reason to launch any of them again.
_ORDERLY = {"roll", "roll_long", "skew"}
# A node that goes on after a deed may still finish the call that it was in; this many seconds later at most.
_ARRIVES = 1.0
# Leaders are known as of some moments; a deed touches who led so many seconds before it.
_SAMPLED = 1.0
# No deed and its bound last longer, in seconds.
_LONGEST = 120.0


class Deed(NamedTuple):
    """Something that was done to a node, to the database or to a schedule, and when it was over."""

    at: float
    kind: str
    target: str
    until: float


class Led(NamedTuple):
    """The node that led each schedule at a moment."""

    at: float
    nodes: Mapping[str, str]


class Excuses:
    """The deeds that may delay ticks, and the leaders at any time."""

    def __init__(self, deeds: Sequence[Deed], led: Sequence[Led]) -> None:
        self._deeds = sorted(deed for deed in deeds if deed.kind in BOUNDS)
        self._begins = [deed.at for deed in self._deeds]
        self._led, self._times = led, [each.at for each in led]
        self._touches = cache(self._touched)

    def until(self, schedule: str, tick: float) -> float:
        """Return until when the first call of a tick may arrive."""
        until = tick + SLACK
        for deed in self._deeds[bisect_left(self._begins, tick - _LONGEST) :]:
            # A deed that began when the call was late already is no reason.
            if deed.at > until:
                break
            end = deed.until + BOUNDS[deed.kind]
            if end >= tick and self._touches(deed, schedule):
                until = max(until, end + SLACK)
        return until

    def excuses(self, schedule: str, tick: float) -> bool:
        """Return whether any deed may have delayed a tick."""
        return self.until(schedule, tick) > tick + SLACK

    def may_repeat(self, schedule: str, first: float, second: float) -> bool:
        """Return whether a deed may be the reason for a second call, after a first one."""
        return any(
            deed.at <= second
            and deed.until + _ARRIVES >= first
            and deed.kind not in _ORDERLY
            and self._touches(deed, schedule)
            for deed in self._deeds[bisect_left(self._begins, first - _LONGEST) :]
        )

    def _touched(self, deed: Deed, schedule: str) -> bool:
        """Return whether a deed was done to the database, or to the leader of a schedule."""
        if deed.target == "database":
            return True
        first = bisect_left(self._times, deed.at - _SAMPLED)
        last = bisect_right(self._times, deed.until + BOUNDS[deed.kind])
        # At least the last known leader, for a time in which none could be asked for.
        return any(led.nodes.get(schedule) == deed.target for led in self._led[max(0, first - 1) : last])
