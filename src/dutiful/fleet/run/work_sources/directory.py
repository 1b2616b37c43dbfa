"""A directory as work source: every file in it is an item, and moving it is claiming it.

    inbox/fix-login.md                       waits
    inbox/.claimed/CLAIMER/fix-login.md      is being worked on
    inbox/done/fix-login.md, inbox/failed/…  is over

A claimer is one process. It holds a lock on `.claimed/CLAIMER.lock` as long as it lives. A process that gets
that lock knows that the claimer is dead, and puts its items back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutiful.fleet.config_keys import Key, text
from dutiful.fleet.errors import WorkSourceError
from dutiful.fleet.types import Claim, WorkItem
from dutiful.launchers.python import call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dutiful.fleet.types import JobResult
    from dutiful.runtime.ports import Clock

KEYS = {"path": Key(text, required=True)}
_BYTES_MAX = 262_144


class DirectorySource:
    """Hands out the files of a directory in the order of their names."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock) -> None:
        self._clock = clock
        self._path = Path(settings["path"]).absolute()
        self._claims = _Claimer(self._path / ".claimed")
        self._one_at_a_time = threading.Lock()

    async def claim(self, agent_name: str) -> Claim | str:  # noqa: ARG002 - files have no agents
        """Move the first waiting file to this process, and return it."""
        with self._clock.hold():
            # In a thread of its own: a file system that hangs would take all threads of the loop's small
            # pool, in which the fleet writes its state.
            found: Any = await call(self._claim)
            return found  # type: ignore[no-any-return]  # `call` cannot know the type

    async def report(self, claim: Claim, result: JobResult) -> None:
        """Move the file to `done` or `failed`."""
        await self._move(claim, self._path / ("done" if result.success else "failed"))

    async def release(self, claim: Claim, reason: str) -> None:  # noqa: ARG002 - files do not store it
        """Move the file back."""
        await self._move(claim, self._path)

    async def _move(self, claim: Claim, place: Path) -> None:
        with self._clock.hold():
            try:
                await call(_settle, claim.token, place)
            except FileNotFoundError:
                problem = f"{claim.token} is gone: it was moved or deleted while it was in work"
                raise WorkSourceError("work source `directory`", problem) from None

    def _claim(self) -> Claim | str:
        if not self._path.is_dir():
            raise WorkSourceError("work source `directory`", f"{self._path} is no directory; create it")
        with self._one_at_a_time:
            mine = self._claims.open()
            for left in self._claims.left_by_the_dead():
                with contextlib.suppress(FileNotFoundError):
                    _settle(left, self._path)
            for name in sorted(_waiting(self._path)):
                if _moved(self._path / name, mine / name) and (item := self._read(mine / name)):
                    return Claim(item, mine / name)
        return f"no file in {self._path}"

    def _read(self, path: Path) -> WorkItem | None:
        try:
            return _item(path)
        except FileNotFoundError:
            return None
        except OSError:
            # Move an unreadable file away: otherwise it would block all files behind it.
            _settle(path, self._path / "failed")
            return None


def _waiting(path: Path) -> Iterator[str]:
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
                yield entry.name


def _moved(source: Path, target: Path) -> bool:
    # A file of the same name may arrive while the first is in work: the second must wait, not replace it.
    if target.exists():
        return False
    try:
        source.rename(target)
    except FileNotFoundError:
        return False
    return True


def _settle(source: Path, place: Path) -> None:
    """Move a file to a directory, under another name if its name is taken. Raises FileNotFoundError."""
    place.mkdir(exist_ok=True)
    for target in _names(place, source):
        if _moved_anew(source, target):
            return


def _moved_anew(source: Path, target: Path) -> bool:
    """Move a file and return True; return False where its name is taken. Raises FileNotFoundError."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise
    except OSError:
        # Hard links are not supported here, so check for an existing name before the move.
        if target.exists():
            return False
        source.rename(target)
        return True
    source.unlink(missing_ok=True)
    return True


def _names(place: Path, source: Path) -> Iterator[Path]:
    yield place / source.name
    number = 2
    while True:
        yield place / f"{source.stem}-{number}{source.suffix}"
        number += 1


def _item(path: Path) -> WorkItem:
    with path.open("rb") as file:
        content = file.read(_BYTES_MAX).decode("utf-8", "replace").strip()
    first, _, rest = content.partition("\n")
    number = re.match(r"([0-9]+)[-_. ]", path.name)
    return WorkItem(
        id=path.name,
        source="directory",
        external_id=path.name,
        title=first.lstrip("#").strip() or path.name,
        description=rest.strip(),
        priority=number[1] if number else None,
    )


class _Claimer:
    """This process as one of those that claim files here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = ""
        self._lock: int | None = None

    def open(self) -> Path:
        """Return the directory of this process's claims, ready for use."""
        self._path.mkdir(exist_ok=True)
        if self._lock is not None and not (self._path / f"{self._name}.lock").exists():
            # The directory was deleted and made again. Without a lock file no process could tell that this
            # one has died.
            os.close(self._lock)
            self._lock = None
        while self._lock is None:
            self._name = uuid.uuid4().hex
            # Until the file is locked, another process may take it for the lock of a dead claimer.
            self._lock = _locked(self._path / f"{self._name}.lock", os.O_CREAT | os.O_EXCL)
        mine = self._path / self._name
        mine.mkdir(exist_ok=True)
        return mine

    def left_by_the_dead(self) -> Iterator[Path]:
        """Yield the files of dead claimers; the caller must move each before asking for the next."""
        for path in sorted(self._path.glob("*.lock")):
            held = _locked(path, 0) if path.stem != self._name else None
            if held is None:
                continue
            theirs = path.with_suffix("")
            with contextlib.suppress(FileNotFoundError):
                yield from sorted(theirs.iterdir())
                theirs.rmdir()
            path.unlink()
            os.close(held)


def _locked(path: Path, how: int) -> int | None:
    """Return the descriptor of a file after locking it, or None if that is not possible."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | how, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_same = os.path.samestat(os.fstat(lock), path.stat())
    except OSError:
        is_same = False
    if not is_same:
        os.close(lock)
        return None
    return lock
