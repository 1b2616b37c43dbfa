"""The part of `ports.Store` that needs no leadership: schedules, the ledger, figures and workflows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from dutiful.stores.postgres import edits, figures, migration, reads, workflows
from dutiful.stores.postgres.connections import storable
from dutiful.stores.postgres.copied import refuse_copied
from dutiful.stores.postgres.settle import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Changes, Note
    from dutiful.core.errors import FaultyKey
    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.plan.reconcile import Survey
    from dutiful.core.run import Kind, Run
    from dutiful.core.schedule import Alike, Schedule
    from dutiful.core.snapshot import Snapshot
    from dutiful.core.tally import Tally
    from dutiful.core.workflow import Workflow, WorkflowEntry
    from dutiful.runtime.ports import Facets, Found, PausedUntil, RunFilter, RunPage, RunPlace
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.database import OpenDatabase
    from dutiful.stores.postgres.edits import Places
    from dutiful.stores.rows import Damage

T = TypeVar("T")
_KEY = re.compile(r"[0-9a-f]{64}")
_NOTE_START = (
    "INSERT INTO starts (namespace, key, started_at) VALUES ($1, $2, $3)"
    " ON CONFLICT (namespace, key) DO UPDATE SET started_at = excluded.started_at"
)


class NamespaceStore:
    """The methods of `ports.Store` that need no leadership."""

    def __init__(self, database: OpenDatabase) -> None:
        self._database_or_none: OpenDatabase | None = database

    @property
    def _database(self) -> OpenDatabase:
        assert self._database_or_none is not None
        return self._database_or_none

    async def _read(self, job: Callable[[Session], Awaitable[T]], *, soon: bool = False) -> T:
        """Return the result of a read; with `soon`, for a pass or a launch, under their deadline."""
        database = self._database
        return await (database.passes if soon else database.edits).work(job)

    async def _write(self, job: Callable[[Session], Awaitable[T]]) -> T:
        async def work(session: Session) -> T:
            async with session.transaction():
                return await job(session)

        return await self._database.edits.work(work)

    async def _marking(
        self, job: Callable[[Session], Awaitable[tuple[T, list[Damage]]]], *, soon: bool = False
    ) -> T:
        """Return the result of a read, after marking the schedules that it found damaged."""
        found, damage = await self._read(job, soon=soon)
        if damage:
            await self._mark(damage)
        return found

    async def _mark(self, found: Sequence[Damage]) -> None:
        await self._write(lambda session: edits.mark(session, found))

    # Schedules

    async def claim(self, door: str) -> None:
        """Record the door that owns the namespace."""
        database = self._database
        await database.places()
        await self._write(
            lambda session: migration.claim(session, database.address, database.namespace, door)
        )

    async def apply(self, changes: Changes) -> None:
        """Write and delete schedules."""
        places = await self._database.places()
        await self._write(lambda session: edits.apply(session, self._database.namespace, places, changes))
        # An edit or a removal may also wake other schedules, those blocked on the same group.
        self._database.heard(range(len(places.shards)))
        self._hint_puts(places, changes)

    def _hint_puts(self, places: Places, changes: Changes) -> None:
        written = {places.place_of(put.schedule) for put in changes.puts if put.wake_at is not None}
        if written:
            self._database.hint(written)

    async def request(self, run: Run) -> Run | None:
        """Record a manual run."""
        database = self._database
        requested, shard = await self._write(lambda session: edits.request(session, database.namespace, run))
        if shard is not None:
            database.hint([(await database.places()).shards.index(shard)])
        return requested

    async def report(self, found: Run, became: Settlement) -> bool:
        """Record an executor's report on a run."""
        database = self._database
        applied, shard = await database.edits.work(
            lambda session: report(session, database.namespace, found, became)
        )
        database.heard(range(len((await database.places()).shards)))
        if shard is not None:
            database.hint([(await database.places()).shards.index(shard)])
        return applied

    async def get(self, schedule_id: str) -> Snapshot | None:
        """Return one schedule, unless it is damaged."""
        return next(iter(await self.some([schedule_id])), None)

    async def some(self, ids: Iterable[str]) -> list[Snapshot]:
        """Return the schedules among these that are stored and not damaged."""
        wanted, database = [*ids], self._database
        return await self._marking(
            lambda session: reads.with_ids(session, database.texts, database.namespace, wanted), soon=True
        )

    async def page(
        self, after: str, limit: int, facets: Facets = (), paused: bool | None = None
    ) -> list[Snapshot]:
        """Return the schedules that come after an id and are not damaged."""
        database = self._database
        return await self._marking(
            lambda session: reads.page(
                session, database.texts, database.namespace, after, limit, facets, paused
            )
        )

    async def count(self, facets: Facets = (), paused: bool | PausedUntil | None = None) -> int:
        """Return how many schedules have these facets."""
        return await self._read(
            lambda session: reads.count(session, self._database.namespace, facets, paused)
        )

    async def soonest(self, limit: int, facets: Facets = ()) -> list[Snapshot]:
        """Return the schedules with the earliest wakes."""
        database = self._database
        return await self._marking(
            lambda session: reads.soonest(session, database.texts, database.namespace, limit, facets)
        )

    async def count_due(self, until: Instant, limit: int, facets: Facets = ()) -> int:
        """Return how many schedules wake in time."""
        namespace = self._database.namespace
        return await self._read(lambda session: reads.count_due(session, namespace, until, limit, facets))

    async def revision(self) -> str:
        """Return the snapshot id of a transaction that begins now: equal ids see equal rows."""
        return str(await self._read(lambda session: session.value("SELECT pg_current_snapshot()::text")))

    async def notes(self, ids: Iterable[str]) -> dict[str, Note]:
        """Return the notes of these schedules."""
        wanted = [*ids]
        return await self._read(lambda session: reads.notes(session, self._database.namespace, wanted))

    async def every(self) -> list[Snapshot]:
        """Return all schedules but the damaged ones."""
        database = self._database
        return await self._marking(lambda session: reads.every(session, database.texts, database.namespace))

    async def survey(self, declared: Sequence[Schedule]) -> Survey:
        """Return how the schedules differ from a declaration; a damaged schedule always differs."""
        database = self._database
        return await self._marking(
            lambda session: reads.survey(session, database.texts, database.namespace, declared)
        )

    async def damaged(self) -> list[tuple[str, str]]:
        """Return (id, problem) of the schedules that were found damaged."""
        return await self._read(lambda session: reads.marked(session, self._database.namespace))

    async def faulty_key(self, schedule_id: str) -> FaultyKey | None:
        """Return the key for which a schedule cannot be read; None where no key is to blame."""
        database = self._database
        return await self._read(
            lambda session: reads.faulty(session, database.texts, database.namespace, schedule_id)
        )

    # The ledger

    async def ledger(
        self, schedule_id: str, until: Instant | None, limit: int, kind: Kind | None = None
    ) -> list[Run]:
        """Return rows, newest first."""
        if not storable([schedule_id]):
            return []
        return await self._read(
            lambda session: reads.ledger(session, self._database.namespace, schedule_id, until, limit, kind),
            soon=True,
        )

    async def latest(self, ids: Collection[str], limit: int) -> dict[str, list[Run]]:
        """Return the newest rows of each of these schedules."""
        return await self._read(lambda session: reads.latest(session, self._database.namespace, ids, limit))

    async def recent(self, limit: int) -> list[Run]:
        """Return rows of all schedules, newest first."""
        return await self._read(lambda session: reads.recent(session, self._database.namespace, limit))

    async def runs(
        self, wanted: RunFilter, after: RunPlace | None, limit: int, oldest_first: bool = False
    ) -> RunPage:
        """Return the rows that match."""
        return await self._read(
            lambda session: figures.matching(
                session, self._database.namespace, wanted, after, limit, oldest_first
            )
        )

    async def note_start(self, key: str, now: Instant, keep: int) -> None:
        """Record a start outside the ledger."""
        namespace = self._database.namespace

        async def work(session: Session) -> None:
            await refuse_copied(session, namespace)
            await session.run(
                "DELETE FROM starts WHERE namespace = $1 AND started_at < $2", namespace, now - keep
            )
            await session.run(_NOTE_START, namespace, key, now)

        await self._write(work)

    async def has_start(self, key: str) -> bool:
        """Return whether a start under this key is recorded."""
        query = "SELECT EXISTS (SELECT 1 FROM starts WHERE namespace = $1 AND key = $2)"
        return bool(await self._read(lambda session: session.value(query, self._database.namespace, key)))

    async def open_counts(self) -> dict[str, int]:
        """Return how many open runs are in each phase."""
        return await self._read(lambda session: figures.open_counts(session, self._database.namespace))

    async def find(self, key: str) -> Found | None:
        """Return the row with this key, and its schedule."""
        if not _KEY.fullmatch(key):
            return None
        digest, database = bytes.fromhex(key), self._database
        return await self._read(
            lambda session: reads.find(session, database.texts, database.namespace, digest)
        )

    # Figures

    async def tallies(
        self, since: Instant, until: Instant, width: int, owner: str | None = None
    ) -> list[Tally]:
        """Return the number of recorded ticks by status and reason."""
        return await self._read(
            lambda session: figures.tallies(session, self._database.namespace, owner, since, until, width)
        )

    async def open_runs(self, limit: int, owner: str | None = None) -> list[Run]:
        """Return runs that have not ended."""
        return await self._read(
            lambda session: figures.open_runs(session, self._database.namespace, owner, limit)
        )

    async def find_ids(self, part: str, after: str, limit: int, owner: str | None = None) -> list[str]:
        """Return ids that contain a text."""
        if not storable([part]):
            return []
        return await self._read(
            lambda session: figures.find_ids(session, self._database.namespace, owner, part, after, limit)
        )

    async def troubled(self, limit: int, owner: str | None = None) -> list[Snapshot]:
        """Return schedules that need attention."""
        database = self._database
        return await self._marking(
            lambda session: figures.troubled(session, database.texts, database.namespace, owner, limit)
        )

    async def cadences(self, owner: str | None = None) -> list[Alike]:
        """Return the schedules that are not paused, those that are alike together."""
        database = self._database
        return await self._read(
            lambda session: figures.cadences(session, database.texts, database.namespace, owner)
        )

    # Workflows

    async def load_workflow(self, workflow_id: str, version: int) -> Workflow | None:
        """Return one version of a workflow."""
        return await self._read(
            lambda session: workflows.load(session, self._database.namespace, workflow_id, version),
            soon=True,
        )

    async def workflow_owner(self, workflow_id: str) -> str | None:
        """Return the owner of a workflow."""
        return await self._read(
            lambda session: workflows.owner(session, self._database.namespace, workflow_id)
        )

    async def workflows(
        self, after: tuple[str, int], limit: int, owner: str | None = None
    ) -> list[WorkflowEntry]:
        """Return the versions that come after this one."""
        return await self._read(
            lambda session: workflows.listed(session, self._database.namespace, after, limit, owner)
        )

    async def delete_workflow(self, workflow_id: str, version: int) -> bool:
        """Delete one version, and return whether it was there."""
        namespace = self._database.namespace

        async def work(session: Session) -> bool:
            await refuse_copied(session, namespace)
            return await workflows.delete(session, namespace, workflow_id, version)

        return await self._write(work)
