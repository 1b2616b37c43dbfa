"""One run of a schedule: claim a work item, build the prompt, do the job, report the outcome.

`run_job` is the only function that does jobs. `run_schedule` adds a record in the state file, and the
scheduler of a fleet file calls `JobRunner` for every trigger.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import LOGGED_MAX, DutifulError, SchedulerError, as_text, quoted
from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.next_trigger import calculate_next_cron_trigger, calculate_next_trigger
from dutiful.fleet.run.jobs import executor_for
from dutiful.fleet.run.work_sources import WorkSources
from dutiful.fleet.state.file import begun, ended, found_no_work, update_schedule_state
from dutiful.fleet.types import JobRequest, JobResult, NextWorkItem, ScheduleRunResult, TriggerInfo
from dutiful.process.command import one_line
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from dutiful.fleet.run.output_log import OutputLogs
    from dutiful.fleet.state.file import Change
    from dutiful.fleet.types import (
        Agent,
        AgentSchedule,
        JobExecutor,
        SchedulerLogger,
        TriggerMetadata,
        WorkItem,
        WorkSourceManager,
    )
    from dutiful.process.output_log import OutputLog
    from dutiful.runtime.ports import Clock


INTERRUPTED = "interrupted: the run was cancelled"
_NO_JOB = "neither it nor its agent has a `job`; write one, such as job: {type: command, command: [echo, hi]}"
_LOGGER = logging.getLogger("dutiful.fleet")
DEFAULT_PROMPT = "Do the work that this schedule is for."


async def run_schedule(
    *,
    agent: Agent,
    schedule: AgentSchedule,
    schedule_name: str,
    state_dir: str | Path,
    job_executor: JobExecutor,
    work_source_manager: WorkSourceManager | None = None,
    logger: SchedulerLogger | None = None,
    clock: Clock | None = None,
) -> ScheduleRunResult:
    """Do one job of a schedule and return its result; raises only on cancellation.

    During the run the state is `running`. Afterwards it has the time of completion, the next run and the last
    error; a disabled schedule stays disabled.

    A claimed work item is reported, or released if the job did not begin or was cancelled. A work source
    without work means no job, unless the schedule says `run_without_work`. A state that cannot be written at
    the start means no job either: the schedule would be due again at once.
    """
    prompt = build_schedule_prompt(schedule, default_prompt=agent.default_prompt)
    # A webhook or chat schedule is only ever triggered by hand.
    kind: Any = schedule.type if schedule.type in ("interval", "cron") else "manual"
    trigger = TriggerInfo(agent, schedule_name, schedule, prompt, kind)
    record = _Record(trigger, str(state_dir), clock or SystemClock(), logger or _LOGGER)
    if (problem := record.begin()) is not None:
        return ScheduleRunResult(False, error=problem, ran=False)
    work = _Work(work_source_manager, trigger, logger or _LOGGER)
    try:
        return await _run(trigger, job_executor, work)
    finally:
        record.end(work.result)


async def run_job(
    trigger: TriggerInfo,
    executor: JobExecutor,
    sources: WorkSourceManager | None = None,
    logger: SchedulerLogger | None = None,
) -> ScheduleRunResult:
    """Do the job of a trigger, with its work item if there is a work source, and return its result."""
    return await _run(trigger, executor, _Work(sources, trigger, logger or _LOGGER))


async def _run(trigger: TriggerInfo, executor: JobExecutor, work: _Work) -> ScheduleRunResult:
    try:
        result = await _with_item(trigger, executor, work)
    except asyncio.CancelledError:
        await work.release(INTERRUPTED)
        raise
    work.result = result
    await work.report(result)
    return result


async def _with_item(trigger: TriggerInfo, executor: JobExecutor, work: _Work) -> ScheduleRunResult:
    schedule = replace(trigger.schedule, prompt=trigger.prompt)
    try:
        found = await work.claim()
        if found is not None and work.item is None and not schedule.run_without_work:
            return ScheduleRunResult(True, summary=found.reason or "no work", ran=False)
        prompt = build_schedule_prompt(schedule, work.item, default_prompt=trigger.agent.default_prompt)
    except BaseException as error:
        if comes_from_outside(error):
            raise
        # Any error of a source fails this run only.
        await work.release(as_text(error))
        return ScheduleRunResult(False, error=as_text(error), ran=False)
    request = JobRequest(trigger.agent, trigger.schedule_name, schedule, prompt, work.item, trigger.metadata)
    return await _execute(request, work, executor)


async def _execute(request: JobRequest, work: _Work, executor: JobExecutor) -> ScheduleRunResult:
    item = request.work_item
    try:
        done = await _awaited(executor.execute(request))
        error = None if done.success else done.error
        return checked_result(ScheduleRunResult(bool(done.success), done.summary, error, item))
    except JobNotStartedError as raised:
        await work.release(as_text(raised))
        return ScheduleRunResult(False, error=as_text(raised), work_item=item, ran=False)
    except BaseException as raised:
        if comes_from_outside(raised):
            raise
        return ScheduleRunResult(False, error=as_text(raised), work_item=item)


def checked_result(result: ScheduleRunResult) -> ScheduleRunResult:
    """Return a result with plain texts. A failed job has an error text, and a job with an error failed."""
    summary = None if result.summary is None else as_text(result.summary)
    if result.success and result.error is None:
        return result._replace(summary=summary)
    error = as_text(result.error or "the job failed and did not say why")
    return result._replace(success=False, summary=summary, error=error)


def end_of(
    result: ScheduleRunResult | None,
    at: datetime,
    next_run_at: datetime | None,
    *,
    still_running: bool = False,
) -> Change:
    """Return the change that records the end of a run; a run without a result was cancelled."""
    if result is not None and result.success and not result.ran:
        return found_no_work(at, next_run_at)
    error = INTERRUPTED if result is None else result.error
    return ended(at, next_run_at, error, still_running=still_running)


def comes_from_outside(error: BaseException) -> bool:
    """Return whether this error must end the run; executors may raise the same classes by mistake."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


