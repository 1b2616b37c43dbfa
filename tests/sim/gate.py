"""A store that fails on request: before the write, or after it, when only the answer is lost."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from dutiful.core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.ports import Store

    Verdict = Literal["before", "after", "pause"] | None


class Crashed(BaseException):
    """The process died here; nothing may catch this."""


def honest(_: str) -> Verdict:
    return None


class Gate:
    """One engine's way to the store; `verdict(method)` says how each call goes."""

    def __init__(self, store: Store, verdict: Callable[[str], Verdict] = honest) -> None:
        self._store, self._verdict = store, verdict
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    async def _call(self, name: str, *args: Any) -> Any:
        verdict = self._verdict(name)
        if verdict == "pause":
            await asyncio.sleep(0)
        if self.dead:
            raise Crashed
        if verdict == "before":
            raise StoreError("The disk is full", "make room")
        answer = await getattr(self._store, name)(*args)
        if verdict == "after":
            raise StoreError("The connection was lost", "look whether it was written")
        return answer
