"""The launcher of the service: loads the DAG of a run and hands it to the executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from dutiful.core.errors import CodecError, StoreError, quoted
from dutiful.core.plan.outcome import Accepted, Failed, Outcome, Refused, Succeeded, Unreached, raised
from dutiful.core.policy import Reason
from dutiful.launchers.executor import Closing, Meta
from dutiful.service.declaration import workflow_of
from dutiful.service.tracing import span_of
from dutiful.service.views import moment, trigger_of

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from dutiful.launchers.executor import Executor, Source
    from dutiful.runtime.ports import Launch
    from dutiful.service.workflows import WorkflowStore

_SOURCES: dict[str, Source] = {"schedule": "schedule", "manual": "manual", "backfill": "backfill"}


class NoExecutor:
    """Stands in where none was set: every run is refused, with what to do about it."""

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Refuse."""
        del dag, meta
        return Refused(Reason.LAUNCH_REFUSED, "there is no executor: set DUTIFUL_EXECUTOR")


class RunLauncher:
    """Starts runs of workflows, for the engine and for whoever asks."""

    in_process = False

    def __init__(self, workflows: WorkflowStore, executor: Executor) -> None:
        self._workflows, self._executor = workflows, executor

    async def close(self) -> None:
        """Let go of what the executor keeps open."""
        if isinstance(self._executor, Closing):
            await self._executor.close()

    async def start(
        self, workflow_id: str, version: int, user_id: str, scheduled_for: datetime, idempotency_key: str
    ) -> bool:
        """Start one run, and return whether the executor took it; there is no record of it in the ledger."""
        meta = Meta("schedule", "", workflow_id, version, user_id, scheduled_for, idempotency_key, 1, 0)
        return isinstance(await self._carry(meta), Accepted | Succeeded)

    async def launch(self, launch: Launch) -> Outcome:
        """Carry a run of the ledger to the executor, and return how that went; raises nothing."""
        run = launch.run
        try:
            workflow_id, version, user_id, _ = workflow_of(launch.schedule)
        except CodecError as error:
            return Refused(Reason.LAUNCH_REFUSED, str(error))
        return await self._carry(
            Meta(
                source=_SOURCES[trigger_of(run)],
                schedule_id=run.schedule_id,
                workflow_id=workflow_id,
                version=version,
                user_id=user_id,
                scheduled_for=moment(run.run_at),
                idempotency_key=run.key,
                attempt=run.attempt,
                epoch=run.epoch,
            )
        )

    async def _carry(self, meta: Meta) -> Outcome:
        with span_of(meta):
            return await self._hand_over(meta)

    async def _hand_over(self, meta: Meta) -> Outcome:
        try:
            dag = await self._workflows.load_dag(meta.workflow_id, meta.version)
        except (StoreError, ValueError) as error:
            # Nothing was sent; the store may answer the next time.
            return Unreached(str(error))
        if dag is None:
            problem = f"workflow {quoted(meta.workflow_id)!r} has no version {meta.version}; store it first"
            return Refused(Reason.UNKNOWN_WORKFLOW, problem)
        try:
            outcome: object = await self._executor.run(dag, meta)
        except Exception as error:  # noqa: BLE001 - whatever an executor raises is a run that failed
            return raised(error)
        return outcome if isinstance(outcome, get_args(Outcome)) else Failed(f"it answered {outcome!r:.80}")
