"""A store that fails on request: before the write, or after it, when only the answer is lost."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from dutiful.core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dutiful.runtime.ports import Store

    Verdict = Literal["before", "after", "pause"] | None

# Another instance, of which nothing is seen but that it leads.
RIVAL = "rival"


class Crashed(BaseException):
    """The process died here; nothing may catch this."""


def honest(_: str) -> Verdict:
    return None


async def nothing(_: str, *_args: Any) -> None:
    pass


async def depose(store: Store) -> None:
    """Let the rival lead, as if this instance had been out of touch for too long."""
    await store.close()
    await store.open()
    await store.lead(RIVAL)


class Gate:
    """One engine's way to the store; `verdict(method)` says how each call goes.

    `between(method, *args)` is awaited just before it: what others do at the worst moment.
    """

    def __init__(
        self,
        store: Store,
        verdict: Callable[[str], Verdict] = honest,
        between: Callable[..., Awaitable[None]] = nothing,
    ) -> None:
        self._store, self._verdict, self._between = store, verdict, between
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    def holds(self, epoch: int) -> bool:
        return self._store.holds(epoch)

    async def _call(self, name: str, *args: Any) -> Any:
        verdict = self._verdict(name)
        if verdict == "pause":
            await asyncio.sleep(0)
        if self.dead:
            raise Crashed
        await self._between(name, *args)
        if verdict == "before":
            raise StoreError("The disk is full", "make room")
        answer = await getattr(self._store, name)(*args)
        if verdict == "after":
            raise StoreError("The connection was lost", "look whether it was written")
        return answer
