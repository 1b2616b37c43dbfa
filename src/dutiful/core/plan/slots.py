"""Places for runs, in capacity groups and in the engine, as the move of one schedule takes and frees them."""

from __future__ import annotations

# The engine's own bound is counted beside the capacity groups, under a name no group can have.
ENGINE = ""


class Places:
    """The places that are taken in a plan; what one move frees is its own until that is committed.

    An edit may overtake the move, and then the run that has the place keeps it.
    """

    __slots__ = ("_freed", "_used")

    def __init__(self, used: dict[str, int]) -> None:
        self._used = used
        self._freed: dict[str, int] = {}

    def taken(self, name: str) -> int:
        """Return how many places of this name the move cannot have."""
        return self._used.get(name, 0) - self._freed.get(name, 0)

    def take(self, name: str, places: int) -> None:
        """Take so many places for the rest of the plan, or free them for the rest of the move."""
        freed = self._freed.get(name, 0)
        own = min(places, freed)
        self._freed[name] = freed - own
        self._used[name] = self._used.get(name, 0) + places - own
