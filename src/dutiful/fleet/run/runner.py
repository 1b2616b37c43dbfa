"""One run of a schedule: from `running` to its completion and the time of the next, with its work item."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import DutifulError
from dutiful.fleet.cron import calculate_next_cron_trigger
from dutiful.fleet.interval import calculate_next_trigger
from dutiful.fleet.run.jobs.errors import JobNotStartedError
from dutiful.fleet.run.prompt import build_schedule_prompt
from dutiful.fleet.state.file import unless_disabled, update_schedule_state
from dutiful.fleet.types import JobRequest, JobResult, NextWorkItem, ScheduleRunResult
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from logging import Logger
    from pathlib import Path

    from dutiful.fleet.types import (
        Agent,
        AgentSchedule,
        JobExecutor,
        TriggerInfo,
        WorkItem,
        WorkSourceManager,
    )
    from dutiful.runtime.ports import Clock

_INTERRUPTED = "interrupted: the run was cancelled"


async def run_schedule(
    *,
    agent: Agent,
    schedule: AgentSchedule,
    schedule_name: str,
    state_dir: str | Path,
    job_executor: JobExecutor,
    work_source_manager: WorkSourceManager | None = None,
    logger: Logger | None = None,
    clock: Clock | None = None,
) -> ScheduleRunResult:
    """Do one job of a schedule and return how it went; nothing but a cancellation is raised.

    The state is `running` meanwhile, and afterwards has the time of completion, the next run and the last
    error; a schedule that is disabled stays so. A claimed work item is reported, or released if the job did
    not begin or was cancelled. Where the work source has nothing to do there is no job, unless the schedule
    says `run_without_work`. Where the state cannot be written at the start there is none either: it would be
    due again at once.
    """
    run = _Run(agent, schedule, schedule_name, logger or logging.getLogger("dutiful.fleet"))
    record = _Record(run, str(state_dir), clock or SystemClock())
    if (problem := record.mark_running()) is not None:
        return ScheduleRunResult(False, error=problem, ran=False)
    work = _Work(work_source_manager, run)
    try:
        result = await _done(run, work, job_executor)
    except asyncio.CancelledError:
        record.mark_ended(_INTERRUPTED)
        raise
    try:
        await work.report(result)
    finally:
        record.mark_ended(result.error)
    return result


async def perform(
    trigger: TriggerInfo,
    job_executor: JobExecutor,
    work_source_manager: WorkSourceManager | None = None,
    logger: Logger | None = None,
) -> ScheduleRunResult:
    """Do what `run_schedule` does for a schedule whose state somebody else keeps.

    The prompt is that of the trigger, whatever the schedule says, and the work item with it.
    """
    schedule = replace(trigger.schedule, prompt=trigger.prompt)
    run = _Run(trigger.agent, schedule, trigger.schedule_name, logger or logging.getLogger("dutiful.fleet"))
    work = _Work(work_source_manager, run)
    result = await _done(run, work, job_executor)
    await work.report(result)
    return result


async def _done(run: _Run, work: _Work, executor: JobExecutor) -> ScheduleRunResult:
    try:
        return await _job(run, work, executor)
    except asyncio.CancelledError:
        await work.release(_INTERRUPTED)
        raise


async def _job(run: _Run, work: _Work, executor: JobExecutor) -> ScheduleRunResult:
    try:
        found = await work.claim()
        if found is not None and work.item is None and not run.schedule.run_without_work:
            return ScheduleRunResult(True, summary=found.reason or "no work", ran=False)
        prompt = build_schedule_prompt(run.schedule, work.item, default_prompt=run.agent.default_prompt)
    except Exception as error:  # noqa: BLE001 - whatever a source raises, the next run is due as ever
        await work.release(_told(error))
        return ScheduleRunResult(False, error=_told(error), ran=False)
    return await _execute(JobRequest(run.agent, run.name, run.schedule, prompt, work.item), work, executor)


async def _execute(request: JobRequest, work: _Work, executor: JobExecutor) -> ScheduleRunResult:
    item = request.work_item
    try:
        done = await _awaited(executor.execute(request))
        error = None if done.success else done.error or "the job failed and did not say why"
        return ScheduleRunResult(bool(done.success), done.summary, error, item)
    except JobNotStartedError as raised:
        await work.release(_told(raised))
        return ScheduleRunResult(False, error=_told(raised), work_item=item, ran=False)
    except BaseException as raised:
        if _is_meant_for_us(raised):
            raise
        return ScheduleRunResult(False, error=_told(raised), work_item=item)


def _is_meant_for_us(error: BaseException) -> bool:
    """Return whether this ends the run from outside; an executor may raise the same classes by itself."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


