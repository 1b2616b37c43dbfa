"""The state file as the running fleet keeps it: changes of one moment are one write, off the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dutiful.fleet.state.file import States, read_states, signature, write_states

if TYPE_CHECKING:
    from pathlib import Path

    from dutiful.fleet.state.file import Change
    from dutiful.runtime.ports import Clock


class StateBook:
    """Reads the file when it has changed, and writes what is noted here; `states` is what it said last."""

    def __init__(self, state_dir: Path, clock: Clock) -> None:
        self._state_dir, self._clock = state_dir, clock
        self._signature: tuple[int, ...] | None = None
        self._noted: dict[tuple[str, str], Change] = {}
        self._turn = asyncio.Lock()
        self._following: asyncio.Future[None] | None = None
        self.states = States({}, {})

    def has_changed(self) -> bool:
        """Return whether somebody else has written the file since it was last read or written here."""
        return signature(self._state_dir) != self._signature

    async def read(self) -> None:
        """Bring `states` up to date. Raises StateFileError."""
        async with self._turn:
            with self._clock.hold():
                self._signature, self.states = await asyncio.to_thread(self._read)

    def _read(self) -> tuple[tuple[int, ...] | None, States]:
        # In this order: a change in between is then seen by the next look.
        return signature(self._state_dir), read_states(self._state_dir)

    def note(self, agent: str, schedule: str, change: Change) -> None:
        """Have this written with the next flush, after what was noted of the same schedule before."""
        earlier = self._noted.get((agent, schedule))
        self._noted[agent, schedule] = change if earlier is None else _both(earlier, change)

    async def flush(self) -> None:
        """Return when everything noted so far is in the file. Raises StateFileError; nothing is lost then.

        However many ask, there is one write under way and one to follow, which takes all that is noted by
        the time it begins.
        """
        if self._following is None:
            self._following = asyncio.ensure_future(self._write())
        await asyncio.shield(self._following)

    async def _write(self) -> None:
        with self._clock.hold():
            # What others note at this very moment goes into the same write.
            await asyncio.sleep(0)
            async with self._turn:
                self._following = None
                noted, self._noted = self._noted, {}
                if not noted:
                    return
                foreign = self.has_changed()
                try:
                    written, states = await asyncio.to_thread(self._put, noted)
                except BaseException:
                    self._keep(noted)
                    raise
                # Somebody else's change in between is still to be looked at.
                self._signature, self.states = (self._signature if foreign else written), states

    def _keep(self, noted: dict[tuple[str, str], Change]) -> None:
        """Put back what could not be written, before what was noted meanwhile."""
        meanwhile, self._noted = self._noted, noted
        for (agent, schedule), change in meanwhile.items():
            self.note(agent, schedule, change)

    def _put(self, noted: dict[tuple[str, str], Change]) -> tuple[tuple[int, ...] | None, States]:
        states = write_states(self._state_dir, noted)
        return signature(self._state_dir), states


def _both(first: Change, second: Change) -> Change:
    """Return the change that has the effect of one after the other."""
    return lambda known: {
        **(first(known) if callable(first) else first),
        **(second(known) if callable(second) else second),
    }
