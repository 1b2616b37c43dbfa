"""`SqliteStore`: the contract of `ports.Store` on one SQLite file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import threading
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from dutiful.core.errors import LostLeadershipError, NamespaceOwnedError, StoreError
from dutiful.stores.sqlite import edits, figures, file, reads, transfer, upkeep
from dutiful.stores.sqlite.commit import commit
from dutiful.stores.sqlite.interned_texts import Texts
from dutiful.stores.sqlite.lock import LeaderLock
from dutiful.stores.sqlite.settle import report, settle
from dutiful.stores.sqlite.survey import survey
from dutiful.stores.sqlite.writer import Writer
from dutiful.stores.transfer import COPIER

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Changes, Note
    from dutiful.core.errors import FaultyKey
    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.plan.reconcile import Survey
    from dutiful.core.run import Kind, Run
    from dutiful.core.schedule import Alike, Schedule
    from dutiful.core.snapshot import Move, Snapshot
    from dutiful.core.tally import Tally
    from dutiful.core.workflow import Workflow, WorkflowEntry
    from dutiful.runtime.ports import (
        Committed,
        Facets,
        Found,
        Leader,
        Loaded,
        PausedUntil,
        Retention,
        RunFilter,
        RunPage,
        RunPlace,
    )
    from dutiful.stores.rows import Damage, Row
    from dutiful.stores.transfer import Facts

T = TypeVar("T")
P = ParamSpec("P")
_KEY = re.compile(r"[0-9a-f]{64}")


class SqliteStore:
    """Keeps everything in one SQLite file; schedules of different namespaces do not see each other.

    Waits up to `busy_timeout` seconds for another program that has locked the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, namespace: str = "default", busy_timeout: float = 5.0
    ) -> None:
        self._path, self._namespace = os.path.realpath(path), namespace
        lock_path = f"{self._path}.{namespace}.lock"
        self._file = file.DatabaseFile(self._path, lock_path, busy_timeout)
        self._lock = LeaderLock(lock_path)
        self._writer: Writer | None = None
        self._turn = threading.Lock()
        self._process = os.getpid()
        self._leading: tuple[str, int] | None = None
        self._texts_max = upkeep.TEXTS_MAX
        # A new random text at each opening of the file: change counts of different openings never compare
        # equal.
        self._opening = ""

    # Life

    async def open(self) -> None:
        """Prepare the file, or raise StoreError and leave it as it is."""
        if self._writer is not None:
            return
        self._process = os.getpid()
        writer = Writer(self._path, self._connected, self._file.check)
        await writer.start()
        self._writer = writer

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # The thread of an opening that was cancelled comes to its end before the next one begins.
        with self._turn:
            try:
                with contextlib.closing(self._connect()) as connection:
                    yield connection
            finally:
                # A `lead` that was cancelled may have taken it since.
                self._lock.release()

    def _connect(self) -> sqlite3.Connection:
        connection = self._file.connect()
        try:
            self._verify(connection)
        except BaseException:
            connection.close()
            raise
        self._opening = secrets.token_hex(4)
        # Forget the texts that were read before: the file may have been changed by another program.
        self._texts = Texts(connection)
        return connection

    def _verify(self, connection: sqlite3.Connection) -> None:
        # A leader in another process has already verified the file, and "clean" is never set while it leads.
        if not self._lock.acquire():
            return
        try:
            clean = file.stored_number(connection, self._namespace, "clean", 1) != 0
            self._file.verify(connection, clean=clean)
        finally:
            self._lock.release()

    async def close(self) -> None:
        """Close the file and release the leadership."""
        if self._writer is None:
            return
        writer = self._open_writer()
        try:
            if self._leading is not None:
                # Without the "clean" mark the next start only verifies the file once more.
                with contextlib.suppress(StoreError):
                    await self._write(file.store_number, "clean", 1)
        finally:
            self._writer = None
            self._stand_down()
            await writer.stop()

    def _stand_down(self) -> None:
        self._leading = None
        self._lock.release()

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise StoreError(f"The database {self._path} is not open", "call open() first", path=self._path)
        if self._process != os.getpid():
            advice = "open a store of its own in each process"
            raise StoreError(
                f"The database {self._path} was opened by a parent process", advice, path=self._path
            )
        return self._writer

    async def _read(
        self, query: Callable[Concatenate[sqlite3.Connection, str, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the result of a query that takes the connection, the namespace and these arguments."""
        return await self._open_writer().read(lambda each: query(each, self._namespace, *args, **kwargs))

    async def _decode(
        self,
        query: Callable[Concatenate[sqlite3.Connection, Texts, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of a query that also takes the texts of cadences and policies."""
        return await self._open_writer().read(
            lambda each: query(each, self._texts, self._namespace, *args, **kwargs)
        )

    async def _write(
        self, work: Callable[Concatenate[sqlite3.Connection, str, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the result of a transaction that takes the connection, the namespace and these arguments."""
        return await self._open_writer().write(lambda each: work(each, self._namespace, *args, **kwargs))

    # Leadership

    async def claim(self, door: str) -> None:
        """Record the door that owns the namespace."""
        owner = await self._read(file.owning_door)
        if owner is None:
            owner = await self._write(file.claim_namespace, door)
        if owner != door:
            raise NamespaceOwnedError(self._path, self._namespace, owner)

    async def leader(self) -> Leader | None:
        """Return the holder of the namespace's lock."""
        return self._lock.holder()

    async def lead(self, owner: str) -> int | None:
        """Return the epoch of `owner`, or None while another owner leads."""
        self._open_writer()
        if self._leading is not None:
            leader, epoch = self._leading
            self._lock.beat()
            return epoch if leader == owner else None
        loop = asyncio.get_running_loop()
        if not await self._open_writer().read(lambda _: self._lock.acquire(loop)):
            return None
        try:
            epoch = await self._write(self._begin_leadership)
        except BaseException:
            self._lock.release()
            raise
        self._leading = owner, epoch
        return epoch

    def _begin_leadership(self, connection: sqlite3.Connection, namespace: str) -> int:
        edits.unmark(connection, reads.repaired(connection, self._texts, namespace))
        return file.begin_leadership(connection, namespace)

    def holds(self, epoch: int) -> bool:
        """Return whether this opening leads under the epoch."""
        return self._leading is not None and self._leading[1] == epoch

    async def _write_leading(
        self,
        epoch: int,
        work: Callable[Concatenate[sqlite3.Connection, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        leading = self._leading

        def checked(connection: sqlite3.Connection, namespace: str) -> T:
            current = file.stored_number(connection, namespace, "epoch", 0)
            if leading is None or epoch != current:
                raise LostLeadershipError(epoch, current)
            return work(connection, namespace, *args, **kwargs)

        try:
            return await self._write(checked)
        except LostLeadershipError:
            # Another process took over in spite of the lock: release the lock, and compete for it again.
            if leading is not None and leading[1] == epoch:
                self._stand_down()
            raise

    # Schedules

    async def apply(self, changes: Changes) -> None:
        """Write and delete schedules."""
        if changes.under is None:
            await self._write(edits.apply, changes)
        else:
            await self._write_leading(changes.under, edits.apply, changes)

    async def request(self, run: Run) -> Run | None:
        """Record a manual run."""
        return await self._write(edits.request, run)

    async def get(self, schedule_id: str) -> Snapshot | None:
        """Return one schedule, unless it is damaged."""
        return next(iter(await self._marking(reads.some, "id = ?", [schedule_id])), None)

    async def some(self, ids: Iterable[str]) -> list[Snapshot]:
        """Return the schedules among these that are stored and not damaged."""
        return await self._marking(reads.with_ids, ids)

    async def page(
        self, after: str, limit: int, facets: Facets = (), paused: bool | None = None
    ) -> list[Snapshot]:
        """Return the schedules that come after an id and are not damaged."""
        return await self._marking(reads.page, facets, paused, after, limit)

    async def count(self, facets: Facets = (), paused: bool | PausedUntil | None = None) -> int:
        """Return how many schedules have these facets."""
        return await self._read(reads.count, facets, paused)

    async def soonest(self, limit: int, facets: Facets = ()) -> list[Snapshot]:
        """Return the schedules with the earliest wakes."""
        return await self._marking(reads.soonest, limit, facets)

    async def count_due(self, until: Instant, limit: int, facets: Facets = ()) -> int:
        """Return how many schedules wake in time."""
        return await self._read(reads.count_due, until, limit, facets)

    async def revision(self) -> str:
        """Return the counts of changes by this connection and by others, as a text."""

        def read(connection: sqlite3.Connection, _: str) -> str:
            (others,) = connection.execute("PRAGMA data_version").fetchone()
            return f"{self._opening}.{others}.{connection.total_changes}"

        return await self._read(read)

    async def notes(self, ids: Iterable[str]) -> dict[str, Note]:
        """Return the notes of these schedules."""
        return await self._read(reads.notes, ids)

    async def every(self) -> list[Snapshot]:
        """Return all schedules but the damaged ones."""
        return await self._marking(reads.every)

    async def survey(self, declared: Sequence[Schedule]) -> Survey:
        """Return how the schedules differ from a declaration; a damaged schedule always differs."""
        return await self._marking(survey, declared)

    async def _marking(
        self,
        query: Callable[Concatenate[sqlite3.Connection, Texts, str, P], tuple[T, list[Damage]]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of a query, after marking the schedules that it found damaged."""
        found, damage = await self._decode(query, *args, **kwargs)
        if damage:
            await self._mark(damage)
        return found

    async def damaged(self) -> list[tuple[str, str]]:
        """Return (id, problem) of the schedules that were found damaged."""
        return await self._read(reads.marked)

    async def faulty_key(self, schedule_id: str) -> FaultyKey | None:
        """Return the key for which a schedule cannot be read; None where no key is to blame."""
        return await self._decode(reads.faulty, schedule_id)

    async def _mark(self, found: Sequence[Damage]) -> None:
        await self._open_writer().write(lambda connection: edits.mark(connection, found))

    # Passes

    async def load(self, now: Instant, limit: int, also: Collection[str] = ()) -> Loaded:
        """Return the due schedules and those with these ids; damaged schedules are marked and left out."""
        while True:
            loaded, damage = await self._decode(reads.load, now, limit, also)
            if not damage:
                return loaded
            await self._mark(damage)

    async def commit(self, moves: Sequence[Move], epoch: int) -> Committed:
        """Record the moves; return which were made, and the runs to launch."""
        return await self._write_leading(epoch, commit, moves)

    async def settle(self, settlements: Sequence[Settlement], epoch: int) -> list[bool]:
        """Record the outcomes of attempts."""
        return await self._write_leading(epoch, settle, settlements)

    async def report(self, found: Run, became: Settlement) -> bool:
        """Record an executor's report on a run."""
        return await self._write(report, found, became)

    # The ledger

    async def ledger(
        self, schedule_id: str, until: Instant | None, limit: int, kind: Kind | None = None
    ) -> list[Run]:
        """Return rows, newest first."""
        return await self._read(reads.ledger, schedule_id, until, limit, kind)

    async def latest(self, ids: Collection[str], limit: int) -> dict[str, list[Run]]:
        """Return the newest rows of each of these schedules."""
        return await self._read(reads.latest, ids, limit)

    async def recent(self, limit: int) -> list[Run]:
        """Return rows of all schedules, newest first."""
        return await self._read(reads.recent, limit)

    async def runs(
        self, wanted: RunFilter, after: RunPlace | None, limit: int, oldest_first: bool = False
    ) -> RunPage:
        """Return the rows that match."""
        return await self._read(figures.matching, wanted, after, limit, oldest_first)

    async def note_start(self, key: str, now: Instant, keep: int) -> None:
        """Record a start outside the ledger."""
        await self._write(figures.note_start, key, now, keep)

    async def has_start(self, key: str) -> bool:
        """Return whether a start under this key is recorded."""
        return await self._read(figures.has_start, key)

    async def open_counts(self) -> dict[str, int]:
        """Return how many open runs are in each phase."""
        return await self._read(figures.open_counts)

    async def find(self, key: str) -> Found | None:
        """Return the row with this key, and its schedule."""
        if not _KEY.fullmatch(key):
            return None
        digest = bytes.fromhex(key)
        return await self._decode(reads.find, digest)

    # Figures

    async def tallies(
        self, since: Instant, until: Instant, width: int, owner: str | None = None
    ) -> list[Tally]:
        """Return the number of recorded ticks by status and reason."""
        return await self._read(figures.tallies, owner, since, until, width)

    async def open_runs(self, limit: int, owner: str | None = None) -> list[Run]:
        """Return runs that have not ended."""
        return await self._read(figures.open_runs, owner, limit)

    async def find_ids(self, part: str, after: str, limit: int, owner: str | None = None) -> list[str]:
        """Return ids that contain a text."""
        return await self._read(figures.find_ids, owner, part, after, limit)

    async def troubled(self, limit: int, owner: str | None = None) -> list[Snapshot]:
        """Return schedules that need attention."""
        return await self._marking(figures.troubled, owner, limit)

    async def cadences(self, owner: str | None = None) -> list[Alike]:
        """Return the schedules that are not paused, those that are alike together."""
        return await self._decode(figures.cadences, owner)

    # Workflows

    async def load_workflow(self, workflow_id: str, version: int) -> Workflow | None:
        """Return one version of a workflow."""
        return await self._read(figures.load_workflow, workflow_id, version)

    async def workflow_owner(self, workflow_id: str) -> str | None:
        """Return the owner of a workflow."""
        return await self._read(figures.workflow_owner, workflow_id)

    async def workflows(
        self, after: tuple[str, int], limit: int, owner: str | None = None
    ) -> list[WorkflowEntry]:
        """Return the versions that come after this one."""
        return await self._read(figures.listed_workflows, after, limit, owner)

    async def delete_workflow(self, workflow_id: str, version: int) -> bool:
        """Delete one version, and return whether it was there."""
        return await self._write(figures.delete_workflow, workflow_id, version)

    # Copies

    async def begin_transfer(self) -> Facts | None:
        """Lead the namespace and return its facts; None while another process leads."""
        if await self.lead(COPIER) is None:
            return None
        return await self._read(transfer.facts)

    async def read_rows(self, table: str, after: Row | None, limit: int) -> list[Row]:
        """Return rows in the order of their keys."""
        return await self._read(transfer.read_rows, table, after, limit)

    async def write_rows(self, table: str, rows: Sequence[Row], offset: int) -> None:
        """Write rows as they are."""
        await self._write(transfer.write_rows, table, rows, offset)

    async def highest_number(self) -> int:
        """Return the highest number that a schedule has had."""
        return await self._open_writer().read(transfer.highest_number)

    async def clear(self) -> None:
        """Delete everything in the namespace, and mark it as being written to."""
        await self._write(transfer.clear)

    async def count_rows(self, table: str) -> int:
        """Return how many rows of the namespace a table has."""
        return await self._read(transfer.count_rows, table)

    async def finish(self, facts: Facts) -> None:
        """Complete the derived values, and give the namespace to its door."""
        await self._write(transfer.finish, facts)

    # Upkeep

    async def rearm(self, now: Instant, beyond: int) -> int:
        """Re-arm the schedules that are far ahead of `now`."""
        return await self._open_writer().write(
            lambda connection: upkeep.rearm(connection, self._texts, self._namespace, now, beyond)
        )

    async def prune(self, now: Instant, retention: Retention) -> int:
        """Delete ended rows beyond the retention, in slices, so that passes can run in between."""
        deleted = 0
        for numbers in await self._read(upkeep.slices):
            deleted += await self._write(upkeep.prune, numbers, now, retention)
        self._texts_max = await self._open_writer().write(
            lambda connection: upkeep.prune_texts(connection, self._texts_max)
        )
        return deleted
