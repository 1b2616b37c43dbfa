"""Runs over HTTP: what happened, why, once more, and what executors report."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import html
import json

import httpx2
import pytest
from tests.web.running import running

from dutiful.core.plan.outcome import Accepted
from dutiful.service import Service, settings_from
from dutiful.testing import VirtualClock
from dutiful.web.app import create_app

COLUMNS = {
    *(
        "idempotency_key",
        "schedule_id",
        "run_at",
        "fire_at",
        "status",
        "reason",
        "attempt",
        "run_id",
        "trigger",
    ),
    *("run_until", "ticks", "created_at", "updated_at", "started_at", "ended_at", "detail", "input"),
}
TICK = "2026-03-02T09:30:00Z"
KEY = hashlib.sha256(b"nightly:1772443800").hexdigest()


def test_the_output_of_a_command_is_shown_where_it_is_kept(tmp_path):
    command = "command:sh -c 'cat; printf \"\\\\033[2J<b>\"; echo oops >&2'"
    settings = {"DUTIFUL_EXECUTOR": command, "DUTIFUL_OUTPUT_DIR": f"{tmp_path}/output"}
    with running(tmp_path, **settings) as service:
        service.put("/workflows/report/1", {"n": 1})
        key = service.upsert() and service.post("/schedules/nightly/trigger")["idempotency_key"]
        while service.get(f"/runs/{key}")["status"] != "SUCCESS":
            service.advance(1)
        shown = service.get(f"/runs/{key}/output")
        on_page = service.client.get(f"/ui/runs/{key}").text
        unknown = service.client.get("/runs/none/output")
    assert (shown["idempotency_key"], shown["truncated"]) == (key, False)
    # Both streams are kept, in the order in which they are read.
    assert shown["output"].replace("oops\n", "") == '{"n": 1}\ufffd[2J<b>'
    assert f"<bdi>{html.escape(shown['output']).replace('&quot;', '&#34;')}</bdi></pre>" in on_page
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_run")


def test_the_service_keeps_as_many_ended_runs_as_is_set_where_a_schedule_does_not_say():
    with running(None, start="2026-03-02T09:00:30+00:00", DUTIFUL_RETENTION_ROWS="3") as service:
        service.put("/workflows/report/1", {"nodes": []})
        service.upsert(cron_expr="* * * * *")
        service.upsert(schedule_id="longer", cron_expr="* * * * *", retention_rows=6)
        # The ledger is pruned every ten minutes.
        service.advance(600)
        kept = {
            schedule_id: len(service.get(f"/schedules/{schedule_id}/runs")["runs"])
            for schedule_id in ("nightly", "longer")
        }
    assert kept == {"nightly": 3, "longer": 6}


def test_where_no_output_is_kept_it_is_said_what_to_set(service):
    service.upsert()
    key = service.post("/schedules/nightly/trigger")["idempotency_key"]
    service.advance(1)
    answer = service.client.get(f"/runs/{key}/output")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_output")
    assert "DUTIFUL_OUTPUT_DIR" in answer.json()["error"]["message"]


def counted(accepted, already_recorded=0, unknown=0, overlapping=0):
    """Return the answer to a backfill."""
    return {
        "accepted": accepted,
        "already_recorded": already_recorded,
        "unknown": unknown,
        "overlapping": overlapping,
    }


def test_a_tick_becomes_a_run_with_every_column(service):
    service.upsert()
    service.advance(1801)
    answer = service.get("/schedules/nightly/runs")
    (run,) = answer["runs"]
    assert {*run} == COLUMNS
    assert answer["next_cursor"] is None
    assert run | {"created_at": 0, "updated_at": 0} == {
        "idempotency_key": KEY,
        "schedule_id": "nightly",
        "run_at": TICK,
        "fire_at": TICK,
        "status": "SUCCESS",
        "reason": None,
        "attempt": 1,
        "run_id": None,
        "trigger": "schedule",
        "run_until": None,
        "ticks": 1,
        "created_at": 0,
        "updated_at": 0,
        "started_at": TICK,
        "ended_at": TICK,
        "detail": None,
        "input": None,
    }
    assert service.get(f"/runs/{KEY}") == run
    assert service.get("/runs") == answer


def test_the_runs_of_all_schedules_are_found_by_what_became_of_them(service):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    service.upsert(schedule_id="a", cron_expr="* * * * *")
    service.upsert(schedule_id="b", cron_expr="*/2 * * * *", workflow_id="broken", user_id="bob")
    service.advance(4 * 60 + 1)

    def found(**query):
        return [
            f"{run['schedule_id']} {run['run_at'][14:16]} {run['status']}"
            for run in service.get("/runs", **query)["runs"]
        ]

    assert found(status="FAILED") == found(reason="task_failed") == found(user_id="bob")
    assert found(status="FAILED") == ["b 04 FAILED", "b 02 FAILED"]
    assert found(schedule_id="a", since="2026-03-02T09:02:00Z", until="2026-03-02T09:04:00Z") == [
        "a 03 SUCCESS",
        "a 02 SUCCESS",
    ]
    service.post("/schedules/a/trigger")
    service.advance(1)
    assert found(trigger="manual") == ["a 04 SUCCESS"]
    assert found(trigger="backfill") == []
    assert service.client.get("/runs?trigger=hand").status_code == 422
    everything = [
        "b 04 FAILED",
        "a 04 SUCCESS",
        "a 03 SUCCESS",
        "b 02 FAILED",
        "a 02 SUCCESS",
        "a 01 SUCCESS",
    ]
    assert found(trigger="schedule") == everything
    pages, cursor = [], None
    while (
        page := service.get("/runs", limit=4, trigger="schedule", **({"cursor": cursor} if cursor else {}))
    )["runs"]:
        pages.append(len(page["runs"]))
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pages == [4, 2]


def test_an_unknown_run_and_a_made_up_cursor_are_refused(service):
    assert service.client.get("/runs/" + "0" * 64).json()["error"]["code"] == "unknown_run"
    for path, cursor in (
        ("/runs", _cursor(2**63, 1, "schedule")),
        ("/runs", "x"),
        ("/schedules/nightly/runs", _cursor(2**63, "schedule")),
    ):
        service.upsert()
        answer = service.client.get(path, params={"cursor": cursor})
        assert (answer.status_code, answer.json()["error"]["details"]["argument"]) == (422, "cursor")


def _cursor(*place):
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def test_runs_come_newest_first_in_pages(service):
    service.upsert(cron_expr="* * * * *")
    service.advance(3 * 60)
    first = service.get("/schedules/nightly/runs", limit=2)
    rest = service.get("/schedules/nightly/runs", limit=2, cursor=first["next_cursor"])
    ticks = [run["run_at"] for run in (*first["runs"], *rest["runs"])]
    assert ticks == ["2026-03-02T09:03:00Z", "2026-03-02T09:02:00Z", "2026-03-02T09:01:00Z"]
    assert rest["next_cursor"] is None


def test_a_failed_run_has_a_reason_and_the_words_of_its_task(service):
    service.put("/workflows/report/1", {"fail": "no such table"}, replace="true")
    service.upsert()
    service.advance(1801)
    (run,) = service.get("/schedules/nightly/runs")["runs"]
    assert (run["status"], run["reason"], run["detail"]) == (
        "FAILED",
        "task_failed",
        "RuntimeError: no such table",
    )


def test_a_run_of_an_unknown_workflow_fails_at_once(service):
    service.upsert(workflow_id="nothing")
    service.advance(1801)
    (run,) = service.get("/schedules/nightly/runs")["runs"]
    assert (run["status"], run["reason"]) == ("FAILED", "unknown_workflow")


def test_ticks_of_a_paused_schedule_are_one_stretch(service):
    service.upsert(cron_expr="* * * * *")
    service.post("/schedules/pause", {"schedule_id": "nightly", "paused": True})
    service.advance(5 * 60)
    service.post("/schedules/pause", {"schedule_id": "nightly", "paused": False})
    service.advance(1)
    (run,) = service.get("/schedules/nightly/runs")["runs"]
    assert (run["status"], run["reason"], run["ticks"], run["run_until"]) == (
        "SKIPPED",
        "paused",
        5,
        "2026-03-02T09:05:00Z",
    )


def test_a_triggered_run_has_a_key_of_its_own(service):
    service.upsert()
    answer = service.post("/schedules/nightly/trigger")
    assert {*answer} == {"idempotency_key", "run_at"}
    service.advance(1801)
    runs = service.get("/schedules/nightly/runs")["runs"]
    assert [(run["trigger"], run["status"]) for run in runs] == [
        ("schedule", "SUCCESS"),
        ("manual", "SUCCESS"),
    ]
    assert runs[1]["idempotency_key"] == answer["idempotency_key"] != runs[0]["idempotency_key"] == KEY


def test_a_backfill_runs_past_ticks_under_their_own_keys_once(service):
    service.upsert()
    wanted = {"start": "2026-02-26T00:00:00Z", "end": "2026-03-01T09:30:00Z", "overlap_policy": "allow"}
    assert service.post("/schedules/nightly/backfill", wanted) == counted(3)
    service.advance(5)
    runs = service.get("/schedules/nightly/runs")["runs"]
    assert [(run["run_at"], run["trigger"], run["status"]) for run in runs] == [
        ("2026-02-28T09:30:00Z", "backfill", "SUCCESS"),
        ("2026-02-27T09:30:00Z", "backfill", "SUCCESS"),
        ("2026-02-26T09:30:00Z", "backfill", "SUCCESS"),
    ]
    assert service.post("/schedules/nightly/backfill", wanted) == counted(0, 3)


@pytest.mark.parametrize(
    "wanted",
    [
        {"start": "2026-03-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"},
        {"start": "1900-01-01T00:00:00Z", "end": "2026-03-01T00:00:00Z"},
        {"start": "2036-03-01T00:00:00Z", "end": "2036-03-01T01:00:00Z"},
    ],
)
def test_a_backfill_backwards_or_too_large_or_of_the_future_is_refused(service, wanted):
    service.upsert(cron_expr="* * * * *")
    service.post("/schedules/nightly/backfill", wanted, 422)
    assert service.get("/schedules/nightly/runs")["runs"] == []


@pytest.fixture
def flying(service):
    """A service with one run whose end nobody knows yet."""
    service.put("/workflows/report/1", {"hang": True}, replace="true")
    service.upsert()
    service.advance(1801)
    return service


def test_a_report_is_answered_with_the_run_as_it_stands(flying):
    run = flying.post(f"/runs/{KEY}/status", {"status": "STARTED", "attempt": 1, "run_id": "r-1"})
    assert {*run} == COLUMNS
    assert (run["status"], run["run_id"]) == ("STARTED", "r-1")
    run = flying.post(f"/runs/{KEY}/status", {"status": "FAILED", "attempt": 1, "error": "out of paper"})
    assert (run["status"], run["detail"]) == ("FAILED", "out of paper")


def test_a_long_traceback_ends_a_run_and_both_ends_of_it_are_kept(flying):
    error = "Traceback (most recent call last):\n" + "  in feed\n" * 4000 + "PrinterError: out of paper"
    run = flying.post(f"/runs/{KEY}/status", {"status": "FAILED", "error": error})
    assert (run["status"], run["detail"]) == ("FAILED", f"{error[:999]}…{error[-1000:]}")


def test_the_first_end_wins_and_the_rest_is_ignored(flying):
    flying.post(f"/runs/{KEY}/status", {"status": "SUCCESS", "attempt": 1})
    for later in ("FAILED", "STARTED"):
        assert flying.post(f"/runs/{KEY}/status", {"status": later, "attempt": 1})["status"] == "SUCCESS"


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"status": "ENQUEUED"},
        {"status": "SKIPPED"},
        {"status": "success"},
        {"status": "SUCCESS", "attempt": 0},
        {"status": "SUCCESS", "attempt": "1"},
        {"status": "SUCCESS", "run_id": 7},
        {"status": "SUCCESS", "outcome": "good"},
    ],
)
def test_a_report_that_cannot_be_meant_is_refused(flying, report):
    assert flying.post(f"/runs/{KEY}/status", report, 422)["error"]["code"] == "invalid_request"


def test_the_launcher_starts_what_it_knows_and_nothing_else(service):
    start = {
        "workflow_id": "report",
        "version": 1,
        "user_id": "ada",
        "scheduled_for": TICK,
        "idempotency_key": "by-hand-1",
    }
    assert service.post("/run-launcher/start", start) == {"started": True}
    unknown = {**start, "workflow_id": "nothing", "idempotency_key": "by-hand-2"}
    assert service.post("/run-launcher/start", unknown) == {"started": False}


@pytest.mark.parametrize("key", ["", "a b", "a\r\nb", "ä", "k" * 257])
def test_a_key_that_would_not_fit_a_header_is_refused(service, key):
    start = {"workflow_id": "report", "version": 1, "user_id": "ada", "scheduled_for": TICK}
    answer = service.post("/run-launcher/start", {**start, "idempotency_key": key}, 422)
    assert answer["error"]["details"]["problems"][0]["at"] == "idempotency_key"


def test_a_trigger_takes_an_input_and_a_key_that_makes_it_once(service):
    service.put("/workflows/waiting/1", {"hang": True})
    service.upsert(workflow_id="waiting", input={"day": 1}, overlap_policy="allow")

    def trigger(body, key=None):
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = service.client.post("/schedules/nightly/trigger", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["idempotency_key"]

    first = trigger({"input": [1]}, "deploy-7")
    assert trigger({"input": [1]}, "deploy-7") == first
    assert trigger(None, "deploy-8") not in (first, trigger({}))
    assert service.get(f"/runs/{first}")["input"] == [1]
    assert len(service.get("/runs")["runs"]) == 3
    too_large = service.client.post("/schedules/nightly/trigger", json={"input": "x" * 20_000})
    assert (too_large.status_code, too_large.json()["error"]["details"]["argument"]) == (422, "input")
    for key in ("", "a b", "x" * 257):
        answer = service.client.post("/schedules/nightly/trigger", headers={"Idempotency-Key": key})
        assert answer.status_code == 422, key


def test_a_run_is_cancelled_and_one_that_ended_stays_as_it_is(service):
    service.put("/workflows/waiting/1", {"hang": True})
    service.upsert(workflow_id="waiting")
    key = service.post("/schedules/nightly/trigger")["idempotency_key"]
    service.advance(1)
    assert service.post(f"/runs/{key}/cancel")["idempotency_key"] == key
    service.advance(2)
    run = service.get(f"/runs/{key}")
    assert (run["status"], run["detail"]) == ("FAILED", "cancelled by request")
    assert service.post(f"/runs/{key}/cancel") == run
    assert service.post("/runs/" + "0" * 64 + "/cancel", status=404)["error"]["code"] == "unknown_run"


def test_the_metrics_count_how_runs_end_and_what_waits(service):
    service.put("/workflows/waiting/1", {"hang": True})
    service.put("/workflows/broken/1", {"fail": "x"})
    service.upsert(schedule_id="a")
    service.upsert(schedule_id="b", workflow_id="broken")
    service.upsert(
        schedule_id="c", workflow_id="waiting", cron_expr="30,31,32 9 * * *", overlap_policy="queue"
    )
    service.advance(33 * 60)
    lines = service.client.get("/metrics").text.splitlines()
    assert 'dutiful_runs_ended_total{status="SUCCESS"} 1.0' in lines
    assert 'dutiful_runs_ended_total{status="FAILED"} 1.0' in lines
    assert 'dutiful_runs_open{phase="launched"} 1.0' in lines
    assert 'dutiful_runs_open{phase="queued"} 2.0' in lines


def test_a_key_is_started_once_also_where_the_ledger_holds_it(service):
    body = {"workflow_id": "report", "version": 1, "user_id": "ada", "scheduled_for": TICK}
    duplicate = {"started": True, "duplicate": True}

    def start(key, **changes):
        return service.post("/run-launcher/start", {**body, **changes, "idempotency_key": key})

    assert [start("mine"), start("mine")] == [{"started": True}, duplicate]
    # What was not started may be tried again.
    assert [start("other", version=9), start("other")] == [{"started": False}, {"started": True}]
    service.upsert()
    service.advance(1801)
    assert start(KEY) == duplicate


def test_two_requests_of_one_key_at_the_same_moment_start_one_run(tmp_path):
    started = []

    class Slow:
        async def run(self, _dag, meta):
            started.append(meta.idempotency_key)
            # The other request is let in as far as it comes.
            for _ in range(100):
                await asyncio.sleep(0)
            return Accepted("r")

    async def ask():
        settings = settings_from({"DUTIFUL_STORE": f"sqlite:{tmp_path}/service.db"})
        service = await Service(settings, VirtualClock(TICK), worker=False, executor=Slow()).start()
        await service.workflows.save_dag("report", 1, {"nodes": []})
        body = {"workflow_id": "report", "version": 1, "user_id": "ada", "scheduled_for": TICK}
        body["idempotency_key"] = "k"
        transport = httpx2.ASGITransport(create_app(service))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            asked = [client.post("/run-launcher/start", json=body) for _ in range(8)]
            answers = [answer.json() for answer in await asyncio.gather(*asked)]
        await service.stop()
        return answers

    answers = asyncio.run(ask())
    assert started == ["k"]
    assert sorted(map(len, answers)) == [1, *[2] * 7]


def test_two_processes_that_get_a_key_at_the_same_moment_may_both_hand_it_over_under_that_key(tmp_path):
    handed_over = []

    class Meeting:
        """Takes a run once the other process has handed it over too."""

        def __init__(self) -> None:
            self.both = asyncio.Barrier(2)

        async def run(self, _dag, meta):
            handed_over.append((meta.idempotency_key, meta.attempt))
            async with asyncio.timeout(30):
                await self.both.wait()
            return Accepted("r")

    async def ask():
        settings, executor = settings_from({"DUTIFUL_STORE": f"sqlite:{tmp_path}/service.db"}), Meeting()
        nodes = [Service(settings, VirtualClock(TICK), worker=False, executor=executor) for _ in range(2)]
        body = {"workflow_id": "report", "version": 1, "user_id": "ada", "scheduled_for": TICK}
        body["idempotency_key"] = "k"
        async with contextlib.AsyncExitStack() as stack:
            clients = []
            for node in nodes:
                await node.start()
                stack.push_async_callback(node.stop)
                transport = httpx2.ASGITransport(create_app(node))
                client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")
                clients.append(await stack.enter_async_context(client))
            await nodes[0].workflows.save_dag("report", 1, {"nodes": []})
            asked = [client.post("/run-launcher/start", json=body) for client in clients]
            together = [answer.json() for answer in await asyncio.gather(*asked)]
            return together, (await clients[0].post("/run-launcher/start", json=body)).json()

    together, afterwards = asyncio.run(ask())
    # The executor drops the second by its key.
    assert handed_over == [("k", 1)] * 2
    assert together == [{"started": True}] * 2
    assert afterwards == {"started": True, "duplicate": True}
