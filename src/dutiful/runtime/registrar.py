"""The registrar: the only writer of schedules. An edit governs the ticks after it, never earlier ones."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from dutiful.core.changes import Changes, Note, Put
from dutiful.core.cron.zone import epoch_ms, from_epoch_ms
from dutiful.core.errors import (
    InvalidArgumentError,
    OvertakenError,
    UnknownRunError,
    UnknownScheduleError,
)
from dutiful.core.plan.backfill import Backfill, backfill, past_ticks
from dutiful.core.plan.edit import (
    accounted,
    edited,
    end_of_pause,
    pause_has_ended,
    paused_until,
    resumed,
    upserted,
)
from dutiful.core.plan.outcome import Report, Settlement, hear
from dutiful.core.plan.reconcile import Difference, Survey, reconcile
from dutiful.core.plan.upcoming import upcoming
from dutiful.core.plan.verdict import Verdict, explain, minute_of
from dutiful.core.run import CANCEL_ASKED, Phase, Run, Status
from dutiful.core.snapshot import Snapshot
from dutiful.runtime.ledger_lookup import recalled, rows_between

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from dutiful.core.cadence import Instant
    from dutiful.core.policy import Overlap
    from dutiful.core.schedule import Schedule, State
    from dutiful.core.workflow import PutWorkflow
    from dutiful.runtime.ports import Clock, Facets, Loaded, Store


CANCELLED = "cancelled by request"
_FUTURE = "lies in the future; a backfill runs ticks that have passed"


async def no_workflows() -> Sequence[PutWorkflow]:
    """Return no workflows: only a deploy of the service stores workflows together with schedules."""
    return ()


class Registrar:
    """Declares, edits, pauses and removes schedules, and answers questions about them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        wake: Callable[[], None],
        looks_within: int | None = None,
        facets: Callable[[Schedule], Facets] = lambda _: (),
    ) -> None:
        """Take `wake`, which makes the engine look at once; it is not called for changes due after
        `looks_within` ms.

        `facets` returns the names and values by which a schedule is found in lists.
        """
        self._store, self._clock, self._wake, self._looks_within = store, clock, wake, looks_within
        self._facets = facets

    async def declare(
        self,
        schedules: Sequence[Schedule],
        arm: Callable[[Schedule], State],
        examine: Callable[[Survey], Awaitable[None]] | None = None,
    ) -> list[Difference]:
        """Make the store hold exactly these schedules, in one transaction; return the differences.

        `examine` gets the survey of the store first; if it raises, nothing is changed.
        """
        survey = await self._store.survey(schedules)
        if examine is not None:
            await examine(survey)
        differences, changes = reconcile(survey, arm)
        await self.apply(changes)
        return differences

    async def upsert(self, schedule: Schedule) -> Instant | None:
        """Store a schedule, new or edited, and return when it fires next."""
        await self._change(schedule.id, lambda known: upserted(known, schedule, self._now()))
        return next(iter(await self.preview(schedule.id, 1)), None)

    async def upsert_all(
        self,
        ids: Sequence[str],
        edit: Callable[[str, Snapshot | None], Schedule | None],
        note: str | None = None,
        workflows: Callable[[], Awaitable[Sequence[PutWorkflow]]] = no_workflows,
        by: str | None = None,
        pausing: bool = False,
    ) -> list[Snapshot]:
        """Store all of these schedules or none, each as `edit` makes it from the stored one; return them.

        `edit` decides what a deploy leaves open, such as whether a schedule is paused; None leaves a schedule
        out. A schedule that becomes paused gets the note, and is paused `by` this user. A schedule that is
        paused already keeps its note and user; with `pausing` it gets the new ones. The `workflows` are
        stored in the same transaction; if another write came first, the function is called again.
        """
        while True:
            now, texts = self._now(), await workflows()
            found = [await recalled(self._store, due, now) for due in await self._store.some(ids)]
            if await end_pauses(self.apply, found, now):
                continue
            known = {due.schedule.id: due for due in found}
            pauses = await self._pauses(known.values())
            became, puts, rows, notes = list[Snapshot](), list[Put](), list[Run](), list[tuple[str, Note]]()
            for id_ in ids:
                due = known.get(id_)
                schedule = edit(id_, due)
                if schedule is None:
                    continue
                changes = upserted(due, schedule, now)
                new = Note(now, note, now, by)
                notes.append((id_, _note(new, schedule.paused, pauses.get(id_), pausing)))
                puts += changes.puts
                rows += changes.rows
                became.append(Snapshot(schedule, puts[-1].state, () if due is None else due.runs))
            facets = [(due.schedule.id, self._facets(due.schedule)) for due in became]
            with contextlib.suppress(OvertakenError):
                changes = Changes(puts, rows=rows, notes=notes, workflows=texts, facets=facets)
                await self.apply(changes)
                return became

    async def _pauses(self, known: Iterable[Snapshot]) -> dict[str, Note]:
        """Return the notes of the paused schedules among these."""
        paused = [due.schedule.id for due in known if due.schedule.paused]
        written = await self._store.notes(paused) if paused else {}
        return {schedule_id: written.get(schedule_id, Note(0)) for schedule_id in paused}

    async def pause(
        self,
        schedule_id: str,
        paused: bool,
        note: str | None = None,
        by: str | None = None,
        until: Instant | None = None,
    ) -> None:
        """Pause or resume; ticks that pass meanwhile are recorded as skipped for `paused`.

        The note says why the schedule is paused, `by` who paused it, and `until` when it is resumed without a
        user; resuming clears all three. A schedule that is paused already gets the new note and end, and
        stays paused since its first pause.
        """
        written = (await self._store.notes([schedule_id])).get(schedule_id, Note(0))

        def edit(known: Snapshot | None) -> Changes:
            due, now = _known(schedule_id, known), self._now()
            since = written.paused_at if due.schedule.paused else now
            noted = [(schedule_id, Note(now, note, since, by) if paused else Note(now))]
            wanted = paused_until(due.schedule, until) if paused else resumed(due.schedule)
            if wanted == due.schedule:
                return Changes(notes=noted)
            return edited(due, wanted, now)._replace(notes=noted)

        await self._change(schedule_id, edit)

    async def trigger(self, schedule_id: str, own_key: str, input: str | None = None) -> Run:  # noqa: A002
        """Request a manual run now, also of a paused schedule; return the run as it waits.

        The run gets `input`, a JSON text, in place of the schedule's own. For a key that is known the
        existing run is returned, and no other run is made.
        """
        due, now = _known(schedule_id, await self._store.get(schedule_id)), self._now()
        _refuse_quarantined(due)
        noted = now if due.schedule.policy.ledger else None
        wanted = Run(
            schedule_id, now, "manual", Status.ENQUEUED, Phase.DELAYED, now,
            own_key=own_key, created_at=noted, updated_at=noted, input=input,
        )  # fmt: skip
        with self._clock.hold():
            run = await self._store.request(wanted)
        if run is None:
            raise UnknownScheduleError(schedule_id)
        self._wake()
        return run

    async def cancel(self, schedule_id: str, key: str | None = None) -> list[Run]:
        """Request the end of all open runs of a schedule, or of the run with this key; return those runs.

        The request is durable: the leader ends the runs in its next pass, and cancels those it carries. A run
        that ends by itself before that keeps its outcome. May be called by any process.
        """
        while True:
            due, now = _known(schedule_id, await self._store.get(schedule_id)), self._now()
            asked = [
                run._replace(reason=CANCEL_ASKED, detail=CANCELLED, updated_at=run.noted(now))
                for run in due.runs
                if key in (None, run.key)
            ]
            if not asked:
                return []
            with contextlib.suppress(OvertakenError):
                await self.apply(Changes([Put(due.schedule, due.state, now, due.version)], rows=asked))
                return [run for run in due.runs if key in (None, run.key)]

    async def backfill(
        self,
        schedule_id: str,
        start: Instant,
        end: Instant,
        overlap: Overlap | None = None,
        force: bool = False,
    ) -> Backfill:
        """Request runs of the past ticks in [start, end) that have not run; return how many there are.

        They run also while the schedule is paused. Raises OversizedBackfillError for too many ticks. `force`
        includes ticks whose rows were pruned, so that it is unknown whether they ran.
        """
        while True:
            due, now = _known(schedule_id, await self._store.get(schedule_id)), self._now()
            _refuse_quarantined(due)
            with contextlib.suppress(OvertakenError):
                whole = await recalled(self._store, due, now)
                if await end_pauses(self.apply, [whole], now):
                    continue
                passed = accounted(whole, now)
                if passed is not None:
                    await self.apply(passed)
                    continue
                planned = await self._backfill(due, start, end, overlap, force)
                await self.apply(planned.changes)
                return planned

    async def foresee_backfill(
        self, schedule_id: str, start: Instant, end: Instant, overlap: Overlap | None = None
    ) -> Backfill:
        """Return what `backfill` would do now, and change nothing. Raises the same errors."""
        due, now = _known(schedule_id, await self._store.get(schedule_id)), self._now()
        _refuse_quarantined(due)
        due, passed = _with_passed_ticks(await recalled(self._store, due, now), now)
        return await self._backfill(due, start, end, overlap, force=False, passed=passed)

    async def _backfill(
        self,
        due: Snapshot,
        start: Instant,
        end: Instant,
        overlap: Overlap | None,
        force: bool,
        passed: Sequence[Run] = (),
    ) -> Backfill:
        """Return a backfill; `passed` are ledger rows that are written together with it, before its own."""
        now = self._now()
        if start >= now:
            raise InvalidArgumentError("start", from_epoch_ms(start).isoformat(), _FUTURE)
        ticks = past_ticks(due, start, end)
        stored = await rows_between(self._store, due.schedule.id, ticks[0], ticks[-1]) if ticks else []
        # A range of skipped ticks that has grown takes the place of the stored one.
        rows = {(row.run_at, row.kind): row for row in (*stored, *passed)}
        return backfill(due, ticks, [*rows.values()], overlap, now, force)

    async def report(
        self,
        key: str,
        report: Report,
        may: Callable[[Schedule], bool] = lambda _: True,
        on_report: Callable[[Run], None] = lambda _: None,
    ) -> Run:
        """Record an executor's report on a run, and return the run as it now stands.

        Raises UnknownRunError, also for a run of a schedule that `may` refuses. May be called by any process,
        leading or not. `on_report` is called with the run if the report changed it.
        """
        while True:
            known = await self._store.find(key)
            if known is None or not may(known.schedule):
                raise UnknownRunError(key)
            found = known.run
            became = hear(found, report, known.schedule.policy, self._now())
            if became is None:
                return found
            with self._clock.hold():
                heard = await self._store.report(found, Settlement(became, found.created_at is not None))
            if heard:
                self._wake()
                on_report(became)
                return became

    async def remove(self, schedule_id: str) -> None:
        """Delete a schedule and its history, also one that cannot be read."""
        found = await self._store.get(schedule_id)
        if found is None and schedule_id not in dict(await self._store.damaged()):
            raise UnknownScheduleError(schedule_id)
        await self.apply(Changes(removes=[schedule_id]))

    async def preview(self, schedule_id: str, count: int) -> list[Instant]:
        """Return the next known fire times, ignoring pause and blocking.

        A period counted from completion has one, and none while it runs.
        """
        due = _known(schedule_id, await self._store.get(schedule_id))
        return [fire_at for _, fire_at in upcoming(due, self._now(), count)]

    async def explain(self, schedule_id: str, at: datetime) -> Verdict:
        """Return why the tick at `at` ran, did not run, or will run."""
        due = _known(schedule_id, await self._store.get(schedule_id))
        _, until = minute_of(due.schedule, at)
        rows = await self._store.ledger(schedule_id, until, 1, "schedule")
        return explain(due, next(iter(rows), None), at, self._now())

    async def _change(self, schedule_id: str, edit: Callable[[Snapshot | None], Changes]) -> None:
        """Apply an edit to the stored schedule; when a pass overtakes it, edit the new state."""
        while True:
            found = await self._store.get(schedule_id)
            known = found and await recalled(self._store, found, self._now())
            if known is not None and await end_pauses(self.apply, [known], self._now()):
                continue
            with contextlib.suppress(OvertakenError):
                return await self.apply(edit(known))

    async def apply(self, changes: Changes) -> None:
        """Write the changes of a door, and wake the engine where they are urgent."""
        with self._clock.hold():
            await self._store.apply(changes)
        if self._is_urgent(changes):
            self._wake()

    def _is_urgent(self, changes: Changes) -> bool:
        if self._looks_within is None or changes.removes:
            return True
        soon = self._now() + self._looks_within
        return any(put.wake_at is not None and put.wake_at <= soon for put in changes.puts)

    def _now(self) -> Instant:
        return epoch_ms(self._clock.now())


