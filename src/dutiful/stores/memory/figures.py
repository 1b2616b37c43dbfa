"""Queries over the runs of all schedules, in memory."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING

from dutiful.core.schedule import alike, is_troubled, owner_of
from dutiful.core.tally import Tally, tallied
from dutiful.core.workflow import Workflow, WorkflowEntry
from dutiful.runtime.ports import Found, RunPage, RunPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.schedule import Alike
    from dutiful.core.snapshot import Snapshot
    from dutiful.core.workflow import PutWorkflow
    from dutiful.runtime.ports import RunFilter
    from dutiful.stores.memory.row import Row


def matching(
    rows: Iterable[Row], wanted: RunFilter, after: RunPlace | None, limit: int, oldest_first: bool
) -> RunPage:
    """Return the runs that match and come after a position, and where to continue."""
    places = [
        (RunPlace(run.run_at, row.number, run.kind), run)
        for row in rows
        for run in row.runs()
        if run.created_at is not None and _matches(wanted, row, run)
    ]
    # A position is never that of two runs, so the runs themselves are not compared.
    places.sort(reverse=not oldest_first)
    found = [
        (place, run)
        for place, run in places
        if after is None or (place > after if oldest_first else place < after)
    ]
    more = found[limit - 1][0] if len(found) >= limit else None
    return RunPage([run for _, run in found[:limit]], more)


def open_counts(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many open runs are in each phase."""
    return Counter(run.phase.value for row in rows for run in row.open.values())


def find(rows: Iterable[Row], key: str) -> Found | None:
    """Return the run with this key, and its schedule."""
    runs = [Found(run, row.schedule) for row in rows for run in row.runs()]
    found = [
        each for each in runs if each.run.key == key and (each.run.own_key or each.run.created_at is not None)
    ]
    # A range of skipped ticks may begin in the same second as a tick that has run: prefer the run.
    return max(found, key=lambda each: (each.run.attempt, -each.run.run_at), default=None)


def _matches(wanted: RunFilter, row: Row, run: Run) -> bool:
    return (
        wanted.status in (None, run.status)
        and wanted.reason in (None, run.reason)
        and wanted.schedule_id in (None, run.schedule_id)
        and (wanted.since is None or run.run_at >= wanted.since)
        and (wanted.until is None or run.run_at < wanted.until)
        and wanted.owner in (None, owner_of(row.schedule))
        and wanted.trigger in (None, run.trigger)
    )


class MemoryFigures:
    """The overview queries of a store that keeps its rows in `_rows`."""

    _rows: dict[str, Row]

    async def tallies(
        self, since: Instant, until: Instant, width: int, owner: str | None = None
    ) -> list[Tally]:
        """Return the number of recorded ticks by status and reason."""
        rows = (
            (run.status, run.reason, run.run_at, run.run_until, run.ticks)
            for row in self._owned(owner)
            for run in row.runs()
            if run.created_at is not None
        )
        return tallied(rows, since, until, width)

    async def open_runs(self, limit: int, owner: str | None = None) -> list[Run]:
        """Return runs that have not ended, the oldest first."""
        runs = [run for row in self._owned(owner) for run in row.open.values() if run.created_at is not None]
        return sorted(runs, key=lambda run: (run.run_at, run.schedule_id, run.kind))[:limit]

    async def find_ids(self, part: str, after: str, limit: int, owner: str | None = None) -> list[str]:
        """Return ids that contain a text and come after another id."""
        found = (row.schedule.id for row in self._owned(owner) if part in row.schedule.id > after)
        return heapq.nsmallest(limit, found)

    async def troubled(self, limit: int, owner: str | None = None) -> list[Snapshot]:
        """Return schedules that need attention, ordered by id."""
        found = [row.due() for row in self._owned(owner) if is_troubled(row.state)]
        return sorted(found, key=lambda due: due.schedule.id)[:limit]

    async def cadences(self, owner: str | None = None) -> list[Alike]:
        """Return the schedules that are not paused, those that are alike together."""
        return alike(row.schedule for row in self._owned(owner) if not row.schedule.paused)

    def _owned(self, owner: str | None) -> list[Row]:
        return [row for row in self._rows.values() if owner in (None, owner_of(row.schedule))]


class StoredWorkflows(dict[tuple[str, int], Workflow]):
    """All workflows, by id and version."""

    def check(self, wanted: PutWorkflow) -> None:
        """Raise OvertakenError where the stored workflow or its owner is not the expected one."""
        workflow_id, version, *_ = wanted.workflow
        wanted.check(self.get((workflow_id, version)), self.owner(workflow_id))

    def put_all(self, puts: Sequence[PutWorkflow]) -> None:
        """Store these versions."""
        self.update({(put.workflow.workflow_id, put.workflow.version): put.workflow for put in puts})

    def owner(self, workflow_id: str) -> str | None:
        """Return the owner of all versions of a workflow."""
        return next((each.owner for each in self.values() if each.workflow_id == workflow_id), None)

    def listed(self, after: tuple[str, int], limit: int, owner: str | None) -> list[WorkflowEntry]:
        """Return the versions that come after this one, of one owner or of all."""
        found = sorted(place for place in self if place > after and owner in (None, self[place].owner))
        return [_entry(self[place]) for place in found[:limit]]


def _entry(workflow: Workflow) -> WorkflowEntry:
    workflow_id, version, owner, dag, updated_at = workflow
    return WorkflowEntry(workflow_id, version, owner, len(dag.encode()), updated_at)
