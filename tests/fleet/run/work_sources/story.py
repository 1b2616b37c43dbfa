"""Work sources as the runner uses them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from dutiful.fleet.run.work_sources import WorkSources
from dutiful.fleet.types import Agent, JobResult

if TYPE_CHECKING:
    from collections.abc import Callable

AGENT = Agent("scout")
DONE, FAILED = JobResult(True, "fixed"), JobResult(False, None, "no disk")


class Desk:
    """One process's view of one work source."""

    def __init__(self, config: dict[str, Any], clock: Any = None) -> None:
        self.config, self.sources = config, WorkSources(clock)

    async def claim(self) -> Any:
        """Return the item that was claimed, or the reason why there is none."""
        found = await self.sources.get_next_work_item(AGENT, self.config)
        assert found.claimed is (found.item is not None)
        return found.item or found.reason

    async def report(self, item: Any, result: JobResult) -> None:
        await self.sources.report_outcome(item.id, result)

    async def release(self, item: Any) -> None:
        await self.sources.release_work_item(item.id, "changed my mind")


def play(story: Callable[[Desk], Any], config: dict[str, Any], clock: Any = None) -> Any:
    return asyncio.run(story(Desk(config, clock)))


CLAIMER = """
    import asyncio, sys
    from tests.fleet.run.work_sources.story import AGENT, DONE, Desk

    async def story(desk):
        sys.stdin.readline()
        while not isinstance(item := await desk.claim(), str):
            print(item.external_id, flush=True)
            if {dies!r}:
                import os, signal
                os.kill(os.getpid(), signal.SIGKILL)
            await desk.report(item, DONE)

    asyncio.run(story(Desk({config!r})))
"""


def claimer(config, *, dies: bool = False) -> subprocess.Popen[str]:
    program = textwrap.dedent(CLAIMER.format(config=config, dies=dies))
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)
