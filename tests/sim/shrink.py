"""Makes a failing world smaller while it still fails the same way, and shows what is left."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.sim.runner import Result, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.sim.world import Entry, World

ROUNDS = 400
LINES = 60


def rules(result: Result) -> set[str]:
    """Return the rules that were broken."""
    return {problem.partition(":")[0] for problem in result.problems}


def shrink(world: World, run: Callable[[World], Result] = run) -> World:
    """Return a smaller world that breaks one of the same rules."""
    broken = rules(run(world))
    tries = 0
    while tries < ROUNDS:
        for smaller in simpler(world):
            tries += 1
            if rules(run(smaller)) & broken:
                world = smaller
                break
        else:
            break
    return world


def simpler(world: World) -> Iterator[World]:
    """Yield the worlds that are one step smaller, the boldest steps first."""
    for cut in (world.horizon // 4, world.horizon // 2, world.horizon * 4 // 5):
        kept = tuple(action for action in world.actions if action.at <= cut)
        if cut > 10:
            yield world._replace(horizon=cut, actions=kept)
    for n in range(len(world.entries) if len(world.entries) > 1 else 0):
        yield world._replace(entries=world.entries[:n] + world.entries[n + 1 :])
    for n in range(len(world.actions)):
        yield world._replace(actions=world.actions[:n] + world.actions[n + 1 :])
    for name in sorted({task.id for tasks in world.lists for task in tasks} if world.lists else ()):
        kept = (tuple(task for task in tasks if task.id != name) for tasks in world.lists)
        yield world._replace(lists=tuple(kept))
    yield from _calmer(world)
    for n, entry in enumerate(world.entries):
        for milder in _milder(entry):
            yield world._replace(entries=(*world.entries[:n], milder, *world.entries[n + 1 :]))


def _calmer(world: World) -> Iterator[World]:
    for name, rate in world.faults._asdict().items():
        if rate:
            yield world._replace(faults=world.faults._replace(**{name: 0}))
    if world.batch != 100:
        yield world._replace(batch=100)
    if world.in_flight_max is not None:
        yield world._replace(in_flight_max=None)


def _milder(entry: Entry) -> Iterator[Entry]:
    if entry.owed:
        yield entry._replace(owed=0)
    if len(entry.manners) > 1:
        yield from (entry._replace(manners=(manner,)) for manner in entry.manners)


def report(world: World, run: Callable[[World], Result] = run) -> str:
    """Return the seed, the smallest world that fails, what it breaks, and its last events."""
    small = shrink(world, run)
    result = run(small)
    lines = [f"seed {world.seed}: {len(result.problems)} problems", *result.problems[:5], "", "The world:"]
    start = datetime.fromtimestamp(small.start / 1000, UTC).isoformat()
    lines.append(f"  from {start}, {small.horizon} s, {small.faults}")
    lines.append(f"  batch {small.batch}, at most {small.in_flight_max} in flight")
    lines += [f"  {entry}" for entry in small.entries]
    lines += [f"  {action}" for action in small.actions]
    lines += ["", f"{'passed':>12}  {'wall clock':23}  event"]
    shown = result.trace[-LINES:] if len(result.trace) > LINES else result.trace
    return "\n".join([*lines, *map(_line, shown)])


def _line(event: tuple[Any, ...]) -> str:
    passed, wall, what, *details = event
    return f"{passed:12.3f}  {_iso(wall)}  {what:10} " + " ".join(map(_shown, details))


def _shown(detail: Any) -> str:
    return _iso(detail) if isinstance(detail, int) and detail > 10**12 else str(detail)


def _iso(wall: int) -> str:
    return datetime.fromtimestamp(wall / 1000, UTC).isoformat(timespec="milliseconds")[:23]
