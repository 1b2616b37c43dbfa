"""Worlds of the declarative door: the engine under its policy, and lists that change with a restart."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.sim.world import Action, Entry

from dutiful.core.cron.cron import Cron
from dutiful.core.schedule import Schedule, Task
from dutiful.declarative.registration import Registered, policy
from dutiful.declarative.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from tests.sim.gate import Gate
    from tests.sim.world import World

    from dutiful.runtime.ports import Clock

SHARE = 0.3
MANNERS = ("quick", "quick", "slow", "fail", "raise", "rubbish")
# What this door has no word for becomes another list, which a new process brings.
FOREIGN = {"edit", "overtake", "add", "pause", "resume", "remove"}


def as_declared(world: World, texts: Sequence[str], zone: str, unit: int) -> World:
    """Return a world of the same dates and faults in which all schedules are registrations."""
    rng = Random(f"declared:{world.seed}")
    entries = [_entry(f"s{number}", rng, texts, zone, unit) for number in range(rng.randint(1, 4))]
    lists = [tuple(entry.schedule for entry in entries)]
    actions: list[Action] = []
    for action in world.actions:
        if action.kind not in FOREIGN:
            actions.append(action)
            continue
        lists.append(_changed(lists[-1], rng, texts, zone, unit))
        end = Action(action.at + 1, rng.choice(("kill", "stop")), rng.choice((1, 90, unit)))
        actions += [Action(action.at, "register", len(lists) - 1), end]
    actions += [Action(rng.uniform(0, world.horizon), "stop") for _ in range(rng.randrange(3))]
    actions.sort(key=lambda action: action.at)
    known = world._replace(entries=tuple(entries), lists=tuple(lists), actions=tuple(actions))
    return known._replace(in_process=True, in_flight_max=None)


def _entry(name: str, rng: Random, texts: Sequence[str], zone: str, unit: int) -> Entry:
    manners = tuple(rng.sample(MANNERS, rng.randint(1, len(MANNERS))))
    schedule = _task(name, rng, texts, zone, unit)
    return Entry(schedule, manners, rng.choice((1, unit // 2, unit * 3)))


def _task(name: str, rng: Random, texts: Sequence[str], zone: str, unit: int) -> Schedule:
    # Not at once: a task that always fails would then run for ever in the same instant.
    delay = rng.choice((unit // 20, unit // 3, unit, 3 * unit)) * 1000
    return Schedule(name, Task(name), Cron.parse(rng.choice(texts), "posix", zone), policy(delay))


def _changed(
    before: tuple[Schedule, ...], rng: Random, texts: Sequence[str], zone: str, unit: int
) -> tuple[Schedule, ...]:
    """Return the list with one task more, less or changed."""
    name = f"s{rng.randrange(5)}"
    rest = [schedule for schedule in before if schedule.id != name]
    if len(rest) < len(before) and rng.random() < 0.4:
        return tuple(rest)
    return (*rest, _task(name, rng, texts, zone, unit))


def declaring(schedules: Sequence[Schedule], store: Gate, clock: Clock) -> Callable[[int], Awaitable[None]]:
    """Return what the door does when leadership begins."""
    callbacks: dict[str, Any] = {schedule.id: None for schedule in schedules}
    zone = schedules[0].cadence.zone.tzinfo if schedules else "UTC"  # type: ignore[union-attr]
    door = Scheduler("memory:", clock=clock, timezone=zone)
    door._store = store  # type: ignore[assignment]
    door._registered = Registered([schedule._replace() for schedule in schedules], callbacks)
    return door._declare
