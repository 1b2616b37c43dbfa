"""The work sources that a fleet file can describe, and `WorkSources`, which hands out their items."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import SchedulerError
from dutiful.fleet.config_keys import problems_of, settings_of
from dutiful.fleet.run.work_sources import directory, http, table
from dutiful.fleet.types import Claim, NextWorkItem, Problem
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from dutiful.fleet.types import Agent, Config, JobResult, WorkSource
    from dutiful.runtime.ports import Clock

_KINDS = {"directory": directory.KEYS, "http": http.KEYS, "table": table.KEYS}
_SOURCES: Mapping[str, Callable[[Mapping[str, Any], Clock], WorkSource]] = {
    "directory": directory.DirectorySource,
    "http": http.HttpSource,
    "table": table.TableSource,
}


def problems_of_work_source(config: object) -> Iterator[Problem]:
    """Yield every problem of a `work_source`; paths are relative to it. Nothing is opened."""
    return problems_of(config, _KINDS)


def unready_work_source(config: Config, folder: Path) -> Iterator[Problem]:
    """Yield why a valid work source could not be used, as far as can be seen now."""
    settings = settings_of(config, _KINDS, "work_source")
    if config["type"] == "directory" and not (folder / settings["path"]).is_dir():
        yield Problem(("path",), f"is no directory; make {folder / settings['path']}", settings["path"])
    if config["type"] == "table" and not (folder / settings["database"]).parent.is_dir():
        yield Problem(("database",), "is in a directory that does not exist", settings["database"])


class WorkSources:
    """Hands out the items of all work sources, and remembers the source of each claimed item."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._sources: dict[str, WorkSource] = {}
        self._claims: dict[str, tuple[WorkSource, Claim]] = {}
        self._numbers = count(1)

    async def get_next_work_item(self, agent: Agent, work_source: Config) -> NextWorkItem:
        """Claim the next item of this source; raises WorkSourceError if the source does not answer."""
        source = self._source(work_source)
        found = await _claimed(source, agent.name)
        if isinstance(found, str):
            return NextWorkItem(None, claimed=False, reason=found)
        item = found.item._replace(id=f"{work_source['type']}-{next(self._numbers)}:{found.item.external_id}")
        self._claims[item.id] = (source, found._replace(item=item))
        return NextWorkItem(item, claimed=True)

    async def report_outcome(self, item_id: str, result: JobResult) -> None:
        """Record the result of the work on a claimed item. Raises KeyError if it is not claimed."""
        source, claim = self._claims[item_id]
        await source.report(claim, result)
        del self._claims[item_id]

    async def release_work_item(self, item_id: str, reason: str) -> None:
        """Release a claimed item; raises KeyError if it is not claimed."""
        source, claim = self._claims[item_id]
        await source.release(claim, reason)
        del self._claims[item_id]

    def _source(self, config: Config) -> WorkSource:
        key = json.dumps(config, sort_keys=True, default=str)
        if key not in self._sources:
            settings = settings_of(config, _KINDS, "work_source")
            self._sources[key] = _SOURCES[config["type"]](settings, self._clock)
        return self._sources[key]


async def _claimed(source: WorkSource, agent_name: str) -> Claim | str:
    claiming = asyncio.ensure_future(source.claim(agent_name))
    try:
        return await asyncio.shield(claiming)
    except asyncio.CancelledError:
        # A claim that has begun cannot be cancelled: without a release its item would stay claimed.
        with suppress(SchedulerError):
            found = await claiming
            if isinstance(found, Claim):
                await source.release(found, "cancelled before it began")
        raise
