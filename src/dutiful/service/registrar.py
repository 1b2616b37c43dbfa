"""The registrar of the service: declares, pauses, explains, triggers and backfills schedules."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import DutifulError, InvalidArgumentError, UnknownRunError, UnknownScheduleError
from dutiful.core.plan.outcome import Report
from dutiful.core.plan.verdict_steps import steps
from dutiful.core.policy import Overlap, Reason
from dutiful.core.run import Status
from dutiful.runtime.ports import PART_OF_ID, RunFilter, RunPlace
from dutiful.runtime.registrar import Registrar, no_workflows
from dutiful.service.declaration import Defaults, choose, declared, instant, json_value
from dutiful.service.errors import OutdatedPlanError
from dutiful.service.launcher import start_key
from dutiful.service.pauses import declared_end, pause_end, paused_with_note, resumption_note, with_pause
from dutiful.service.payload import facets_of, owner_of, payload_of
from dutiful.service.types import (
    Backfilled,
    Damaged,
    Explanation,
    NextTick,
    Page,
    Summary,
    Triggered,
    Upserted,
)
from dutiful.service.views import (
    LIMIT_MAX,
    changed_fields,
    decode_cursor,
    encode_cursor,
    fire_times,
    moment,
    next_run_at,
    page_size,
    preview,
    revision_of,
    view_run,
    view_schedule,
    with_stored_secrets,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from dutiful.core.cadence import Instant
    from dutiful.core.plan.backfill import Backfill
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Snapshot
    from dutiful.core.workflow import PutWorkflow
    from dutiful.runtime.ports import Clock, Facets, Store
    from dutiful.service.declaration import ScheduleInput, ScheduleView
    from dutiful.service.types import RunView
    from dutiful.service.views import Preview

BULK_MAX = 10_000
_AT_A_TIME = 1000
# Length of each list in the summary.
_SHOWN = 20
_DAY_MS = 86_400_000
# Keys of runs that the launcher started are remembered for 30 days.
_STARTS_KEPT_MS = 30 * 86_400_000
_REPORTS = {status.value: status for status in (Status.STARTED, Status.SUCCESS, Status.FAILED)}


class SchedulerRegistrar:
    """The operations for deployers, operators and executors; usable from any process on the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        wake: Callable[[], None] = lambda: None,
        defaults: Defaults = Defaults(),  # noqa: B008 - a value, never changed
        looks_within: int | None = None,
        on_report: Callable[[Run], None] = lambda _: None,
    ) -> None:
        """Take `wake`, which makes the worker look at once; it is not called for changes due after
        `looks_within` ms.

        `on_report` is called with each run that a report changed.
        """
        self._store, self._clock, self._defaults, self._on_report = store, clock, defaults, on_report
        self._registrar = Registrar(store, clock, wake, looks_within, facets_of)

    # Schedules

    async def upsert_schedule(self, given: ScheduleInput) -> Upserted:
        """Store a schedule, new or edited, and return when it runs next; without an id it is a new one.

        Raises InvalidArgumentError or InvalidCronExpressionError. If `paused` is not given, it stays as it
        is, with its note. No past tick becomes due.
        """
        [upserted] = await self.upsert_many([given])
        return upserted

    async def upsert_many(
        self,
        given: Sequence[ScheduleInput],
        may_edit: Callable[[str], bool] = lambda _: True,
        workflows: Callable[[], Awaitable[Sequence[PutWorkflow]]] = no_workflows,
        by: str | None = None,
        revisions: Mapping[str, str | None] = MappingProxyType({}),
    ) -> list[Upserted]:
        """Store all schedules or none; the details of an error hold the `index` of the wrong one.

        Raises UnknownScheduleError for a stored schedule whose owner `may_edit` refuses. The `workflows` are
        stored in the same transaction. A schedule that becomes paused is paused `by` this user.
        OutdatedPlanError: a schedule is not at the revision that its preview had.
        """
        if len(given) > BULK_MAX:
            raise InvalidArgumentError("schedules", len(given), f"send at most {BULK_MAX} at a time")
        wanted: dict[str, tuple[Schedule, ScheduleInput]] = {}
        replaced: dict[str, Schedule] = {}
        for index, each in enumerate(given):
            schedule_id = f"sch_{secrets.token_hex(12)}" if each.schedule_id is None else each.schedule_id
            schedule = self._declared(index, schedule_id, each, twice=schedule_id in wanted)
            wanted[schedule_id] = schedule, each
            await _let_others_in(index)

        def edit(schedule_id: str, known: Snapshot | None) -> Schedule:
            schedule, asked = wanted[schedule_id]
            if known is not None and not may_edit(owner_of(known.schedule)):
                raise UnknownScheduleError(schedule_id)
            if schedule_id in revisions and revisions[schedule_id] != revision_of(known):
                raise OutdatedPlanError(schedule_id)
            if known is not None:
                replaced[schedule_id] = known.schedule
            schedule = with_stored_secrets(schedule, asked.executor, known)
            return with_pause(schedule, asked, known, self._now())

        upserted, now = list[Upserted](), self._now()
        stored = await self._registrar.upsert_all([*wanted], edit, workflows=workflows, by=by)
        for index, due in enumerate(stored):
            old = replaced.get(due.schedule.id)
            changed = () if old is None else changed_fields(old, due.schedule)
            upserted.append(Upserted(due.schedule.id, next_run_at(due, now), old is None, changed))
            await _let_others_in(index)
        return upserted

    async def preview_upsert(
        self, given: ScheduleInput, may_edit: Callable[[str], bool] = lambda _: True
    ) -> Preview:
        """Return the effect of `upsert_schedule` without changing anything; raises the same errors."""
        schedule_id = given.schedule_id or "new"
        schedule = self._declared(0, schedule_id, given, twice=False)
        known = None if given.schedule_id is None else await self._store.get(schedule_id)
        if known is not None and not may_edit(owner_of(known.schedule)):
            raise UnknownScheduleError(schedule_id)
        note = None if known is None else (await self._store.notes([schedule_id])).get(schedule_id)
        now, schedule = self._now(), with_stored_secrets(schedule, given.executor, known)
        return preview(known, note, with_pause(schedule, given, known, now), given.schedule_id, now)

    def _declared(self, index: int, schedule_id: str, given: ScheduleInput, twice: bool) -> Schedule:
        try:
            if given.paused not in (None, True, False):
                raise InvalidArgumentError("paused", given.paused, "write true or false, or leave it out")
            declared_end(given)
            schedule = declared(given, schedule_id, paused=False, defaults=self._defaults)
            if twice:
                raise InvalidArgumentError("schedule_id", schedule_id, "is in the same request twice")
        except DutifulError as error:
            error.details["index"] = index
            raise
        return schedule

    async def pause_schedule(
        self,
        schedule_id: str,
        paused: bool,
        note: str | None = None,
        by: str | None = None,
        until: datetime | None = None,
    ) -> None:
        """Pause with a note that says why, the user who does and an end, or resume, which clears them."""
        end = pause_end(until, paused, self._now())
        await self._registrar.pause(schedule_id, paused, note, by, end)

    async def pause_where(
        self,
        paused: bool,
        note: str | None = None,
        *,
        workflow_id: str | None = None,
        user_id: str | None = None,
        label: str | None = None,
        part: str | None = None,
        by: str | None = None,
        until: datetime | None = None,
        pause_note: str | None = None,
    ) -> int:
        """Pause or resume every schedule that matches all filters; return how many changed.

        A `part` is a text that the id contains. A schedule that is paused until another end changes too. A
        resumption may be limited to pauses with a `pause_note`.
        """
        facets = _facets(workflow_id, user_id, label, part)
        end = pause_end(until, paused, self._now())
        if pause_note is None:
            found = [due.schedule async for due in self._all("", facets, None if paused else True)]
            ids = [each.id for each in found if (each.paused, each.pause_until) != (paused, end)]
        else:
            ids = await paused_with_note(self._store, facets, resumption_note(pause_note, paused))

        def edit(_: str, known: Snapshot | None) -> Schedule | None:
            return None if known is None else known.schedule._replace(paused=paused, pause_until=end)

        for first in range(0, len(ids), LIMIT_MAX):
            some = ids[first : first + LIMIT_MAX]
            await self._registrar.upsert_all(some, edit, note, by=by, pausing=True)
        return len(ids)

    async def delete_schedule(self, schedule_id: str) -> None:
        """Delete a schedule and its history; runs that have started go on."""
        await self._registrar.remove(schedule_id)

    async def owner_of(self, schedule_id: str) -> str:
        """Return the user of a schedule; raises UnknownScheduleError."""
        return owner_of((await self._due(schedule_id)).schedule)

    async def get_schedule(self, schedule_id: str) -> ScheduleView:
        """Return a schedule with its next five fire times; raises UnknownScheduleError."""
        due, notes = await asyncio.gather(self._due(schedule_id), self._store.notes([schedule_id]))
        return view_schedule(due, notes.get(schedule_id), self._now())

    async def list_schedules(
        self,
        *,
        workflow_id: str | None = None,
        user_id: str | None = None,
        paused: bool | None = None,
        label: str | None = None,
        part: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[ScheduleView]:
        """Return a page of the schedules that match all filters, by id.

        A label is `name` or `name=text`, a `part` is a text that the id contains.
        """
        size, facets = page_size(limit), _facets(workflow_id, user_id, label, part)
        after = "" if cursor is None else str(decode_cursor(cursor, str)[0])
        found = await self._store.page(after, size + 1, facets, paused)
        more = encode_cursor(found[size - 1].schedule.id) if len(found) > size else None
        return Page(await self.views(found[:size]), more)

    async def schedules_of(self, workflow_id: str, version: int | None = None) -> dict[str, str]:
        """Return the ids of the schedules that start a workflow, or this version of it, with their users."""
        found = [
            (due.schedule.id, payload_of(due.schedule))
            async for due in self._all("", _facets(workflow_id, None, None))
        ]
        return {id_: each.user_id for id_, each in found if version in (None, each.version)}

    async def summary(self, user_id: str | None = None) -> Summary:
        """Return the overview of all schedules, or of one user's: counts, next ticks and recent runs."""
        facets, now = _facets(None, user_id, None), self._now()
        day_ago = moment(now - _DAY_MS)
        failed = await self.list_runs(status="FAILED", since=day_ago, user_id=user_id, limit=_SHOWN)
        recent = await self.list_runs(user_id=user_id, limit=_SHOWN)
        soonest = await self._store.soonest(_SHOWN, facets)
        return Summary(
            now=moment(now),
            schedules=await self._store.count(facets),
            paused=await self._store.count(facets, paused=True),
            next=[NextTick(due.schedule.id, next_run_at(due, now)) for due in soonest],
            failed=failed.items,
            recent=recent.items,
        )

    async def views(self, found: Sequence[Snapshot]) -> list[ScheduleView]:
        """Return schedules that were read as they are shown, with their notes."""
        notes, now = await self._store.notes([due.schedule.id for due in found]), self._now()
        return [view_schedule(due, notes.get(due.schedule.id), now) for due in found]

    async def some_schedules(self, ids: Sequence[str]) -> list[ScheduleView]:
        """Return the schedules among these that are stored, ordered by id."""
        return await self.views(await self._store.some(ids))

    async def damaged(self) -> list[Damaged]:
        """Return the damaged schedules; no list contains them, and only `delete` accepts them."""
        return [Damaged(*found) for found in await self._store.damaged()]

    async def _all(
        self, after: str, facets: Facets = (), paused: bool | None = None
    ) -> AsyncIterator[Snapshot]:
        while page := await self._store.page(after, LIMIT_MAX, facets, paused):
            for due in page:
                yield due
            after = page[-1].schedule.id

    async def next_fires(self, schedule_id: str, count: int) -> list[datetime]:
        """Return the next fire times, jitter included, in the schedule's own zone."""
        return fire_times(await self._due(schedule_id), self._now(), page_size(count))

    # Runs

    async def runs(self, schedule_id: str, limit: int = 100, cursor: str | None = None) -> Page[RunView]:
        """Return a page of the ledger, newest first; raises UnknownScheduleError."""
        size = page_size(limit)
        until, kind = (None, "") if cursor is None else decode_cursor(cursor, int, str)
        before = until if isinstance(until, int) else None
        # Up to two rows share an instant, and one of them may have been on the previous page.
        read = self._store.ledger(schedule_id, before, size + 3)
        _, rows = await asyncio.gather(self._due(schedule_id), read)
        rest = [row for row in rows if cursor is None or (row.run_at, row.kind) < (until, kind)]
        shown = rest[:size]
        more = encode_cursor(shown[-1].run_at, shown[-1].kind) if len(rest) > size else None
        return Page([view_run(row) for row in shown], more)

    async def list_runs(
        self,
        *,
        status: str | None = None,
        reason: str | None = None,
        schedule_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        user_id: str | None = None,
        trigger: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        oldest_first: bool = False,
    ) -> Page[RunView]:
        """Return a page of the runs of all schedules that match every filter, newest or oldest first.

        Ticks are in [since, until). A page may be short or empty and still have a `next_cursor`: one page
        scans a bounded number of rows.
        """
        wanted = RunFilter(
            None if status is None else choose("status", status, Status),
            None if reason is None else choose("reason", reason, Reason),
            schedule_id,
            None if since is None else instant("since", since),
            None if until is None else instant("until", until),
            user_id,
            trigger,
        )
        place = None if cursor is None else RunPlace._make(decode_cursor(cursor, int, int, str))
        page = await self._store.runs(wanted, place, page_size(limit), oldest_first)
        more = None if page.more_after is None else encode_cursor(*page.more_after)
        return Page([view_run(run) for run in page.runs], more)

    async def recent(self, limit: int, user_id: str | None = None) -> list[RunView]:
        """Return the newest rows of all ledgers; with a user, only the rows of its schedules among them."""
        runs = await self._store.recent(page_size(limit))
        if user_id is not None:
            found = await self._store.some({run.schedule_id for run in runs})
            own = {due.schedule.id for due in found if payload_of(due.schedule).user_id == user_id}
            runs = [run for run in runs if run.schedule_id in own]
        return [view_run(run) for run in runs]

    async def explain(self, schedule_id: str, at: datetime) -> Explanation:
        """Return why the tick at `at` ran, did not run, or will run."""
        instant("at", at)
        told = self._registrar.explain(schedule_id, at)
        verdict, due = await asyncio.gather(told, self._due(schedule_id))
        run = None if verdict.run is None else view_run(verdict.run)
        asked = steps(due, verdict, self._now())
        return Explanation(
            schedule_id, at, verdict.due, run, verdict.text, str(verdict.code), verdict.setting, asked
        )

    async def trigger(
        self,
        schedule_id: str,
        input: Any = None,  # noqa: A002
        idempotency_key: str | None = None,
    ) -> Triggered:
        """Request a run now, also of a paused schedule; `input` replaces the schedule's own.

        A second call with the same `idempotency_key` returns the run of the first.
        """
        nonce = secrets.token_hex(16) if idempotency_key is None else f"key:{idempotency_key}"
        own_key = hashlib.sha256(f"{schedule_id}:manual:{nonce}".encode()).hexdigest()
        text = None if input is None else json.dumps(json_value("input", input), ensure_ascii=False)
        run = await self._registrar.trigger(schedule_id, own_key, text)
        return Triggered(run.key, moment(run.run_at))

    async def cancel_run(self, idempotency_key: str) -> RunView:
        """Request the end of a run, and return it as it stands; a run that has ended stays as it is.

        The leading worker ends it in its next pass, and cancels it at its executor. Raises UnknownRunError.
        """
        run = await self.get_run(idempotency_key)
        await self._registrar.cancel(run.schedule_id, idempotency_key)
        return await self.get_run(idempotency_key)

    async def backfill(
        self,
        schedule_id: str,
        start: datetime,
        end: datetime,
        overlap_policy: str | None = None,
        force: bool = False,
    ) -> Backfilled:
        """Run the past ticks in [start, end) that did not run, each under its own key, paused or not.

        Without an overlap policy all of them run: together if the schedule allows it, else one after the
        other. `force` includes ticks whose rows were pruned. Raises OversizedBackfillError for too many
        ticks.
        """
        asked = _backfill_asked(start, end, overlap_policy)
        return _backfilled(await self._registrar.backfill(schedule_id, *asked, force))

    async def foresee_backfill(
        self, schedule_id: str, start: datetime, end: datetime, overlap_policy: str | None = None
    ) -> Backfilled:
        """Return what `backfill` would do now, and change nothing. Raises the same errors."""
        asked = _backfill_asked(start, end, overlap_policy)
        return _backfilled(await self._registrar.foresee_backfill(schedule_id, *asked))

    async def is_started(self, key: str, user_id: str) -> bool:
        """Return whether a run of this user was started under this key, by the launcher or in the ledger."""
        if await self._store.has_start(start_key(key, user_id)):
            return True
        found = await self._store.find(key)
        return found is not None and owner_of(found.schedule) == user_id

    async def note_start(self, key: str, user_id: str) -> None:
        """Record that the launcher started a run under this key for this user."""
        with self._clock.hold():
            await self._store.note_start(start_key(key, user_id), self._now(), _STARTS_KEPT_MS)

    async def get_run(self, idempotency_key: str, may_see: Callable[[str], bool] = lambda _: True) -> RunView:
        """Return one run of the ledger; raises UnknownRunError, also where `may_see` refuses its user."""
        found = await self._store.find(idempotency_key)
        if found is None or not may_see(owner_of(found.schedule)):
            raise UnknownRunError(idempotency_key)
        return view_run(found.run)

    async def report(
        self,
        idempotency_key: str,
        status: str,
        attempt: int | None = None,
        run_id: str | None = None,
        error: str | None = None,
        may_report: Callable[[str], bool] = lambda _: True,
    ) -> RunView:
        """Record an executor's report on a run, and return the run as it now stands; the first end wins.

        Raises UnknownRunError, also for a run of a user whom `may_report` refuses.
        """
        if status not in _REPORTS:
            raise InvalidArgumentError("status", status, f"choose from {', '.join(_REPORTS)}")
        if attempt is not None and (type(attempt) is not int or attempt < 1):
            raise InvalidArgumentError("attempt", attempt, "write the number of the attempt, from 1")
        said = Report(_REPORTS[status], attempt, run_id, error)  # type: ignore[arg-type]
        run = await self._registrar.report(
            idempotency_key, said, lambda schedule: may_report(owner_of(schedule)), self._on_report
        )
        return view_run(run)

    async def _due(self, schedule_id: str) -> Snapshot:
        due = await self._store.get(schedule_id)
        if due is None:
            raise UnknownScheduleError(schedule_id)
        return due

    def _now(self) -> Instant:
        return epoch_ms(self._clock.now())


async def _let_others_in(index: int) -> None:
    """Yield to the event loop every thousand items, so that a large request does not delay the worker."""
    if index % _AT_A_TIME == _AT_A_TIME - 1:
        await asyncio.sleep(0)


def _facets(
    workflow_id: str | None, user_id: str | None, label: str | None, part: str | None = None
) -> list[tuple[str, str]]:
    """Return the facets of the filters that are given."""
    wanted = (("user", user_id), ("workflow", workflow_id), ("label", label), (PART_OF_ID, part))
    return [(name, value) for name, value in wanted if value is not None]


def _backfill_asked(
    start: datetime, end: datetime, overlap_policy: str | None
) -> tuple[int, int, Overlap | None]:
    begin, stop = instant("start", start), instant("end", end)
    if stop <= begin:
        raise InvalidArgumentError("end", end.isoformat(), "must be after start")
    overlap = None if overlap_policy is None else choose("overlap_policy", overlap_policy, Overlap)
    return begin, stop, overlap


def _backfilled(done: Backfill) -> Backfilled:
    return Backfilled(done.accepted, done.already_recorded, done.unknown, done.overlapping)
