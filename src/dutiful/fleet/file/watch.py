"""The fleet file of a running fleet, read again whenever it or a file that it includes has changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dutiful.fleet.errors import FleetConfigError
from dutiful.fleet.file.config import read_fleet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from logging import Logger

    from dutiful.fleet.file.config import Fleet
    from dutiful.fleet.types import Agent

STATE_DIR = ".dutiful"
_Signature: TypeAlias = tuple[int, int, int, int] | None


class WatchedFleet:
    """A fleet as its files say; `problem` is what keeps their newest version from being used."""

    def __init__(self, path: str | os.PathLike[str], logger: Logger) -> None:
        """Read the file. Raises FleetConfigError."""
        self.path = Path(path).absolute()
        self._logger = logger
        self._seen: dict[Path, _Signature] = {}
        found = self._read()
        if isinstance(found, FleetConfigError):
            raise found
        self.fleet: Fleet = found
        self.problem: str | None = None

    @property
    def state_dir(self) -> Path:
        """Where the state is kept."""
        return state_dir_of(self.path, self.fleet)

    def reload(self) -> Sequence[Agent] | None:
        """Return the agents if a file has changed and all can be read, else None. Bad files are told once."""
        if _signatures(self._seen) == self._seen:
            return None
        found = self._read()
        if isinstance(found, FleetConfigError):
            self.problem = str(found)
            self._logger.warning("%s\nThe fleet goes on as it was; mend the file", found)
            return None
        self._tell_what_must_wait(found)
        self.fleet, self.problem = found, None
        self._logger.info("%s was read again: %d agent(s)", self.path.name, len(found.agents))
        return found.agents

    def _tell_what_must_wait(self, found: Fleet) -> None:
        for key in ("state_dir", "check_interval"):
            if getattr(found, key) != getattr(self.fleet, key):
                self._logger.warning("%s: `%s` takes effect with the next start", self.path.name, key)

    def _read(self) -> Fleet | FleetConfigError:
        files = [self.path]
        while True:
            # Before they are read: a change in between is then seen by the next look.
            self._seen = _signatures(files)
            found, files = read_fleet(self.path)
            if self._seen.keys() >= {*files}:
                return found


def state_dir_of(path: Path, fleet: Fleet) -> Path:
    """Return where the fleet of a file keeps its state: beside the file, unless it says otherwise."""
    return fleet.state_dir or path.parent / STATE_DIR


def _signatures(files: Iterable[Path]) -> dict[Path, _Signature]:
    return {file: _signature(file) for file in files}


def _signature(file: Path) -> _Signature:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    # Of two writes within one tick of the clock the second is seen by the time of the inode's change, or not
    # at all where that ticks as slowly; then by its size.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
