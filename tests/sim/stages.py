"""Where a world is played: on the reference store, on a SQLite file, or on both, which must agree."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.sim.file_store import AtOnce, FileStore, in_its_time
from tests.sim.runner import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.sim.runner import Result
    from tests.sim.world import World

NAME = "world.sqlite3"


def on_file(world: World) -> Result:
    """Play a world on a file whose thread answers when it is ready, as in production."""
    with TemporaryDirectory() as folder:
        return run(world, FileStore(str(Path(folder, NAME)), in_its_time))


def on_both(world: World) -> Result:
    """Play a world in memory and on a file; every difference between the two is a problem."""
    expected = run(world)
    with TemporaryDirectory() as folder, AtOnce() as at_once:
        found = run(world, FileStore(str(Path(folder, NAME)), at_once.answer))
    return expected._replace(problems=[*expected.problems, *differences(expected, found)])


def differences(expected: Result, found: Result) -> Iterator[str]:
    """Tell the first event, what is left in the end, and the verdict, where they differ."""
    for one, other in zip_longest(expected.trace, found.trace):
        if one != other:
            yield f"stores: {one} in memory, {other} on the file"
            return
    for one, other in zip_longest(expected.left, found.left):
        if one != other:
            yield f"stores: {one} is left in memory, {other} on the file"
            return
    if expected.problems != found.problems:
        yield f"stores: {expected.problems} were found in memory, {found.problems} on the file"


STAGES: dict[str, Callable[[World], Result]] = {"memory": run, "sqlite": on_file, "both": on_both}