@dataclass(frozen=True, slots=True)
class _Run:
    """What is run, and for whom."""

    agent: Agent
    schedule: AgentSchedule
    name: str
    log: Logger

    def warn(self, message: str, error: BaseException) -> None:
        self.log.warning("%s/%s: %s: %s", self.agent.name, self.name, message, _told(error))


@dataclass(frozen=True, slots=True)
class _Record:
    """The life of a run, as the state file tells it."""

    run: _Run
    state_dir: str
    clock: Clock

    def mark_running(self) -> str | None:
        """Write that the run has begun; return what kept that from being written."""
        # An interval run that is interrupted counts from its start.
        return self._write({"status": "running", "last_run_at": self.clock.now()})

    def mark_ended(self, error: str | None) -> None:
        now = self.clock.now()
        ended = {"last_run_at": now, "next_run_at": self._next(now), "last_error": error}
        self._write({"status": "idle", **ended})

    def _next(self, now: datetime) -> datetime | None:
        run, schedule = self.run, self.run.schedule
        try:
            if schedule.type == "cron":
                return calculate_next_cron_trigger(schedule.expression or "", now, self.clock.timezone)
            if schedule.type == "interval":
                key, interval = f"{run.agent.name}/{run.name}", schedule.interval or ""
                return calculate_next_trigger(now, interval, schedule.jitter_percent, now, key)
        except DutifulError as error:
            run.warn("the next run cannot be calculated", error)
        return None

    def _write(self, changes: dict[str, Any]) -> str | None:
        try:
            agent, name = self.run.agent.name, self.run.name
            update_schedule_state(self.state_dir, agent, name, unless_disabled(changes))
        except (OSError, DutifulError) as error:
            self.run.warn("the state cannot be written", error)
            return _told(error)
        return None


class _Work:
    """The work item of a run, if its work source had one."""

    def __init__(self, manager: WorkSourceManager | None, run: _Run) -> None:
        self._manager, self._run = manager, run
        self.item: WorkItem | None = None

    async def claim(self) -> NextWorkItem | None:
        """Return what the work source answered, or None if there is none to ask."""
        source = self._run.schedule.work_source or self._run.agent.work_source
        if source is None or self._manager is None:
            return None
        found: NextWorkItem = await _awaited(self._manager.get_next_work_item(self._run.agent, source))
        # What is not claimed is somebody else's, or will be.
        self.item = found.item if found.claimed else None
        return found

    async def report(self, result: ScheduleRunResult) -> None:
        """Tell the source how it went, if an item is held."""
        if self._manager is not None and self.item is not None:
            told = JobResult(result.success, result.summary, result.error)
            await self._end(self._manager.report_outcome, told, "reported")

    async def release(self, reason: str) -> None:
        """Give the item back, if one is held."""
        if self._manager is not None and self.item is not None:
            await self._end(self._manager.release_work_item, reason, "released")

    async def _end(self, how: Callable[..., Any], told: object, word: str) -> None:
        """Let go of the item; a source that cannot be told changes nothing about the job's result."""
        item, self.item = self.item, None
        assert item is not None

        async def end() -> None:
            try:
                await _awaited(how(item.id, told))
            except Exception as error:  # noqa: BLE001 - see above
                self._run.warn(f"work item {item.id} cannot be {word}", error)

        ending = asyncio.ensure_future(end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # What the source is being told is true all the same.
            await ending
            raise


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _told(error: BaseException) -> str:
    return str(error) or type(error).__name__
