"""A world to run the engine in: schedules, how their runs go, and everything that goes wrong.

A world is plain data, so that it can be printed, replayed and made smaller; `tests/sim/genesis.py`
draws one from a seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dutiful.core.schedule import Schedule

LABELS = ("led", "loaded", "planned", "committed", "launching", "settling", "settled")
# Calls of the store before which another instance may take the lead.
DEPOSED = ("lead", "load", "commit", "settle")
# The id of a schedule that the planner cannot compute.
BROKEN = "broken"


class Entry(NamedTuple):
    """A schedule, and how its runs go: each draws one of the manners and lasts up to `lasts` seconds."""

    schedule: Schedule
    manners: tuple[str, ...]
    lasts: int
    # How long before the start its cursor lies: ticks in between are found missed.
    owed: int = 0


class Action(NamedTuple):
    """Something that happens to the world after so many seconds that really passed."""

    at: float
    kind: str
    # Seconds: a downtime, a step of the clock, a patience; 0 for a rival that does not lead.
    amount: float = 0
    # A label to crash at, a call of the store to be deposed before, or the id of a schedule.
    target: str = ""
    schedule: Schedule | None = None


class Faults(NamedTuple):
    """How often a call to the store fails, before or after the write, or lets others go first.

    And how often another program has begun to keep the rows of a schedule locked.
    """

    before: float = 0
    after: float = 0
    pause: float = 0
    locked: float = 0


class World(NamedTuple):
    seed: int
    # Epoch milliseconds.
    start: int
    # Seconds until everything is healed.
    horizon: int
    entries: tuple[Entry, ...]
    actions: tuple[Action, ...] = ()
    faults: Faults = Faults()
    in_process: bool = True
    batch: int = 100
    in_flight_max: int | None = None
    # The lists of a declared world, in the order of the actions that register them.
    lists: tuple[tuple[Schedule, ...], ...] = ()