class _Record(NamedTuple):
    """The record of a run in the state file."""

    trigger: TriggerInfo
    state_dir: str
    clock: Clock
    logger: SchedulerLogger

    def begin(self) -> str | None:
        """Write that the run has begun; return the problem if that cannot be written."""
        return self._write(begun(self.clock.now()))

    def end(self, result: ScheduleRunResult | None) -> None:
        now = self.clock.now()
        self._write(end_of(result, now, self._next(now)))

    def _next(self, now: datetime) -> datetime | None:
        name, schedule = _name(self.trigger), self.trigger.schedule
        zone = schedule.timezone or self.clock.timezone
        try:
            if schedule.type == "cron":
                return calculate_next_cron_trigger(schedule.expression or "", now, zone)
            if schedule.type == "interval":
                interval = schedule.interval or ""
                return calculate_next_trigger(now, interval, schedule.jitter_percent, now, name)
        except DutifulError as error:
            self.logger.warning("%s: the next run cannot be calculated: %s", name, as_text(error))
        return None

    def _write(self, change: Change) -> str | None:
        try:
            agent, name = self.trigger.agent.name, self.trigger.schedule_name
            update_schedule_state(self.state_dir, agent, name, change)
        except (OSError, DutifulError) as error:
            self.logger.warning("%s: the state cannot be written: %s", _name(self.trigger), as_text(error))
            return as_text(error)
        return None


