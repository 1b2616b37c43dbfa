"""Rare combinations of actions, arranged in some worlds, because chance has them once in thousands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.sim.world import Action, Entry

from dutiful.core.cron.cron import Cron
from dutiful.core.schedule import Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.sim.world import World

    from dutiful.core.schedule import Schedule

MINUTE, HOUR = 60, 3600


def with_encounters(world: World, rng: Random, unit: int, draw: Callable[[], Cron]) -> World:
    """Return the world, in which some of these things happen as well; `draw` returns a cadence."""
    more: list[Action] = []
    if rng.random() < 0.4:
        more.append(Action(rng.uniform(0, world.horizon / 2), "save"))
    # With ticks every minute the days until they come again take too long.
    if rng.random() < 0.2 and unit >= 15 * MINUTE:
        more += _skipped_again(world, rng, unit, draw)
    actions = tuple(sorted((*world.actions, *more), key=lambda action: action.at))
    return _with_light_one(world._replace(actions=actions), rng)


def _with_light_one(world: World, rng: Random) -> World:
    """Take the ledger from the first schedule, so that a durable store may keep its runs inline."""
    if rng.random() >= 0.2:
        return world
    first, *others = world.entries
    light = _lighter(first.schedule, run_timeout=None, jitter=0)
    manners = tuple(rng.sample(("quick", "slow", "fail", "raise"), rng.randint(1, 4)))
    actions = [
        action._replace(schedule=_lighter(action.schedule))
        if action.schedule is not None and action.schedule.id == light.id
        else action
        for action in world.actions
    ]
    return world._replace(entries=(Entry(light, manners, first.lasts), *others), actions=tuple(actions))


def _lighter(schedule: Schedule, **changes: Any) -> Schedule:
    return schedule._replace(policy=replace(schedule.policy, ledger=False, capacity=None, **changes))


def _skipped_again(world: World, rng: Random, unit: int, draw: Callable[[], Cron]) -> list[Action]:
    """Return a skipped range, a clock that is set back by days, and a range of another cadence after it."""
    schedules = [entry.schedule for entry in world.entries]
    known = [each for each in schedules if isinstance(each.cadence, Cron) and each.policy.ledger]
    if not known:
        return []
    some, begins, lasts = rng.choice(known), rng.uniform(0, world.horizon / 2), unit * rng.uniform(3, 10)
    back, edited = max(25 * HOUR, unit * rng.uniform(12, 30)), some._replace(cadence=draw(), window=Window())
    paused = [Action(begins, "pause", 0, some.id), Action(begins + lasts, "resume", 0, some.id)]
    return [
        *(paused if rng.random() < 0.5 else [Action(begins, "kill", lasts)]),
        Action(begins + lasts + 10, "jump", -back),
        Action(begins + lasts + 20, "edit", 0, some.id, edited),
        Action(begins + back, "kill", lasts * rng.uniform(0.5, 2)),
    ]
