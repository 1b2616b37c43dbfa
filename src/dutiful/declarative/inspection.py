"""The stored tasks of a scheduler, read and controlled from any process."""

from __future__ import annotations

import difflib
import os
import secrets
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import EPOCH
from dutiful.core.errors import InvalidArgumentError, NamespaceOwnedError, listing
from dutiful.core.plan.upcoming import upcoming
from dutiful.core.run import CANCEL_ASKED, IN_FLIGHT, Phase
from dutiful.runtime.cluster_clock import clock_of, sampled_look
from dutiful.runtime.cluster_ports import Sharded
from dutiful.runtime.registrar import Registrar
from dutiful.stores.url import sqlite_path, store_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Snapshot
    from dutiful.runtime.ports import Leader, Store

_PREVIEWED = 5


class Tasks:
    """The tasks of one store and namespace."""

    def __init__(self, store: Store) -> None:
        self._store, self._clock = store, clock_of(store)
        # The process that runs the tasks looks into the store about once a second, so no wake is needed.
        self._registrar = Registrar(store, self._clock, lambda: None)

    async def read_clock(self) -> None:
        """Set the clock by that of the database; requests to run are written with its time."""
        if isinstance(self._store, Sharded):
            await sampled_look(self._store, self._clock)

    async def all(self) -> list[dict[str, Any]]:
        """Return every task, ordered by name; a damaged task has its problem under `damage`."""
        now = self._clock.epoch_ms()
        views = [task_view(due, now) for due in await self._store.every()]
        views += [{"name": name, "damage": problem} for name, problem in await self._store.damaged()]
        return sorted(views, key=lambda view: str(view["name"]))

    async def one(self, name: str) -> dict[str, Any]:
        """Return one task with its next five ticks. Raises InvalidArgumentError for an unknown name."""
        due, now = await self._known(name), self._clock.epoch_ms()
        preview = [_iso(due, tick) for tick, _ in upcoming(due, now, _PREVIEWED)]
        return {**task_view(due, now), "preview": preview}

    async def history(self, name: str, limit: int) -> list[dict[str, Any]]:
        """Return the newest rows of the ledger of a task. Raises InvalidArgumentError where none is kept."""
        due = await self._known(name)
        if not due.schedule.policy.ledger:
            advice = "keeps no ledger; start its scheduler with ledger=True, or `dutiful run --ledger`"
            raise InvalidArgumentError("task", name, advice)
        return [run_view(due, run) for run in await self._store.ledger(name, None, limit)]

    async def run_now(self, name: str) -> str:
        """Request a run, and return its key; the leader makes it at its next look, or when one starts."""
        await self._known(name)
        return (await self._registrar.trigger(name, secrets.token_hex(32))).key

    async def cancel(self, name: str) -> int:
        """Request the end of the open runs of a task, and return their number."""
        await self._known(name)
        return len(await self._registrar.cancel(name))

    async def leader(self) -> Leader | None:
        """Return the process that runs the tasks, or None."""
        return await self._store.leader()

    async def _known(self, name: str) -> Snapshot:
        due = await self._store.get(name)
        if due is not None:
            return due
        names = [str(view["name"]) for view in await self.all()]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(map(repr, near))}?" if near else listing(names)
        raise InvalidArgumentError("task", name, f"there is no such task; {meant}")


@asynccontextmanager
async def open_tasks(url: str, namespace: str) -> AsyncIterator[Tasks]:
    """Open the store of tasks that another process may be running; it is neither created nor led.

    Raises InvalidArgumentError where there is nothing to open, and NamespaceOwnedError where the namespace
    belongs to another door.
    """
    store = store_for(url, namespace)
    _check_existence(url)
    await store.open()
    try:
        if await store.every():
            # Claim only a namespace with tasks: reading one that does not exist must not create it.
            await store.claim("library")
        tasks = Tasks(store)
        await tasks.read_clock()
        yield tasks
    except NamespaceOwnedError as error:
        error.add_note(_ADVICE.get(error.details["door"], ""))
        raise
    finally:
        await store.close()


def _check_existence(url: str) -> None:
    if url.startswith("memory:"):
        raise InvalidArgumentError("store", url, "only its own process can look into it; name a file")
    if url.startswith("sqlite:") and not os.path.exists(sqlite_path(url)):
        raise InvalidArgumentError("store", url, "there is no such file; name the store of the scheduler")


_ADVICE = {
    "service": "Use `dutiful schedules` for the schedules of a service.",
    "fleet": "Use `dutiful fleet` for the schedules of a fleet.",
}


def task_view(due: Snapshot, now: Instant) -> dict[str, Any]:
    """Return a task as plain values; instants in the zone of the task."""
    schedule, state = due.schedule, due.state
    cron, policy, retry = schedule.cadence, schedule.policy, schedule.policy.retry
    assert isinstance(cron, Cron)
    ticks = upcoming(due, now, 1)
    return {
        "name": schedule.id,
        "cron": str(cron),
        "dialect": cron.dialect,
        "timezone": cron.zone.name,
        **_activity(due),
        "next": _iso(due, ticks[0][0]) if ticks else None,
        "last_attempt_at": _iso(due, state.attempted_at),
        "last_success_at": _iso(due, state.succeeded_at),
        "last_failure_at": _iso(due, state.failed_at),
        "retry_delay_s": retry and retry.delay / 1000,
        "retry_limit": retry and retry.limit,
        "retry_backoff": retry and retry.backoff,
        "timeout_s": policy.run_timeout and policy.run_timeout / 1000,
        "ledger": policy.ledger,
        "quarantine": state.quarantine,
    }


def _activity(due: Snapshot) -> dict[str, Any]:
    """Return the activity of a task, under its documented names."""
    running = next((run for run in due.runs if run.phase in IN_FLIGHT), None)
    retry = next((run for run in due.runs if run.phase is Phase.RETRY), None)
    state = "Running" if running else "AwaitingRetry" if retry else "AwaitingRun"
    return {
        "state": state,
        "running_since": _iso(due, running and running.started_at),
        "retry_at": _iso(due, retry and retry.fire_at),
        "error": retry and retry.detail,
        "asked_for": sum(run.kind == "manual" and run.attempt == 0 for run in due.runs),
        "cancelling": any(run.reason is CANCEL_ASKED for run in due.runs),
    }


def run_view(due: Snapshot, run: Run) -> dict[str, Any]:
    """Return one row of the ledger as plain values."""
    return {
        "run_at": _iso(due, run.run_at),
        "run_until": _iso(due, run.run_until),
        "ticks": run.ticks,
        "trigger": run.kind,
        "status": run.status.value,
        "reason": run.reason and run.reason.value,
        "attempt": run.attempt,
        "started_at": _iso(due, run.started_at),
        "ended_at": _iso(due, run.ended_at),
        "detail": run.detail,
    }


def _iso(due: Snapshot, at: Instant | None) -> str | None:
    if at is None:
        return None
    cron = due.schedule.cadence
    zone = cron.zone.tzinfo if isinstance(cron, Cron) else UTC
    try:
        return (EPOCH + timedelta(milliseconds=at)).astimezone(zone).isoformat()
    except OverflowError:
        # A long retry delay may end after the last year of a datetime.
        return datetime.max.replace(tzinfo=UTC).isoformat()
