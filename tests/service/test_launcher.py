"""The launcher: a run becomes a call of the executor, and whatever goes wrong becomes an outcome."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.core.plan.planner_notation import run, schedule
from tests.service.rig import Calls, after, given, play
from tests.web_server import Reply, serving

from dutiful.core.errors import StoreError
from dutiful.core.plan.outcome import Accepted, Failed, Refused, Unreached
from dutiful.core.policy import Overlap, Reason
from dutiful.core.run import Phase
from dutiful.core.schedule import Schedule, Task
from dutiful.launchers.executor import ExecutorSettings
from dutiful.launchers.url import Executors
from dutiful.runtime.ports import Launch
from dutiful.service import RunLauncher, Service, WorkflowStore, settings_from
from dutiful.service.launcher import NoExecutor
from dutiful.stores.memory import MemoryStore
from dutiful.testing import VirtualClock

PAYLOAD = '{"workflow_id":"report","version":1,"user_id":"ada","labels":{}}'


class DeadStore:
    async def load_workflow(self, _workflow_id, _version):
        raise StoreError("The disk is gone", "mend it")


def launched(executor, record, payload=PAYLOAD, texts=None):
    async def story():
        clock = VirtualClock("2026-01-05T10:00:00+00:00")
        store = texts or MemoryStore()
        if texts is None:
            await WorkflowStore(store, clock).save_dag("report", 1, {"nodes": [1]})
        declared = Schedule("s", Task("workflow", payload), schedule().cadence)
        executors = Executors(executor, ExecutorSettings(clock))
        return await RunLauncher(store, clock, executors).launch(Launch(declared, record))

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({}, "schedule"),
        ({"kind": "manual", "own_key": "ab" * 32}, "manual"),
        ({"backfill": Overlap.ALLOW}, "backfill"),
    ],
)
def test_the_executor_gets_every_fact_of_the_run(changes, source):
    calls, record = Calls(), run("10:01", attempt=3, epoch=9, **changes)
    assert launched(calls, record) == Accepted("run 1")
    [meta] = calls.metas
    assert meta.as_json() == {
        "source": source, "schedule_id": "s", "workflow_id": "report", "version": 1, "user_id": "ada",
        "scheduled_for": "2026-01-05T10:01:00Z", "idempotency_key": record.key, "attempt": 3, "epoch": 9,
        "labels": {}, "input": None,
    }  # fmt: skip
    assert calls.dags == [{"nodes": [1]}]


@pytest.mark.parametrize(("own", "handed"), [(None, {"day": 1}), ('["by hand"]', ["by hand"]), ("0", 0)])
def test_the_executor_is_given_the_input_of_the_run_or_else_of_its_schedule(own, handed):
    calls, payload = Calls(), {**json.loads(PAYLOAD), "labels": {"team": "a"}, "input": {"day": 1}}
    launched(calls, run("10:01", kind="manual", own_key="ab" * 32, input=own), json.dumps(payload))
    [meta] = calls.metas
    assert (meta.labels, meta.input) == ({"team": "a"}, handed)


def test_an_unknown_workflow_is_refused_for_good():
    calls = Calls()
    outcome = launched(calls, run("10:01"), PAYLOAD.replace('"version":1', '"version":2'))
    assert outcome == Refused(Reason.UNKNOWN_WORKFLOW, "workflow 'report' has no version 2; store it first")
    assert calls.metas == []


def test_a_store_that_does_not_answer_is_asked_again():
    outcome = launched(Calls(), run("10:01"), texts=DeadStore())
    assert outcome == Unreached("The disk is gone: mend it")


def test_a_payload_that_is_not_the_services_is_refused():
    assert isinstance(launched(Calls(), run("10:01"), "hello"), Refused)


def test_what_an_executor_raises_or_babbles_is_a_failed_run():
    async def burst(_):
        raise error

    async def babble(_):
        return 7

    error = RuntimeError("boom")
    assert launched(Calls(burst), run("10:01")) == Failed("RuntimeError: boom", error)
    assert launched(Calls(babble), run("10:01")) == Failed("it answered 7")


def test_without_an_executor_every_run_is_refused():
    assert launched(NoExecutor(), run("10:01")).reason is Reason.LAUNCH_REFUSED


@pytest.mark.parametrize(
    ("status", "sent"), [("SUCCESS", [1]), ("FAILED", [1]), ("STARTED", [1, 2]), (None, [1, 2])]
)
def test_a_repeated_launch_is_not_sent_where_a_report_has_ended_its_run_meanwhile(status, sent):
    async def story(rig):
        await rig.registrar.upsert_schedule(given(end_at=after(1)))
        await rig.clock.advance(60)
        [ledgered] = (await rig.service._store.get("job")).runs
        if status is not None:
            await rig.registrar.report(ledgered.key, status, 1)
        again = ledgered._replace(phase=Phase.LAUNCHED, attempt=2)
        outcome = await rig.service.launcher.launch(
            Launch((await rig.service._store.get("job")).schedule, again)
        )
        return [meta.attempt for meta in rig.calls.metas], outcome

    ended = Unreached("the run had ended before this attempt was sent")
    assert play(story) == (sent, ended if sent == [1] else Accepted("run 2"))


MEMORY = {"DUTIFUL_STORE": "memory:", "DUTIFUL_DRAIN_S": "0"}


class Cancellable(Calls):
    """An executor that remembers which runs it was asked to end."""

    def __init__(self):
        super().__init__()
        self.cancelled = []

    async def cancel(self, meta, run_id):
        self.cancelled.append((meta.idempotency_key, meta.attempt, run_id))


class InProcess:
    """An executor that runs in this process, for ever."""

    in_process = True

    async def run(self, _dag, _meta):
        await asyncio.Event().wait()


def test_a_run_that_is_replaced_is_cancelled_at_its_executor():
    async def story():
        clock, executor = VirtualClock("2026-01-05T10:00:00+00:00"), Cancellable()
        service = await Service(settings_from(MEMORY), clock, executor=executor).start()
        await service.workflows.save_dag("report", 1, {})
        await service.registrar.upsert_schedule(given(overlap_policy="cancel_other"))
        await clock.advance(120)
        runs = (await service.registrar.runs("job")).items
        await service.stop()
        return executor.cancelled, runs

    cancelled, (second, first) = asyncio.run(story())
    assert cancelled == [(first.idempotency_key, 1, first.run_id)]
    assert (first.status, first.reason, second.status) == ("FAILED", "interrupted", "ENQUEUED")


def test_a_run_goes_to_the_executor_that_its_schedule_names_and_else_to_that_of_the_service():
    async def story():
        clock, executor = VirtualClock("2026-01-05T10:00:00+00:00"), Calls()
        service = await Service(settings_from(MEMORY), clock, executor=executor).start()
        await service.workflows.save_dag("report", 1, {"nodes": [{"id": "first"}]})
        own = "python:tests.launchers.executor_functions:told_on_the_loop"
        await service.registrar.upsert_schedule(given(schedule_id="own", executor=own))
        await service.registrar.upsert_schedule(given(schedule_id="other"))
        await clock.advance(60)
        rows = [row for id_ in ("own", "other") for row in (await service.registrar.runs(id_)).items]
        await service.stop()
        return [(row.schedule_id, row.status, row.run_id, row.detail) for row in rows], executor.metas

    rows, metas = asyncio.run(story())
    assert rows == [("own", "SUCCESS", None, "first own True"), ("other", "ENQUEUED", "run 1", None)]
    assert [meta.schedule_id for meta in metas] == ["other"]


def test_a_run_is_cancelled_at_the_executor_that_took_it():
    async def story(url):
        clock, ours = VirtualClock("2026-01-05T10:00:00+00:00"), Cancellable()
        store = MemoryStore()
        await WorkflowStore(store, clock).save_dag("report", 1, {})
        launcher = RunLauncher(store, clock, Executors(ours, ExecutorSettings(clock)))
        payload = json.dumps({**json.loads(PAYLOAD), "executor": url})
        launch = Launch(Schedule("s", Task("workflow", payload), schedule().cadence), run("10:01"))
        outcome = await launcher.launch(launch)
        await launcher.cancel(launch)
        await launcher.close()
        return outcome, ours.metas, ours.cancelled

    with serving(lambda _: Reply(202)) as web:
        assert asyncio.run(story(f"{web.url}/runs")) == (Accepted(None), [], [])
    key = run("10:01").key
    told = [(asked.method, asked.path, asked.headers["idempotency-key"]) for asked in web.asked]
    assert told == [("POST", "/runs", key), ("DELETE", "/runs", key)]


@pytest.mark.parametrize(("kind", "status"), [(Calls, "ENQUEUED"), (InProcess, "STARTED")])
def test_a_run_in_this_process_is_shown_as_started(kind, status):
    async def story():
        clock, executor = VirtualClock("2026-01-05T10:00:00+00:00"), kind()
        service = await Service(settings_from(MEMORY), clock, executor=executor).start()
        await service.workflows.save_dag("report", 1, {})
        await service.registrar.upsert_schedule(given())
        await clock.advance(60)
        [found] = (await service.registrar.runs("job")).items
        await service.stop()
        return found.status

    assert asyncio.run(story()) == status
