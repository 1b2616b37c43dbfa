"""The state file of a running fleet, cached: simultaneous changes share one write, off the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from dutiful.fleet.errors import StateFileError
from dutiful.fleet.state.file import FILE_NAME, States, move_aside, read_states, signature, write_states

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from dutiful.fleet.state.file import Change
    from dutiful.fleet.types import SchedulerLogger
    from dutiful.runtime.ports import Clock

    Changed: TypeAlias = Mapping[tuple[str, str], Change]
T = TypeVar("T")


async def _nothing_known() -> dict[tuple[str, str], dict[str, object]]:
    return {}


class StateCache:
    """Reads the file when it has changed, and writes the noted changes; `states` is its last content.

    A file with damaged content is moved aside under a dated name, and replaced by the records that `rebuild`
    returns. A deleted file is written again with its last known content.
    """

    def __init__(
        self,
        state_dir: Path,
        clock: Clock,
        logger: SchedulerLogger,
        rebuild: Callable[[], Awaitable[Changed]] = _nothing_known,
    ) -> None:
        self._state_dir, self._clock, self._logger, self._rebuild = state_dir, clock, logger, rebuild
        self._signature: tuple[int, ...] | None = None
        self._noted: dict[tuple[str, str], Change] = {}
        self._turn = asyncio.Lock()
        self._following: asyncio.Future[None] | None = None
        self.states = States({}, {})
        # Grows whenever `states` is replaced.
        self.changes = 0

    def has_changed(self) -> bool:
        """Return whether another process has written the file since the last read or write here."""
        return signature(self._state_dir) != self._signature

    async def read(self) -> None:
        """Update `states` from the file. Raises StateFileError."""
        async with self._turn:
            with self._clock.hold():
                await self._put_back()
                self._signature, self.states = await self._recovering(self._read)
                self.changes += 1

    async def _put_back(self) -> None:
        """Write the file again with its last known content, if it was deleted."""
        if self._signature is None or signature(self._state_dir) is not None:
            return
        records = {key: state._asdict() for key, state in self.states.records.items()}
        await asyncio.to_thread(write_states, self._state_dir, records)
        said = "%s was deleted and is written again as it was; to begin anew, stop the fleet first"
        self._logger.warning(said, self._state_dir / FILE_NAME)

    async def _recovering(self, work: Callable[..., T], *arguments: object) -> T:
        """Run `work` in a thread; if the file is damaged, rebuild it and run `work` again."""
        try:
            return await asyncio.to_thread(work, *arguments)
        except StateFileError as error:
            if not error.damaged:
                raise
            aside = await asyncio.to_thread(move_aside, self._state_dir, self._clock.now())
            records = await self._rebuild()
            await asyncio.to_thread(write_states, self._state_dir, records)
            said = "%s. It was moved to %s and rebuilt from the history: %d schedule(s)"
            self._logger.error(said, error, aside, len(records))  # noqa: TRY400 - not a bug, so no traceback
            return await asyncio.to_thread(work, *arguments)

    def _read(self) -> tuple[tuple[int, ...] | None, States]:
        # Take the signature first: a change between the two reads is then noticed by the next call.
        return signature(self._state_dir), read_states(self._state_dir)

    def note(self, agent: str, schedule: str, change: Change) -> None:
        """Add a change to the next flush, after earlier changes of the same schedule."""
        earlier = self._noted.get((agent, schedule))
        self._noted[agent, schedule] = change if earlier is None else _both(earlier, change)

    async def flush(self) -> None:
        """Return when all noted changes are in the file. Raises StateFileError; the changes are kept then.

        However many callers there are, at most one write is under way and one more follows, which takes all
        changes noted before it begins.
        """
        if self._following is None:
            self._following = asyncio.ensure_future(self._write())
        await asyncio.shield(self._following)

    async def _write(self) -> None:
        with self._clock.hold():
            # Changes that other tasks note in this turn of the loop go into the same write.
            await asyncio.sleep(0)
            async with self._turn:
                self._following = None
                noted, self._noted = self._noted, {}
                if not noted:
                    return
                foreign = self.has_changed()
                try:
                    await self._put_back()
                    written, states = await self._recovering(self._put, noted)
                except BaseException:
                    self._keep(noted)
                    raise
                # After a foreign change keep the old signature, so that the file is read again.
                self._signature, self.states = (self._signature if foreign else written), states
                self.changes += 1

    def _keep(self, noted: dict[tuple[str, str], Change]) -> None:
        """Put back changes that could not be written, before those noted meanwhile."""
        meanwhile, self._noted = self._noted, noted
        for (agent, schedule), change in meanwhile.items():
            self.note(agent, schedule, change)

    def _put(self, noted: dict[tuple[str, str], Change]) -> tuple[tuple[int, ...] | None, States]:
        states = write_states(self._state_dir, noted)
        return signature(self._state_dir), states


def _both(first: Change, second: Change) -> Change:
    """Return one change that has the effect of these two, one after the other."""
    return lambda known: {
        **(first(known) if callable(first) else first),
        **(second(known) if callable(second) else second),
    }
