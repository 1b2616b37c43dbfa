"""Does the jobs of a fleet as its file describes them, and follows what they print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dutiful.fleet.run.jobs import executor_for
from dutiful.fleet.run.jobs.errors import JobNotStartedError
from dutiful.fleet.run.runner import perform
from dutiful.fleet.run.work_sources import WorkSources
from dutiful.process.output import one_line

if TYPE_CHECKING:
    from logging import Logger

    from dutiful.fleet.types import JobExecutor, JobRequest, ScheduleRunResult, TriggerInfo
    from dutiful.runtime.ports import Clock

_NO_JOB = "neither it nor its agent has a `job`; write one, such as job: {type: command, command: [echo, hi]}"


class Performer:
    """What a fleet does when a schedule is triggered."""

    def __init__(self, logger: Logger, clock: Clock) -> None:
        self._logger, self._clock = logger, clock
        self._sources = WorkSources(clock)
        self._executors: dict[str, JobExecutor] = {}
        # "agent/schedule" -> the latest line of its job that runs.
        self.latest: dict[str, str] = {}

    async def __call__(self, trigger: TriggerInfo) -> ScheduleRunResult:
        """Do one job and return how it went. Raises what kept it from having an executor."""
        name = f"{trigger.agent.name}/{trigger.schedule_name}"
        began = self._clock.monotonic()
        self.latest.pop(name, None)
        try:
            result = await perform(trigger, self._executor(trigger), self._sources, self._logger)
        finally:
            self.latest.pop(name, None)
        how = "done" if result.success and result.ran else "no work" if result.success else "failed"
        took = self._clock.monotonic() - began
        said = (result.summary if result.success else result.error) or ""
        level = self._logger.info if result.success else self._logger.warning
        level("%s: %s after %.1f s%s", name, how, took, f": {said}" if said else "")
        return result

    def forget_executors(self) -> None:
        """Make them anew for the next jobs; what runs is not disturbed."""
        self._executors.clear()

    def _executor(self, trigger: TriggerInfo) -> JobExecutor:
        config = trigger.schedule.job or trigger.agent.job
        if config is None:
            raise JobNotStartedError(_NO_JOB)
        key = json.dumps(config, sort_keys=True, default=str)
        if key not in self._executors:
            self._executors[key] = executor_for(config, self._hear)
        return self._executors[key]

    def _hear(self, request: JobRequest, line: str) -> None:
        shown = one_line(line)
        if shown is not None:
            self.latest[f"{request.agent.name}/{request.schedule_name}"] = shown
