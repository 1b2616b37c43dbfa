"""The store as a witness sees it: every row in all its versions, every cursor, every edit.

It stands between the engines' gates and the real store, writes down what each write left behind,
and complains at once about what can be judged at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.cadence import Every
from dutiful.core.plan.edit import resumed
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Policy, Reason
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status
from dutiful.stores.memory import MemoryStore
from dutiful.stores.sqlite import inline_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dutiful.core.changes import Changes
    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Move, Snapshot
    from dutiful.runtime.ports import Committed, Retention, Store

Key = tuple[str, int, str]
REARM_BEYOND = 86_400_000


class Seen(NamedTuple):
    """One version of a row, and when it was first there: wall milliseconds and seconds that passed."""

    wall: int
    passed: float
    row: Run


@dataclass
class Era:
    """A stretch of a schedule's life with one cadence and window: its ticks in (opened, closed]."""

    schedule: Schedule
    opened: int
    closed: int
    # Ticks up to here were decided before the clock was set back; they have their rows already.
    repeats_until: int = 0


@dataclass
class Record:
    """Everything the checkers judge by."""

    history: dict[Key, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    eras: dict[str, list[Era]] = field(default_factory=lambda: defaultdict(list))
    removed: set[str] = field(default_factory=set)
    # Schedules whose declaration changed on the way.
    edited: set[str] = field(default_factory=set)
    rearmed: int = 0
    resumed: int = 0
    # How many runs a store may have written down in short.
    alone: int = 0
    # How many runs of a dead engine were adopted, by policy.
    adopted: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    # The keys of runs that were promised to a user: by hand, or of a past tick.
    promised: list[Key] = field(default_factory=list)
    # (key, attempt) of launches that are recorded and have not been made yet.
    pending: set[tuple[Key, int]] = field(default_factory=set)


def key_of(run: Run) -> Key:
    return run.schedule_id, run.run_at, run.kind


class Recorder:
    """A store that remembers; `tell(what, …)` gets a line of the trace."""

    def __init__(self, store: Store, now: Callable[[], tuple[int, float]], tell: Callable[..., None]):
        self._store, self._now, self._tell = store, now, tell
        self.record = Record()
        self.epoch = 0
        self.owner: str | None = None
        self._flying: dict[Key, Run] = {}
        self._cursors: dict[str, int] = {}
        self._schedules: dict[str, Schedule] = {}
        # What a write left behind is looked at before the next write.
        self._turn = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def complain(self, rule: str, text: str) -> None:
        self.record.problems.append(f"{rule}: {text}")

    # Writes

    async def lead(self, owner: str) -> int | None:
        epoch = await self._store.lead(owner)
        if epoch is not None and epoch != self.epoch:
            self.epoch, self.owner = epoch, owner
            self._tell("lead", owner, epoch)
        return epoch

    async def commit(self, moves: Sequence[Move], epoch: int) -> Committed:
        async with self._turn:
            overtaken = await self._overtaken(moves)
            committed = await self._store.commit(moves, epoch)
            self._check_fence("commit", epoch)
            self._count_adopted(moves, epoch)
            self.record.alone += sum(inline_runs.launch(move) is not None for move in committed.made)
            await self._look_at([row for move in moves for row in (*move.inserts, *move.changes)])
            for move in moves:
                due = await self._store.get(move.due.schedule.id)
                if due is not None:
                    self._note_cursor(due)
                    # A full engine takes them over when it has room, and looks again at once.
                    soon = move.wake_at is not None and move.wake_at <= self._now()[0]
                    if due.schedule.id not in overtaken and not soon:
                        self._check_orphans(due, epoch)
            return committed

    async def _overtaken(self, moves: Sequence[Move]) -> set[str]:
        """Return the schedules with open runs that another process has written to since they were loaded."""
        versions = {move.due.schedule.id: move.due.version for move in moves if move.due.runs}
        known = await self._store.some(versions)
        return {due.schedule.id for due in known if due.version != versions[due.schedule.id]}

    def _count_adopted(self, moves: Sequence[Move], epoch: int) -> None:
        for move in moves:
            changed = {key_of(run) for run in move.changes}
            for run in move.due.runs:
                if run.phase in IN_FLIGHT and run.epoch < epoch and key_of(run) in changed:
                    self.record.adopted[f"adopt {move.due.schedule.policy.on_orphan}"] += 1

    async def settle(self, settlements: Sequence[Settlement], epoch: int) -> list[bool]:
        async with self._turn:
            applied = await self._store.settle(settlements, epoch)
            self._check_fence("settle", epoch)
            await self._look_at([settlement.run for settlement in settlements])
            return applied

    async def report(self, launched: Run, ended: Settlement) -> bool:
        """Record a report on one attempt, unless that is over."""
        async with self._turn:
            found = await self.peek(key_of(launched))
            if found is None or found.phase not in IN_FLIGHT or found.attempt != launched.attempt:
                return False
            heard = await self._store.report(found, ended)
            await self._look_at([ended.run])
            return heard

    async def apply(self, changes: Changes) -> None:
        async with self._turn:
            known = {due.schedule.id: due for due in await self._store.every()}
            await self._store.apply(changes)
            if changes.under is not None:
                self._check_fence("resumption", changes.under)
                self.record.resumed += 1
            for schedule_id in changes.removes:
                self._forget(schedule_id)
            for run in changes.drops:
                self.record.history.pop(key_of(run), None)
            for put in changes.puts:
                due = await self._store.get(put.schedule.id)
                assert due is not None
                self._check_owed(known.get(put.schedule.id), due, changes.rows)
                self._open_era(due, known.get(put.schedule.id), changes.rows)
            await self._look_at(changes.rows)
            self._tell("applied")

    async def request(self, run: Run) -> Run | None:
        async with self._turn:
            made = await self._store.request(run)
            await self._look_at([] if made is None else [made])
            return made

    async def rearm(self, now: int, beyond: int) -> int:
        count = await self._store.rearm(now, beyond)
        for due in await self._store.every() if count else ():
            id_, cursor, before = due.schedule.id, due.state.cursor, self._cursors[due.schedule.id]
            if cursor < before:
                self.record.rearmed += 1
                self._tell("rearm", id_, cursor, before)
                last = self.record.eras[id_][-1]
                self.record.eras[id_].append(
                    Era(due.schedule, cursor, cursor, max(before, last.repeats_until))
                )
                if before <= now + REARM_BEYOND:
                    self.complain("cursor", f"{id_} was re-armed after a small step back")
            self._cursors[id_] = cursor
        return count

    async def prune(self, now: int, retention: Retention) -> int:
        count = await self._store.prune(now, retention)
        self._tell("prune", count)
        return count

    # What they left behind

    async def peek(self, key: Key) -> Run | None:
        """Return a row as it is in the store."""
        if isinstance(self._store, MemoryStore):
            # What every other store is asked for; this is only faster.
            row = self._store._rows.get(key[0])
            return None if row is None else row.open.get(key[1:]) or row.ended.get(key[1:])
        rows = await self._store.ledger(key[0], key[1], 4)
        return next((row for row in rows if key_of(row) == key), None)

    async def _look_at(self, rows: Iterable[Run]) -> None:
        wall, passed = self._now()
        changed = []
        for key in dict.fromkeys(map(key_of, rows)):
            versions, row = self.record.history[key], await self.peek(key)
            if row is None:
                self._flying.pop(key, None)
                # Without a ledger an ended run has no row; what it became is what was written last.
                row = next((run for run in rows if key_of(run) == key and run.phase is Phase.ENDED), None)
                if row is None or not versions or versions[-1].row.phase is Phase.ENDED:
                    continue
            elif versions and versions[-1].row.phase is Phase.ENDED and not self._keeps_ledger(key[0]):
                # Nothing was left of it, so this is another life of the same tick.
                versions.clear()
            if not versions or versions[-1].row != row:
                old = versions[-1].row if versions else None
                self._check_step(old, row)
                versions.append(Seen(wall, passed, row))
                changed.append((old, row))
        # What ends makes room for what begins in the same transaction.
        for old, row in sorted(changed, key=lambda pair: pair[1].phase in IN_FLIGHT):
            reason = row.reason and str(row.reason)
            self._tell("row", *key_of(row), str(row.phase), reason, row.attempt, row.ticks, row.ended_at)
            self._follow(old, row)

    def _keeps_ledger(self, schedule_id: str) -> bool:
        return self._schedules[schedule_id].policy.ledger

    def _follow(self, old: Run | None, row: Run) -> None:
        key, launch = key_of(row), (key_of(row), row.attempt)
        if row.phase not in IN_FLIGHT:
            self._flying.pop(key, None)
            if row.reason is Reason.LOST_RUN and launch in self.record.pending:
                self.complain("launched", f"{key} was recorded as launched, and never was")
            self.record.pending.discard(launch)
            return
        if row.phase is Phase.LAUNCHED and (
            old is None or (old.phase, old.attempt) != (row.phase, row.attempt)
        ):
            self.record.pending.add(launch)
        if key not in self._flying:
            self._check_room(row)
        self._flying[key] = row

    def _forget(self, schedule_id: str) -> None:
        self._tell("remove", schedule_id)
        self.record.removed.add(schedule_id)
        self._flying = {key: run for key, run in self._flying.items() if key[0] != schedule_id}
        self.record.pending = {entry for entry in self.record.pending if entry[0][0] != schedule_id}

    def excuse(self) -> None:
        """The engine is gone, and with it what it was about to launch."""
        self.record.pending.clear()

    # Cursors and eras

    def _note_cursor(self, due: Snapshot) -> None:
        era = self.record.eras[due.schedule.id][-1]
        before = self._cursors[due.schedule.id]
        if due.state.cursor < before:
            self.complain("cursor", f"{due.schedule.id} went back from {before} to {due.state.cursor}")
        era.closed = max(era.closed, due.state.cursor)
        self._cursors[due.schedule.id] = due.state.cursor

    def _open_era(self, due: Snapshot, before: Snapshot | None, rows: Sequence[Run]) -> None:
        self._schedules[due.schedule.id] = due.schedule
        self._tell("put", due.schedule.id, due.state.cursor, due.schedule.paused)
        eras, known = self.record.eras[due.schedule.id], self._cursors.get(due.schedule.id, 0)
        self._cursors[due.schedule.id] = due.state.cursor
        if before is None:
            eras.append(Era(due.schedule, due.state.cursor, due.state.cursor))
            return
        if resumed(before.schedule) != resumed(due.schedule):
            self.record.edited.add(due.schedule.id)
        if due.state.cursor < known:
            self.complain("cursor", f"an edit of {due.schedule.id} set its cursor back")
        same = (before.schedule.cadence, before.schedule.window) == (
            due.schedule.cadence,
            due.schedule.window,
        )
        if same:
            eras[-1].schedule = due.schedule
            eras[-1].closed = max(eras[-1].closed, due.state.cursor)
            return
        # What the old cadence owed until now is settled by the edit itself.
        rows = [row.run_until or row.run_at for row in rows if row.schedule_id == due.schedule.id]
        eras[-1].closed = max(eras[-1].closed, self._now()[0], *rows)
        repeats_until = min(eras[-1].repeats_until, due.state.decided_until)
        eras.append(Era(due.schedule, due.state.cursor, due.state.cursor, repeats_until))

    # What can be judged at once

    def _check_owed(self, before: Snapshot | None, after: Snapshot, rows: Sequence[Run]) -> None:
        """An edit that leaves cadence, zone and window as they are touches no tick of the past."""
        if before is None or before.schedule.paused or before.state.quarantine is not None:
            return
        old, new = before.schedule, after.schedule
        if (old.cadence, old.window, old.paused) == (new.cadence, new.window, new.paused):
            dropped = {Reason.REPLACED, Reason.MISSED}
            rows = [row for row in rows if not self._was_missed(old.policy, new.policy, row)]
            skipped = [row for row in rows if row.schedule_id == new.id and row.reason in dropped]
            if skipped and not any(row.backfill is not None for row in rows):
                self.complain("owed", f"an edit of {new.id} that moves no tick skipped {skipped}")

    def _was_missed(self, old: Policy, new: Policy, row: Run) -> bool:
        """Return whether a tick was missed by the policy before the edit, which the new one would run."""
        same = (old.catch_up, old.grace, old.catch_up_cap) == (new.catch_up, new.grace, new.catch_up_cap)
        late = self._now()[0] - (row.run_until or row.run_at) > old.grace
        return not same and late and old.catch_up is CatchUp.NONE and row.reason is Reason.MISSED

    def _check_fence(self, what: str, epoch: int) -> None:
        if epoch != self.epoch:
            self.complain("fenced", f"a {what} of epoch {epoch} was taken in epoch {self.epoch}")

    def _check_step(self, old: Run | None, new: Run) -> None:
        # One of the same name that was stored after a removal has another life.
        if old is None or new.schedule_id in self.record.removed:
            return
        if new.backfill is not None and old.backfill is None:
            # A past tick that a user asked for takes the place of an entry that it was skipped, and no other.
            if old.status is not Status.SKIPPED or old.attempt:
                self.complain("backfill", f"{old} had run, and is to run again as {new}")
            return
        grows = (old.status, old.reason) == (new.status, new.reason) and new.ticks > old.ticks
        if old.phase is Phase.ENDED and not (old.status is Status.SKIPPED and grows):
            self.complain("history", f"{old} has ended and became {new}")
        if new.attempt < old.attempt:
            self.complain("history", f"{old} went back to attempt {new.attempt}")

    def _check_orphans(self, due: Snapshot, epoch: int) -> None:
        waits = due.schedule.policy.on_orphan in (OnOrphan.RELAUNCH, OnOrphan.GIVE_UP)
        taken_over = {Phase.LAUNCHED} if waits else IN_FLIGHT
        for run in due.runs:
            if run.phase in taken_over and run.epoch < epoch:
                self.complain("orphans", f"{key_of(run)} of epoch {run.epoch} was not adopted")

    def _check_room(self, row: Run) -> None:
        schedule, key = self._schedules[row.schedule_id], key_of(row)
        others = [other for other in self._flying if other[0] == key[0] and other[2] == "schedule"]
        completion = isinstance(schedule.cadence, Every) and schedule.cadence.anchor == "completion"
        overlap = row.backfill or schedule.policy.overlap
        if others and row.kind == "schedule" and (overlap is not Overlap.ALLOW or completion):
            self.complain("overlap", f"{key} began beside {others}")
        capacity = schedule.policy.capacity
        if capacity is not None:
            used = [other for other in self._flying if self._group(other[0]) == capacity.group]
            if len(used) >= capacity.limit:
                self.complain("capacity", f"{key} began beside {used} in group {capacity.group}")

    def _group(self, schedule_id: str) -> str | None:
        capacity = self._schedules[schedule_id].policy.capacity
        return None if capacity is None else capacity.group
