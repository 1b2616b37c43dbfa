"""An event loop whose time stands still: no limit passes on a busy machine, until a test says so."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager


class StillLoop(asyncio.SelectorEventLoop):
    """A real event loop whose time moves only by `let_pass`."""

    _now = 0.0

    def time(self) -> float:
        return self._now

    def let_pass(self, seconds: float) -> None:
        self._now += seconds


def let_pass(seconds: float) -> None:
    """Move the time of the running loop on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StillLoop)
    loop.let_pass(seconds)


def run_still(story: Coroutine[Any, Any, Any]) -> Any:
    """Return what the story returns."""
    with asyncio.Runner(loop_factory=StillLoop) as runner:
        return runner.run(story)


Serve: TypeAlias = "Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]"


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """Serve on a free port of 127.0.0.1, and yield it; connections that are open at the end are cut."""
    open_ones = []

    async def remembered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.append(writer)
        await serve(reader, writer)

    async with await asyncio.start_server(remembered, "127.0.0.1", 0) as server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            for writer in open_ones:
                writer.transport.abort()


def silent_server(seconds: float) -> AbstractAsyncContextManager[int]:
    """Serve without answering; the first byte of a request lets `seconds` pass on the loop."""

    async def keep_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1)
        let_pass(seconds)

    return serving(keep_silent)
