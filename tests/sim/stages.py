"""Where a world is played: on the reference store, on a SQLite file, or on both, which must agree."""

from __future__ import annotations

import asyncio
import threading
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from tests.sim.runner import run

from dutiful.core.errors import StoreError
from dutiful.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from types import TracebackType

    from tests.sim.runner import Result
    from tests.sim.world import World

NAME = "world.sqlite3"
T = TypeVar("T")


async def in_its_time(call: Coroutine[Any, Any, T]) -> T:
    """Await an answer as production does: whatever else is ready goes first."""
    return await call


class FileStore:
    """`SqliteStore`, opened anew by each process of the world, which dies without a goodbye.

    `answer` says how its calls are waited for.
    """

    def __init__(self, path: str, answer: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]) -> None:
        self._path, self._answer = path, answer
        self._store: SqliteStore | None = None

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any) -> Any:
            if self._store is None:
                raise StoreError("Nobody has the file open", "open it")
            return await self._answer(getattr(self._store, name)(*args))

        return call

    def holds(self, epoch: int) -> bool:
        return self._store is not None and self._store.holds(epoch)

    async def open(self) -> None:
        self._store = SqliteStore(self._path)
        await self._answer(self._store.open())

    async def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            # Closing without the lead releases nothing, as when a process dies.
            store._stand_down()
            await self._answer(store.close())


class AtOnce:
    """Has calls made on an event loop of another thread, and keeps this one waiting meanwhile.

    Nothing comes between a call and its answer then, just as with the reference store, so that a world
    takes the same course on both.
    """

    def __enter__(self) -> AtOnce:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def answer(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()


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
