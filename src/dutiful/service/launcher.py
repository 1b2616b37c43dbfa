"""The launcher of the service: loads the DAG of a run and hands it to the executor."""

from __future__ import annotations

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from dutiful.core.errors import CodecError, InvalidArgumentError, StoreError, quoted
from dutiful.core.plan.outcome import Accepted, Failed, Outcome, Refused, Succeeded, Unreached, raised
from dutiful.core.policy import Reason
from dutiful.core.run import Phase
from dutiful.launchers.executor import Cancelling, Meta
from dutiful.service.payload import NAMES_EXECUTOR, payload_of
from dutiful.service.views import moment
from dutiful.service.workflows import WorkflowStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import Any

    from dutiful.launchers.executor import Source
    from dutiful.launchers.url import Executors
    from dutiful.runtime.ports import Clock, Launch, Store

_LOOKED_AT = 1000
_SOURCES: dict[str, Source] = {"schedule": "schedule", "manual": "manual", "backfill": "backfill"}


async def named_executors(store: Store) -> dict[str, str]:
    """Return the URLs of the executors that schedules name, each with the id of one such schedule.

    Paused schedules launch nothing and are left out. At most `_LOOKED_AT` schedules are read.
    """
    found: dict[str, str] = {}
    for due in await store.page("", _LOOKED_AT, (NAMES_EXECUTOR,), paused=False):
        url = payload_of(due.schedule).executor
        if url is not None:
            found.setdefault(url, due.schedule.id)
    return found


def start_key(key: str, user_id: str) -> str:
    """Return the key under which a start is remembered: two users may choose the same key for theirs."""
    return hashlib.sha256(f"{user_id}\n{key}".encode()).hexdigest()


class NoExecutor:
    """The executor of a service without DUTIFUL_EXECUTOR: refuses every run, and says what to set."""

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return a refusal."""
        del dag, meta
        return Refused(Reason.LAUNCH_REFUSED, "there is no executor: set DUTIFUL_EXECUTOR")


class RunLauncher:
    """Starts runs of workflows, for the engine and for callers of `start`."""

    def __init__(self, store: Store, clock: Clock, executors: Executors) -> None:
        self._store, self._clock, self._executors = store, clock, executors
        self._workflows = WorkflowStore(store, clock)
        # A lock lives while a request holds it or waits for it.
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Whether a launched run has started; otherwise it is enqueued until its executor reports.
        self.in_process: bool = getattr(executors.default, "in_process", False)

    @property
    def has_executor(self) -> bool:
        """Return whether the service has an executor of its own."""
        return not isinstance(self._executors.default, NoExecutor)

    def refusal_by(self, executor: str) -> str | None:
        """Return why each run of a schedule that names this executor would be refused, else None."""
        return self._executors.refusal(executor)

    async def close(self) -> None:
        """Close the executors."""
        await self._executors.close()

    @asynccontextmanager
    async def one_at_a_time(self, key: str) -> AsyncGenerator[None]:
        """Serialize requests with the same key, so that a repeat finds the recorded start."""
        lock = self._starting.setdefault(key, asyncio.Lock())
        async with lock:
            yield

    async def start(
        self, workflow_id: str, version: int, user_id: str, scheduled_for: datetime, idempotency_key: str
    ) -> bool:
        """Start one run, and return whether the executor accepted it; the ledger does not record it."""
        meta = Meta("schedule", "", workflow_id, version, user_id, scheduled_for, idempotency_key, 1, 0)
        return isinstance(await self._carry(meta), Accepted | Succeeded)

    async def launch(self, launch: Launch) -> Outcome:
        """Hand a run of the ledger to its executor, and return the outcome; raises nothing."""
        try:
            return await self._carry(_meta(launch), _executor_of(launch))
        except CodecError as error:
            return Refused(Reason.LAUNCH_REFUSED, str(error))

    async def cancel(self, launch: Launch) -> None:
        """Ask the executor of a run to end it, if the executor can cancel; raises nothing."""
        with suppress(CodecError, InvalidArgumentError):
            async with self._executors.using(_executor_of(launch)) as executor:
                if isinstance(executor, Cancelling):
                    await executor.cancel(_meta(launch), launch.run.run_id)

    async def _carry(self, meta: Meta, executor: str | None = None) -> Outcome:
        with span_of(meta):
            return await self._hand_over(meta, executor)

    async def _hand_over(self, meta: Meta, executor: str | None) -> Outcome:
        try:
            dag = await self._workflows.load_dag(meta.workflow_id, meta.version)
            # A report of an earlier attempt may have come since this launch was recorded.
            if meta.attempt > 1 and await self._has_ended(meta.idempotency_key):
                return Unreached("the run had ended before this attempt was sent")
        except (StoreError, ValueError) as error:
            # Nothing was sent, and the store may answer at the next attempt.
            return Unreached(str(error))
        if dag is None:
            problem = f"workflow {quoted(meta.workflow_id)!r} has no version {meta.version}; store it first"
            return Refused(Reason.UNKNOWN_WORKFLOW, problem)
        try:
            async with self._executors.using(executor) as chosen:
                outcome: object = await chosen.run(dag, meta)
        except InvalidArgumentError as error:
            return Refused(Reason.LAUNCH_REFUSED, str(error))
        except Exception as error:  # noqa: BLE001 - any exception of an executor is a failed run
            return raised(error)
        return outcome if isinstance(outcome, Outcome) else Failed(f"it answered {outcome!r:.80}")

    async def _has_ended(self, key: str) -> bool:
        with self._clock.hold():
            found = await self._store.find(key)
        return found is not None and found.run.phase is Phase.ENDED


def _meta(launch: Launch) -> Meta:
    run, payload = launch.run, payload_of(launch.schedule)
    return Meta(
        source=_SOURCES[run.trigger],
        schedule_id=run.schedule_id,
        workflow_id=payload.workflow_id,
        version=payload.version,
        user_id=payload.user_id,
        scheduled_for=moment(run.run_at),
        idempotency_key=run.key,
        attempt=run.attempt,
        epoch=run.epoch,
        labels=payload.labels,
        input=payload.input if run.input is None else json.loads(run.input),
        task_failures=run.task_failures,
    )


def _executor_of(launch: Launch) -> str | None:
    """Return the URL of the executor that the schedule names; None for the executor of the service."""
    return payload_of(launch.schedule).executor


def span_of(meta: Meta) -> AbstractContextManager[object]:
    """Return the tracing span of a launch; spans of the executor become its children."""
    try:
        from opentelemetry import trace
    except ImportError:
        return nullcontext()
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        # No tracing is set up, so no exporter would see the span, which took 15 us of each launch.
        return nullcontext()
    attributes: dict[str, str | int] = {
        "dutiful.schedule_id": meta.schedule_id,
        "dutiful.workflow_id": meta.workflow_id,
        "dutiful.version": meta.version,
        "dutiful.source": meta.source,
        "dutiful.idempotency_key": meta.idempotency_key,
        "dutiful.attempt": meta.attempt,
        "dutiful.scheduled_for": meta.scheduled_for.isoformat(),
    }
    return trace.get_tracer("dutiful").start_as_current_span("dutiful.run", attributes=attributes)
