"""Hands runs to `on_trigger`, and records in the state file that they run and how they ended."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import LOGGED_MAX, DutifulError, as_text, quoted
from dutiful.core.plan.outcome import Failed, NoWork, Refused, Succeeded
from dutiful.core.policy import Reason
from dutiful.fleet.run.run_schedule import (
    build_schedule_prompt,
    checked_result,
    comes_from_outside,
    end_of,
)
from dutiful.fleet.state.file import begun
from dutiful.fleet.types import JobResult, ScheduleRunResult, TriggerInfo, TriggerMetadata
from dutiful.fleet.view import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.core.plan.outcome import Outcome
    from dutiful.core.run import Run
    from dutiful.fleet.state.cache import StateCache
    from dutiful.fleet.types import SchedulerLogger, WorkItem
    from dutiful.fleet.view import Entry, View
    from dutiful.runtime.ports import Clock, Launch

CANCELLED = "cancelled by request"
_TITLE_MAX = 200


class JobLauncher:
    """Triggers jobs. The state file says `running` before a job begins, and has its result afterwards."""

    in_process = True

    def __init__(
        self,
        view: View,
        cache: StateCache,
        on_trigger: Callable[[TriggerInfo], Any] | None,
        on_failure: Callable[[TriggerInfo, str], Any] | None,
        clock: Clock,
        logger: SchedulerLogger,
    ) -> None:
        self._view, self._cache, self._clock, self._logger = view, cache, clock, logger
        self._on_trigger, self._on_failure = on_trigger, on_failure
        # The tasks of the running jobs, and the keys of the jobs that a user has cancelled.
        self._tasks: dict[tuple[str, int, str], asyncio.Task[Any]] = {}
        self._cancelled: set[tuple[str, int, str]] = set()
        # The reports of failed runs that are under way.
        self.reports: set[asyncio.Task[None]] = set()
        self.triggered = 0

    def cancel(self, schedule_id: str) -> int:
        """Cancel the running jobs of a schedule; return how many."""
        jobs = [key for key in self._tasks if key[0] == schedule_id]
        for key in jobs:
            self._cancelled.add(key)
            self._tasks[key].cancel()
        return len(jobs)

    async def launch(self, launch: Launch) -> Outcome:
        """Do the job and return its outcome."""
        entry, run = self._view.entries.get(launch.schedule.id), launch.run
        if entry is None:
            return _given_up(run, "the schedule is no longer there")
        job = self._job(entry, run)
        info = self._info(job, run)
        if entry.disabled and run.kind == "schedule" and run.attempt > 1:
            self._tell_failure(info, run.detail or "")
            return _given_up(run, "not retried, because the schedule was disabled")
        self._view.begin(job)
        self.triggered += 1
        result: ScheduleRunResult | None = None
        try:
            result = await self._cancellable(job, info)
        finally:
            self._view.end(job)
            self._note_end(job, result)
        await self._flush(entry.id)
        outcome = _outcome(result)
        if isinstance(outcome, Failed) and _is_final(info):
            self._tell_failure(info, result.error or "")
            # A manual run is not retried, so end it for good.
            return Refused(Reason.TASK_FAILED, outcome.detail)
        return outcome

    def note_given_up(self, run: Run) -> None:
        """Report a failed run whose retry is dropped, because the next run of its schedule came first."""
        entry = self._view.entries.get(run.schedule_id)
        if entry is not None:
            self._tell_failure(self._info(self._job(entry, run), run), run.detail or "")

    def _job(self, entry: Entry, run: Run) -> Job:
        given = None if run.input is None else json.loads(run.input)
        prompt = given or build_schedule_prompt(entry.written, default_prompt=entry.agent.default_prompt)
        return Job(entry, run.run_at, run.kind, epoch_ms(self._clock.now()), prompt)

    def _info(self, job: Job, run: Run) -> TriggerInfo:
        entry = job.entry
        kind: Any = "manual" if run.kind == "manual" else entry.written.type
        metadata = TriggerMetadata(self._view.told(run.run_at), kind, run.attempt)
        return TriggerInfo(entry.agent, entry.name, entry.written, job.prompt, kind, metadata)

    async def _cancellable(self, job: Job, info: TriggerInfo) -> ScheduleRunResult:
        task, key = asyncio.current_task(), (job.entry.id, job.run_at, job.kind)
        assert task is not None
        self._tasks[key] = task
        try:
            return await self._carry(job, info)
        except asyncio.CancelledError:
            if key not in self._cancelled:
                raise
            task.uncancel()
            self._logger.warning("%s: %s", job.entry.id, CANCELLED)
            return ScheduleRunResult(False, error=CANCELLED)
        finally:
            del self._tasks[key]
            self._cancelled.discard(key)

    async def _carry(self, job: Job, info: TriggerInfo) -> ScheduleRunResult:
        entry = job.entry
        self._cache.note(entry.agent.name, entry.name, begun(self._view.told(job.started_at)))
        problem = await self._flush(entry.id)
        if problem is not None:
            # Without a record the schedule would be due again at once, and no view would show the job.
            return ScheduleRunResult(False, error=problem)
        # With a work source the job runner logs jobs only: an empty poll is no event.
        polls = info.schedule.work_source is not None or info.agent.work_source is not None
        level = self._logger.debug if polls else self._logger.info
        level("%s: triggered (%s)", entry.id, info.trigger_type)
        try:
            answer = await self._triggered(info)
        except BaseException as error:
            if comes_from_outside(error):
                raise
            said = as_text(error)
            self._logger.error("%s: %s", entry.id, quoted(said, LOGGED_MAX))  # noqa: TRY400
            return ScheduleRunResult(False, error=said)
        return _result(answer)

    async def _triggered(self, info: TriggerInfo) -> object:
        if self._on_trigger is None:
            return None
        answer = self._on_trigger(info)
        return await answer if inspect.isawaitable(answer) else answer

    def _tell_failure(self, info: TriggerInfo, error: str) -> None:
        """Start to report a failed run; the report takes its own time, and cannot change the result."""
        if self._on_failure is not None and error != CANCELLED:
            task = asyncio.ensure_future(self._report(self._on_failure, info, error))
            self.reports.add(task)
            task.add_done_callback(self.reports.discard)

    async def _report(
        self, on_failure: Callable[[TriggerInfo, str], Any], info: TriggerInfo, error: str
    ) -> None:
        try:
            answer = on_failure(info, error)
            if inspect.isawaitable(answer):
                await answer
        except BaseException as raised:
            if comes_from_outside(raised):
                raise
            name = f"{info.agent.name}/{info.schedule_name}"
            said = quoted(as_text(raised), LOGGED_MAX)
            self._logger.error("%s: on_failure failed: %s", name, said)  # noqa: TRY400

    def _note_end(self, job: Job, result: ScheduleRunResult | None) -> None:
        entry, now = job.entry, self._clock.now()
        next_run_at = self._view.next_run(entry, epoch_ms(now))
        still_running = self._view.is_running(entry.id)
        change = end_of(result, now, next_run_at, still_running=still_running)
        self._cache.note(entry.agent.name, entry.name, change)

    async def _flush(self, schedule_id: str) -> str | None:
        """Write the noted changes; return the problem if that fails. The next pass retries."""
        try:
            await self._cache.flush()
        except (OSError, DutifulError) as error:
            self._logger.warning("%s: the state cannot be written: %s", schedule_id, error)
            return str(error)
        return None


def _given_up(run: Run, why: str) -> Outcome:
    """Return the outcome of a run that is not carried out, or not again: its last error, and the reason."""
    return Refused(Reason.TASK_FAILED, f"{run.detail}; {why}" if run.detail else why)


def _is_final(info: TriggerInfo) -> bool:
    """Return whether no retry follows a failure of this attempt."""
    attempt = 1 if info.metadata is None else info.metadata.attempt
    return info.trigger_type == "manual" or attempt > info.schedule.retries


def _result(answer: object) -> ScheduleRunResult:
    """Return the result from `on_trigger`; any value that is no result means success."""
    if isinstance(answer, JobResult):
        answer = ScheduleRunResult(*answer)
    if isinstance(answer, ScheduleRunResult):
        return checked_result(answer)
    if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
        return ScheduleRunResult(False, error="on_trigger returned a generator, so nothing of it was run")
    return ScheduleRunResult(True)


def _outcome(result: ScheduleRunResult) -> Outcome:
    if result.error == CANCELLED:
        return Refused(Reason.TASK_FAILED, CANCELLED)
    if not result.success:
        return Failed(_with_item(result.error, result.work_item))
    if not result.ran:
        return NoWork(result.summary)
    return Succeeded(_with_item(result.summary, result.work_item))


def _with_item(text: str | None, item: WorkItem | None) -> str | None:
    """Return a text for the history that also names the work item."""
    if item is None:
        return text
    named = f"work item {item.external_id}: {item.title}"[:_TITLE_MAX]
    return f"{text} ({named})" if text else f"({named})"
