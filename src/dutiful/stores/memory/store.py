"""The reference store: plain dictionaries. Read it as the specification of the other stores."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

from dutiful.core.errors import LostLeadershipError, NamespaceOwnedError, OvertakenError
from dutiful.core.plan.clock_rollback import rearmed
from dutiful.core.plan.outcome import ended_state, still_cancelled, wake_after
from dutiful.core.plan.planner import Batch
from dutiful.core.plan.reconcile import Survey
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status, frees_slot
from dutiful.core.schedule import SkippedRange
from dutiful.runtime.ports import Committed, Launch, Leader, Loaded, PausedUntil, Retention
from dutiful.stores.memory import figures
from dutiful.stores.memory.figures import MemoryFigures, StoredWorkflows
from dutiful.stores.memory.row import Row, Wakes, by_tick

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Changes, Note, Put
    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.run import Kind
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Move, Snapshot
    from dutiful.core.workflow import Workflow, WorkflowEntry
    from dutiful.runtime.ports import Facets, Found, RunFilter, RunPage, RunPlace

# Cached: enum attribute access is slow, and nearly all runs are LAUNCHED.
_LAUNCHED = Phase.LAUNCHED
# tuple.__new__ takes half as long as the named tuple's constructor.
_new = tuple.__new__


class MemoryStore(MemoryFigures):
    """Keeps everything in memory, for the life of the process."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._wakes = Wakes()
        # The rows that the last load took from `_wakes`, with their wakes. Unchanged rows are due again.
        self._taken: list[tuple[Row, Instant | None]] = []
        self._numbers = count(1)
        # The highest version of any removed schedule: a new schedule with the same id begins above it.
        self._version_floor = 0
        self._used: dict[str, int] = {}
        self._workflows = StoredWorkflows()
        # Number of writes, for `revision`.
        self._writes = 0
        self._starts: dict[str, Instant] = {}
        self._epoch = 0
        self._owner: str | None = None
        self._door: str | None = None

    async def open(self) -> None:
        """Do nothing: memory needs no preparation."""

    async def close(self) -> None:
        """Let another owner lead; the stored schedules stay."""
        self._owner = None

    async def claim(self, door: str) -> None:
        """Record the door that owns this store."""
        self._door = self._door or door
        if self._door != door:
            raise NamespaceOwnedError("memory:", "default", self._door)

    async def leader(self) -> Leader | None:
        """Return None: only this process can lead a store in memory."""
        return None

    async def lead(self, owner: str) -> int | None:
        """Return the epoch of `owner`, or None while another owner leads."""
        if self._owner is None:
            self._owner = owner
            self._epoch += 1
            for row in self._rows.values():
                if row.open:
                    self._wake(row, 0)
        return self._epoch if self._owner == owner else None

    def holds(self, epoch: int) -> bool:
        """Return whether this epoch leads."""
        return epoch == self._epoch and self._owner is not None

    async def apply(self, changes: Changes) -> None:
        """Write and delete schedules."""
        if changes.under is not None:
            self._check(changes.under)
        self._check_expectations(changes)
        self._remove(changes.removes)
        # The last put of an id counts. Wake groups after all puts, when the freed slots are known.
        puts = {put.schedule.id: put for put in changes.puts}
        for group in [self._put(put) for put in puts.values()]:
            self._wake_group(group)
        for run in changes.drops:
            del self._rows[run.schedule_id].ended[run.run_at, run.kind]
        for run in changes.rows:
            row = self._rows[run.schedule_id]
            # As in a commit: insert a new row or extend a range of skipped ticks; never replace another row.
            if not self._change(row, run):
                self._insert(row, run)
        self._describe(changes)
        self._writes += 1

    def _remove(self, ids: Iterable[str]) -> None:
        for schedule_id in ids:
            row = self._rows.pop(schedule_id, None)
            if row is not None:
                self._version_floor = max(self._version_floor, row.version)
                row.wake_at = None
                for run in row.open.values():
                    self._count(row, run, None)
                self._wake_group(row.group())

    def _describe(self, changes: Changes) -> None:
        for schedule_id, note in changes.notes:
            if schedule_id in self._rows:
                self._rows[schedule_id].note = note
        for schedule_id, facets in changes.facets:
            if schedule_id in self._rows:
                self._rows[schedule_id].facets = frozenset(facets)
        self._workflows.put_all(changes.workflows)

    def _check_expectations(self, changes: Changes) -> None:
        for put in changes.puts:
            self._check_version(put)
        for run in changes.drops:
            self._check_drop(run)
        for workflow in changes.workflows:
            self._workflows.check(workflow)

    def _check_version(self, put: Put) -> None:
        row = self._rows.get(put.schedule.id)
        present = 0 if row is None else row.version
        if put.version is not None and put.version != present:
            raise OvertakenError(put.schedule.id, put.version, present)

    def _check_drop(self, run: Run) -> None:
        row = self._rows.get(run.schedule_id)
        known = None if row is None else row.ended.get((run.run_at, run.kind))
        if known != run:
            version = 0 if row is None else row.version
            raise OvertakenError(run.schedule_id, version, version)

    def _put(self, put: Put) -> str | None:
        """Write one schedule, and return the capacity group that its runs have left, if any."""
        row = self._rows.get(put.schedule.id)
        if row is None:
            row = Row(put.schedule, put.state, next(self._numbers), self._version_floor)
            self._rows[put.schedule.id] = row
        group = row.group()
        for run in row.open.values():
            self._count(row, run, None)
        row.schedule, row.state = put.schedule, put.state
        for run in row.open.values():
            self._count(row, None, run)
        row.idle_wake_at = None
        self._wake(row, put.wake_at)
        return group if group != row.group() else None

    async def request(self, run: Run) -> Run | None:
        """Record a manual run."""
        row, found = self._rows.get(run.schedule_id), await self.find(run.key)
        if found is not None or row is None:
            return None if found is None else found.run
        manual = [each.run_at for each in row.runs() if each.kind == "manual" and each.run_at >= run.run_at]
        run = run._replace(run_at=max(manual, default=run.run_at - 1) + 1)
        self._insert(row, run)
        self._writes += 1
        self._wake(row, run.fire_at if row.wake_at is None else min(row.wake_at, run.fire_at))
        return run

    async def load(self, now: Instant, limit: int, also: Collection[str] = ()) -> Loaded:
        """Return the due schedules, and the schedules with these ids."""
        for row, wake_at in self._taken:
            if wake_at is not None and row.wake_at == wake_at:
                self._wakes.add(row, wake_at)
        rows, next_wake = self._wakes.take(now, limit)
        self._taken = [(row, row.wake_at) for row in rows]
        if also:
            known = {row.schedule.id for row in rows}
            rows += [self._rows[id_] for id_ in sorted({*also} & self._rows.keys() - known)]
        batch = _new(Batch, ([row.due() for row in rows], dict(self._used)))
        return _new(Loaded, (batch, next_wake, ()))

    def _wake(self, row: Row, wake_at: Instant | None) -> None:
        if wake_at is not None and wake_at != row.wake_at:
            self._wakes.add(row, wake_at)
        row.wake_at = wake_at
        row.version += 1

    async def commit(self, moves: Sequence[Move], epoch: int) -> Committed:
        """Record the moves; return which were made, and the runs to launch."""
        self._check(epoch)
        self._writes += 1
        made: list[Move] = []
        launches: list[Launch] = []
        for move in moves:
            row = self._rows.get(move.due.schedule.id)
            if row is not None and row.version == move.due.version:
                made.append(move)
                launches += self._commit(row, move)
        for move in made:
            if move.changes:
                self._wake_for_room(self._rows[move.due.schedule.id], move)
        return Committed(made, launches)

    def _commit(self, row: Row, move: Move) -> list[Launch]:
        row.state, row.blocked, row.idle_wake_at = move.state, move.blocked, move.idle_wake_at
        written = [run for run in move.inserts if self._insert(row, run)]
        if move.changes:
            written += [run for run in move.changes if self._change(row, run)]
        self._wake(row, move.wake_at)
        # A run that the same move has also ended is not launched.
        return [
            _new(Launch, (row.schedule, run, row.number))
            for run in written
            if run.phase is _LAUNCHED and row.open.get((run.run_at, run.kind)) is run
        ]

    def _wake_for_room(self, row: Row, move: Move) -> None:
        """Wake the schedules blocked on this group, except the one that freed the slot."""
        for run in move.changes:
            if frees_slot(run) and row.group() is not None:
                for other in list(self._rows.values()):
                    if other is not row and other.blocked and other.group() == row.group():
                        self._wake(other, run.ended_at)

    def _insert(self, row: Row, run: Run) -> bool:
        key = run.run_at, run.kind
        decided = row.open.get(key) or row.ended.get(key)
        if decided is None:
            self._write(row, None, run)
        elif run.status is Status.SKIPPED:
            self._insert_rest(row, run, decided)
        return decided is None

    def _insert_rest(self, row: Row, run: Run, decided: Run) -> None:
        rest, growing = run.beyond(decided), row.state.skipped
        if growing is not None and growing.run_at == run.run_at:
            skipped = None if rest is None else SkippedRange(rest.run_at, growing.reason, rest.ticks)
            row.state = row.state._replace(skipped=skipped)
        if rest is not None:
            self._insert(row, rest)

    def _change(self, row: Row, run: Run) -> bool:
        key = run.run_at, run.kind
        known, ended = row.open.get(key), row.ended.get(key)
        if known is not None and known.attempt > run.attempt:
            return False
        # Only a range of skipped ticks may change after it has ended: it grows.
        if known is None and not (ended is not None and _grows(ended, run)):
            return False
        # A growing range keeps the creation time of its row.
        self._write(row, known, run if ended is None else run._replace(created_at=ended.created_at))
        return True

    async def settle(self, settlements: Sequence[Settlement], epoch: int) -> list[bool]:
        """Record the outcomes of attempts."""
        self._check(epoch)
        self._writes += 1
        return [self._settle(*settlement) for settlement in settlements]

    def _settle(self, run: Run, keep: bool, _: bool, number: int) -> bool:
        row = self._rows.get(run.schedule_id)
        known = row.open.get((run.run_at, run.kind)) if row is not None else None
        if row is None or known is None or row.number != number:
            return False
        if known.phase is not _LAUNCHED or known.attempt != run.attempt:
            return False
        self._end_or_accept(row, known, run, keep)
        return True

    async def report(self, found: Run, became: Settlement) -> bool:
        """Record an executor's report on a run."""
        row = self._rows.get(found.schedule_id)
        known = row.open.get((found.run_at, found.kind)) if row is not None else None
        if row is None or known is None or _standing(known) != _standing(found):
            return False
        self._end_or_accept(row, known, became.run, became.keep)
        self._writes += 1
        return True

    def _end_or_accept(self, row: Row, known: Run, run: Run, keep: bool) -> None:
        run = still_cancelled(known, run)
        self._count(row, known, run)
        row.put(run, keep)
        row.version += 1
        if run.phase in IN_FLIGHT:
            return
        row.state = ended_state(row.state, run)
        self._wake(row, wake_after(row.wake_at, row.idle_wake_at, run))
        group = row.group()
        if group is not None:
            self._wake_group(group, run.ended_at)
        elif row.blocked:
            self._wake(row, run.ended_at)

    def _wake_group(self, group: str | None, at: Instant | None = 0) -> None:
        """Make the schedules blocked on a group due, as the group may have a free slot now."""
        if group is None:
            return
        for other in self._rows.values():
            if other.blocked and other.group() == group:
                self._wake(other, at)

    def _write(self, row: Row, old: Run | None, new: Run) -> None:
        self._count(row, old, new)
        row.put(new, row.schedule.policy.ledger)

    def _count(self, row: Row, old: Run | None, new: Run | None) -> None:
        capacity = row.schedule.policy.capacity
        if capacity is not None:
            change = sum(sign for sign, run in ((1, new), (-1, old)) if run and run.phase in IN_FLIGHT)
            self._used[capacity.group] = self._used.get(capacity.group, 0) + change

    def _check(self, epoch: int) -> None:
        if epoch != self._epoch or self._owner is None:
            raise LostLeadershipError(epoch, self._epoch)

    async def get(self, schedule_id: str) -> Snapshot | None:
        """Return one schedule."""
        row = self._rows.get(schedule_id)
        return None if row is None else row.due()

    async def some(self, ids: Iterable[str]) -> list[Snapshot]:
        """Return the schedules with these ids."""
        return [self._rows[schedule_id].due() for schedule_id in sorted({*ids} & self._rows.keys())]

    async def page(
        self, after: str, limit: int, facets: Facets = (), paused: bool | None = None
    ) -> list[Snapshot]:
        """Return the schedules that come after an id."""
        ids = (row.schedule.id for row in self._found(facets, paused) if row.schedule.id > after)
        return [self._rows[schedule_id].due() for schedule_id in heapq.nsmallest(limit, ids)]

    async def count(self, facets: Facets = (), paused: bool | PausedUntil | None = None) -> int:
        """Return how many schedules have these facets."""
        return sum(1 for _ in self._found(facets, paused))

    async def soonest(self, limit: int, facets: Facets = ()) -> list[Snapshot]:
        """Return the schedules with the earliest wakes."""
        found = [(row.wake_at, row.number, row) for row in self._found(facets, paused=False)]
        waking = [(wake_at, number, row) for wake_at, number, row in found if wake_at is not None]
        return [row.due() for _, _, row in heapq.nsmallest(limit, waking, key=lambda each: each[:2])]

    async def count_due(self, until: Instant, limit: int, facets: Facets = ()) -> int:
        """Return how many schedules wake in time."""
        found = self._found(facets, paused=False)
        return min(limit, sum(1 for row in found if row.wake_at is not None and row.wake_at <= until))

    async def revision(self) -> str:
        """Return the number of writes as a text."""
        return str(self._writes)

    def _found(self, facets: Facets, paused: bool | PausedUntil | None) -> Iterator[Row]:
        for row in self._rows.values():
            is_paused, until = row.schedule.paused, row.schedule.pause_until
            if row.has(facets) and paused in (None, is_paused, is_paused and PausedUntil(until)):
                yield row

    async def every(self) -> list[Snapshot]:
        """Return all schedules."""
        return [row.due() for row in self._rows.values()]

    async def survey(self, declared: Sequence[Schedule]) -> Survey:
        """Return how the schedules differ from a declaration."""
        rows = {schedule.id: self._rows.get(schedule.id) for schedule in declared}
        differing = [
            (schedule, None if row is None else row.due())
            for schedule, row in zip(declared, rows.values(), strict=True)
            # Compare all fields but the last two, which are those of a pause.
            if row is None or row.open or row.schedule[:-2] != schedule[:-2]
        ]
        return Survey(differing, [schedule_id for schedule_id in self._rows if schedule_id not in rows])

    async def notes(self, ids: Iterable[str]) -> dict[str, Note]:
        """Return the notes of these schedules."""
        known = {schedule_id: self._rows[schedule_id].note for schedule_id in {*ids} & self._rows.keys()}
        return {schedule_id: note for schedule_id, note in known.items() if note is not None}

    async def damaged(self) -> list[tuple[str, str]]:
        """Return nothing: objects in memory cannot be damaged."""
        return []

    async def faulty_key(self, schedule_id: str) -> None:
        """Return None: objects in memory cannot be damaged."""

    async def ledger(
        self, schedule_id: str, until: Instant | None, limit: int, kind: Kind | None = None
    ) -> list[Run]:
        """Return rows, newest first."""
        row = self._rows.get(schedule_id)
        if row is None:
            return []
        of_kind = [run for run in row.runs() if kind in (None, run.kind)]
        runs = sorted(of_kind, key=by_tick, reverse=True)
        return [run for run in runs if until is None or run.run_at <= until][:limit]

    async def latest(self, ids: Collection[str], limit: int) -> dict[str, list[Run]]:
        """Return the newest rows of each of these schedules."""
        found = {each: await self.ledger(each, None, limit) for each in ids}
        return {each: rows for each, rows in found.items() if rows}

    async def recent(self, limit: int) -> list[Run]:
        """Return rows of all schedules, newest first."""
        kept = [(row, run) for row in self._rows.values() for run in row.runs() if run.created_at is not None]
        by_number = [(row.number, run) for row, run in kept]
        by_number.sort(key=lambda pair: (pair[1].run_at, pair[0], pair[1].kind), reverse=True)
        return [run for _, run in by_number[:limit]]

    async def runs(
        self, wanted: RunFilter, after: RunPlace | None, limit: int, oldest_first: bool = False
    ) -> RunPage:
        """Return the rows that match."""
        return figures.matching(self._rows.values(), wanted, after, limit, oldest_first)

    async def note_start(self, key: str, now: Instant, keep: int) -> None:
        """Record a start outside the ledger."""
        self._starts = {known: at for known, at in self._starts.items() if at >= now - keep} | {key: now}

    async def has_start(self, key: str) -> bool:
        """Return whether a start under this key is recorded."""
        return key in self._starts

    async def open_counts(self) -> dict[str, int]:
        """Return how many open runs are in each phase."""
        return figures.open_counts(self._rows.values())

    async def find(self, key: str) -> Found | None:
        """Return the row with this key, and its schedule."""
        return figures.find(self._rows.values(), key)

    async def load_workflow(self, workflow_id: str, version: int) -> Workflow | None:
        """Return one version of a workflow."""
        return self._workflows.get((workflow_id, version))

    async def workflow_owner(self, workflow_id: str) -> str | None:
        """Return the owner of a workflow."""
        return self._workflows.owner(workflow_id)

    async def workflows(
        self, after: tuple[str, int], limit: int, owner: str | None = None
    ) -> list[WorkflowEntry]:
        """Return the versions that come after this one."""
        return self._workflows.listed(after, limit, owner)

    async def delete_workflow(self, workflow_id: str, version: int) -> bool:
        """Delete one version, and return whether it was there."""
        return self._workflows.pop((workflow_id, version), None) is not None

    async def rearm(self, now: Instant, beyond: int) -> int:
        """Re-arm the schedules that are far ahead of `now`."""
        ahead = [(row, rearmed(row.due(), now, beyond)) for row in self._rows.values()]
        changed = [(row, back) for row, back in ahead if back is not None]
        for row, back in changed:
            row.state = back.state
            for run in back.runs:
                row.put(run, keep=True)
            self._wake(row, now)
        return len(changed)

    async def prune(self, now: Instant, retention: Retention) -> int:
        """Delete ended rows beyond the retention."""
        return sum(_prune(row, now, retention.of(row.schedule.policy)) for row in self._rows.values())


def _prune(row: Row, now: Instant, retention: Retention) -> int:
    """Delete the ended rows of one schedule that are beyond the retention; return how many."""
    # Usually no row is beyond the retention; the oldest key proves that without sorting.
    if len(row.ended) <= retention.rows and min(row.ended, default=(now,))[0] >= now - retention.age:
        return 0
    deleted = 0
    asked_for = {key for key, run in row.ended.items() if run.kind == "manual" or run.backfill is not None}
    for rank, key in enumerate(sorted(row.ended.keys() - asked_for, reverse=True)):
        last = row.ended[key].run_until or key[0]
        growing = row.state.skipped is not None and row.state.skipped.run_at == key[0]
        expendable = last <= row.state.cursor and not growing
        if expendable and (rank >= retention.rows or last < now - retention.age):
            del row.ended[key]
            row.pruned_until = max(row.pruned_until, last)
            deleted += 1
    return deleted


def _grows(old: Run, new: Run) -> bool:
    return old.status is new.status is Status.SKIPPED and old.reason is new.reason and old.ticks <= new.ticks


def _standing(run: Run) -> tuple[int, Phase, Status]:
    return run.attempt, run.phase, run.status
