"""Carries a run to whoever does the job, and writes into the state file that it runs and how it ended."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import DutifulError
from dutiful.core.plan.outcome import Failed, NoWork, Succeeded
from dutiful.fleet.run.prompt import build_schedule_prompt
from dutiful.fleet.run.runner import INTERRUPTED
from dutiful.fleet.state.file import begun, ended
from dutiful.fleet.types import ScheduleRunResult, TriggerInfo
from dutiful.fleet.view import Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import Logger

    from dutiful.core.plan.outcome import Outcome
    from dutiful.fleet.roster import Entry
    from dutiful.fleet.state.cache import StateBook
    from dutiful.fleet.view import View
    from dutiful.runtime.ports import Clock, Launch


class JobLauncher:
    """Triggers jobs: the state says `running` before a job begins, and what came of it when it has ended."""

    in_process = True

    def __init__(
        self, view: View, book: StateBook, on_trigger: Callable[[TriggerInfo], Any] | None, clock: Clock,
        logger: Logger,
    ) -> None:  # fmt: skip
        self._view, self._book, self._on_trigger = view, book, on_trigger
        self._clock, self._logger = clock, logger
        self.triggered = 0

    async def launch(self, launch: Launch) -> Outcome:
        """Do the job and return how it went."""
        entry, run = self._view.entries.get(launch.schedule.id), launch.run
        if entry is None:
            return Failed("the schedule is no longer there")
        prompt = (run.detail if run.kind == "manual" else None) or build_schedule_prompt(
            entry.written, default_prompt=entry.agent.default_prompt
        )
        started_at = epoch_ms(self._clock.now())
        job = Job(entry, run.run_at, run.kind, started_at, prompt)
        self._view.begin(job)
        self.triggered += 1
        error: str | None = INTERRUPTED
        try:
            outcome = await self._carry(job)
            error = outcome.detail if isinstance(outcome, Failed) else None
        finally:
            self._view.end(job)
            self._note_end(entry, error)
        await self._flush(entry)
        return outcome

    async def _carry(self, job: Job) -> Outcome:
        entry = job.entry
        self._book.note(entry.agent.name, entry.name, begun(self._view.told(job.started_at)))
        problem = await self._flush(entry)
        if problem is not None:
            # It would be due again at once, and nobody would know that it runs.
            return Failed(problem)
        manual = job.kind == "manual"
        kind: Any = "manual" if manual else entry.written.type
        info = TriggerInfo(entry.agent, entry.name, entry.written, job.prompt, kind)
        self._logger.info("%s: triggered (%s)", entry.id, info.trigger_type)
        try:
            return _outcome(await self._triggered(info))
        except Exception as error:  # noqa: BLE001 - whatever a job raises is that job's failure
            self._logger.error("%s: %s", entry.id, error)  # noqa: TRY400 - the job's error, not ours
            return Failed(str(error) or type(error).__name__)

    async def _triggered(self, info: TriggerInfo) -> object:
        if self._on_trigger is None:
            return None
        answer = self._on_trigger(info)
        return await answer if inspect.isawaitable(answer) else answer

    def _note_end(self, entry: Entry, error: str | None) -> None:
        now = self._clock.now()
        change = ended(now, self._view.next_run(entry, epoch_ms(now)), error)
        self._book.note(entry.agent.name, entry.name, change)

    async def _flush(self, entry: Entry) -> str | None:
        """Write down what was noted; return what kept it from being written. The next pass tries again."""
        try:
            await self._book.flush()
        except (OSError, DutifulError) as error:
            self._logger.warning("%s: the state cannot be written: %s", entry.id, error)
            return str(error)
        return None


def _outcome(answer: object) -> Outcome:
    if not isinstance(answer, ScheduleRunResult):
        return Succeeded()
    if not answer.success or answer.error is not None:
        return Failed(answer.error or "the job failed and did not say why")
    return Succeeded(answer.summary) if answer.ran else NoWork(answer.summary)
