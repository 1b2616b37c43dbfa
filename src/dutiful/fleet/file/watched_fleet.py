"""The fleet of a file that may change while it is used: read again whenever it or an included file does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dutiful.fleet.errors import FleetConfigError
from dutiful.fleet.file.config import Fleet, read_fleet, state_dir_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from logging import Logger

    from dutiful.fleet.types import Agent

_Signature: TypeAlias = tuple[int, int, int, int] | None


class WatchedFleet:
    """The fleet of a file, as last read; `problem` says why the newest version of its files is not used."""

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
        """The state directory."""
        return state_dir_of(self.path, self.fleet)

    def reload(self) -> Sequence[Agent] | None:
        """Return the agents if a file has changed and all can be read, else None.

        A file that cannot be used is logged once and becomes the `problem`.
        """
        if _signatures(self._seen) == self._seen:
            return None
        found = self._read()
        if isinstance(found, FleetConfigError):
            self.problem = str(found)
            self._logger.warning("%s\nThe fleet goes on as it was; mend the file", found)
            return None
        if found.state_dir != self.fleet.state_dir:
            self.problem = f"{self.path}: `state_dir` cannot change while the fleet runs; restart it to move"
            self._logger.warning("%s. The fleet goes on as it was", self.problem)
            return None
        if found.check_interval != self.fleet.check_interval:
            self._logger.warning("%s: `check_interval` takes effect with the next start", self.path.name)
        self.fleet, self.problem = found, None
        self._logger.info("%s was read again: %d agent(s)", self.path.name, len(found.agents))
        return found.agents

    def _read(self) -> Fleet | FleetConfigError:
        files = [self.path]
        while True:
            # Take signatures before reading the files: a change in between is then noticed by the next call.
            self._seen = _signatures(files)
            found, files = read_fleet(self.path)
            if self._seen.keys() >= {*files}:
                return found


def _signatures(files: Iterable[Path]) -> dict[Path, _Signature]:
    return {file: _signature(file) for file in files}


def _signature(file: Path) -> _Signature:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    # Two writes within one tick of the file system's clock differ in ctime, or at least in size.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