class _Work:
    """The work item of a run, if its work source had one."""

    def __init__(
        self, sources: WorkSourceManager | None, trigger: TriggerInfo, logger: SchedulerLogger
    ) -> None:
        self._sources, self._trigger, self._logger = sources, trigger, logger
        self.item: WorkItem | None = None
        # None until the job has ended.
        self.result: ScheduleRunResult | None = None

    async def claim(self) -> NextWorkItem | None:
        """Return the answer of the work source, or None if the schedule has no work source."""
        agent = self._trigger.agent
        source = self._trigger.schedule.work_source or agent.work_source
        if source is None or self._sources is None:
            return None
        found: NextWorkItem = await _awaited(self._sources.get_next_work_item(agent, source))
        # An item that could not be claimed belongs to another process.
        self.item = found.item if found.claimed else None
        return found

    async def report(self, result: ScheduleRunResult) -> None:
        """Report the result to the source, if an item is held."""
        if self._sources is not None and self.item is not None:
            outcome = JobResult(result.success, result.summary, result.error)
            await self._end(self._sources.report_outcome, outcome, "reported")

    async def release(self, reason: str) -> None:
        """Release the item, if one is held."""
        if self._sources is not None and self.item is not None:
            await self._end(self._sources.release_work_item, reason, "released")

    async def _end(self, method: Callable[..., Any], argument: object, word: str) -> None:
        """End the claim of the item; an error of the source does not change the result of the job."""
        item, self.item = self.item, None
        assert item is not None

        async def end() -> None:
            try:
                await _awaited(method(item.id, argument))
            except BaseException as error:
                if comes_from_outside(error):
                    raise
                name = _name(self._trigger)
                self._logger.warning(
                    "%s: work item %s cannot be %s: %s", name, quoted(item.id), word, as_text(error)
                )

        ending = asyncio.ensure_future(end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # Finish a report that has begun, also when the run is cancelled: its content stays true.
            await ending
            raise


class JobRunner:
    """Does the jobs that a fleet file describes; call it with a `TriggerInfo`."""

    def __init__(self, logger: SchedulerLogger, clock: Clock, logs: OutputLogs | None = None) -> None:
        self._logger, self._clock, self._logs = logger, clock, logs
        self._sources = WorkSources(clock)
        self._executors: dict[str, JobExecutor] = {}
        # Open logs by run; a log is opened at the first output of a job.
        self._open: dict[tuple[str, TriggerMetadata | None], OutputLog | None] = {}
        # Schedules whose last poll found no work, which is logged only once.
        self._idle: set[str] = set()
        # "agent/schedule" -> the latest line that its running job has printed.
        self.latest: dict[str, str] = {}

    async def __call__(self, trigger: TriggerInfo) -> ScheduleRunResult:
        """Do one job and return its result. Raises JobNotStartedError if no job is configured."""
        name, key = _name(trigger), (_name(trigger), trigger.metadata)
        began = self._clock.monotonic()
        self.latest.pop(name, None)
        try:
            result = await run_job(trigger, self._executor(trigger), self._sources, self._logger)
            self._log_result(trigger, result, self._clock.monotonic() - began)
        except asyncio.CancelledError:
            self._note(trigger, "cancelled")
            raise
        finally:
            self.latest.pop(name, None)
            log = self._open.pop(key, None)
            if log is not None:
                log.close()
        return result

    def _log_result(self, trigger: TriggerInfo, result: ScheduleRunResult, took: float) -> None:
        name, found_none = _name(trigger), result.success and not result.ran
        how = "no work" if found_none else "done" if result.success else "failed"
        said = (result.summary if result.success else result.error) or ""
        item = "" if result.work_item is None else f" on {result.work_item.external_id}"
        text = f"{how}{item} after {took:.1f} s{f': {said}' if said else ''}"
        level = self._logger.info if result.success else self._logger.warning
        if found_none and name in self._idle:
            # Log only the first of consecutive empty polls.
            level = self._logger.debug
        (self._idle.add if found_none else self._idle.discard)(name)
        # A function or the title of an item may hold several lines, and control characters of a terminal.
        level("%s: %s", name, quoted(text, LOGGED_MAX))
        if not found_none:
            self._note(trigger, text)

    async def report_failure(self, trigger: TriggerInfo, error: str) -> None:
        """Do the `on_failure` job of a schedule, if it has one. Raises SchedulerError if that job fails."""
        config = trigger.schedule.on_failure or trigger.agent.on_failure
        if config is not None:
            named = (trigger.agent, trigger.schedule_name, trigger.schedule)
            request = JobRequest(*named, error, None, trigger.metadata, error)
            done = await _awaited(executor_for(config).execute(request))
            if not done.success:
                raise SchedulerError(as_text(done.error))

    def forget_executors(self) -> None:
        """Make new executors for the next jobs; running jobs are not disturbed."""
        self._executors.clear()

    def _executor(self, trigger: TriggerInfo) -> JobExecutor:
        config = trigger.schedule.job or trigger.agent.job
        if config is None:
            raise JobNotStartedError(_NO_JOB)
        key = json.dumps(config, sort_keys=True, default=str)
        if key not in self._executors:
            self._executors[key] = executor_for(config, self._hear, self._keep)
        return self._executors[key]

    def _hear(self, request: JobRequest, line: str) -> None:
        shown = one_line(line)
        if shown is not None:
            self.latest[f"{request.agent.name}/{request.schedule_name}"] = shown

    def _keep(self, request: JobRequest, chunk: bytes) -> None:
        log = self._log_of(request)
        if log is not None:
            log.write(chunk)

    def _note(self, trigger: TriggerInfo, text: str) -> None:
        """Append a line to the output of a run that says how the run ended."""
        log = self._log_of(trigger)
        if log is not None:
            log.note(f"[{text}]".encode("utf-8", "replace"))

    def _log_of(self, run: JobRequest | TriggerInfo) -> OutputLog | None:
        agent, schedule, metadata = run.agent.name, run.schedule_name, run.metadata
        if self._logs is None or metadata is None:
            return None
        key = (f"{agent}/{schedule}", metadata)
        if key not in self._open:
            kind = "manual" if metadata.trigger_type == "manual" else "schedule"
            self._open[key] = self._logs.open(agent, schedule, epoch_ms(metadata.due_at), kind)
        return self._open[key]


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _name(trigger: TriggerInfo) -> str:
    return f"{trigger.agent.name}/{trigger.schedule_name}"


def build_schedule_prompt(
    schedule: AgentSchedule, work_item: WorkItem | None = None, *, default_prompt: str | None = None
) -> str:
    """Return the prompt of the schedule, the agent or the default one, followed by the work item."""
    prompt = schedule.prompt or default_prompt or DEFAULT_PROMPT
    return prompt if work_item is None else f"{prompt}\n\n{_described(work_item)}"


def _described(item: WorkItem) -> str:
    paragraphs = [f"## Work item: {item.title}", item.description.strip(), "\n".join(_details(item))]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _details(item: WorkItem) -> Iterator[str]:
    ids = dict.fromkeys(filter(None, (item.external_id, item.id)))
    details = {
        "id": " = ".join(ids),
        "source": item.source,
        "priority": item.priority,
        "labels": ", ".join(item.labels),
        "url": item.url,
    }
    return (f"- {name}: {value}" for name, value in details.items() if value)