async def without_ended_pauses(store: Store, loaded: Loaded, now: Instant, epoch: int | None) -> Loaded:
    """Resume the loaded schedules whose pause has ended; return the others, to be planned in this pass.

    The resumed schedules are loaded again at once, by a pass at `now`.
    """
    due = loaded.batch.due
    if not await end_pauses(store.apply, due, now, epoch):
        return loaded
    others = [each for each in due if not pause_has_ended(each.schedule, now)]
    return loaded._replace(batch=loaded.batch._replace(due=others), next_wake=now)


async def end_pauses(
    apply: Callable[[Changes], Awaitable[None]],
    found: Iterable[Snapshot],
    now: Instant,
    under: int | None = None,
) -> bool:
    """Resume the schedules whose pause has ended; return whether there were any, to be read again.

    All of them are resumed or none, and only while the epoch `under` leads. None is resumed if another write
    came first.
    """
    ended = [changes for due in found if (changes := end_of_pause(due, now)) is not None]
    if not ended:
        return False
    puts = [put for changes in ended for put in changes.puts]
    rows = [row for changes in ended for row in changes.rows]
    notes = [note for changes in ended for note in changes.notes]
    with contextlib.suppress(OvertakenError):
        await apply(Changes(puts, rows=rows, notes=notes, under=under))
    return True


def _note(new: Note, paused: bool, pause: Note | None, pausing: bool) -> Note:
    """Return the note of a stored schedule; `pause` is its note where it was paused before."""
    if not paused:
        return Note(new.updated_at)
    if pause is None:
        return new
    return new._replace(paused_at=pause.paused_at) if pausing else pause._replace(updated_at=new.updated_at)


def _with_passed_ticks(due: Snapshot, now: Instant) -> tuple[Snapshot, list[Run]]:
    """Return a schedule as it is once its ended pause and its passed ticks are recorded, and these rows."""
    rows = list[Run]()
    for record in (end_of_pause, accounted):
        changes = record(due, now)
        if changes is not None:
            due = due._replace(schedule=changes.puts[0].schedule, state=changes.puts[0].state)
            rows += changes.rows
    return due, rows


def _refuse_quarantined(due: Snapshot) -> None:
    if due.state.quarantine is not None:
        reason = f"it is quarantined: {due.state.quarantine}; mend and store it again first"
        raise InvalidArgumentError("schedule", due.schedule.id, reason)


def _known(schedule_id: str, due: Snapshot | None) -> Snapshot:
    if due is None:
        raise UnknownScheduleError(schedule_id)
    return due
