"""`dutiful tasks`: a store that another scheduler runs is read and steered through its file."""

from __future__ import annotations

import json
import re
import threading
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

import dutiful
from dutiful.cli.main import cli

NEVER_SOON = "0 0 29 2 *"


def call(*arguments, store=None):
    options = [] if store is None else ["--store", store]
    return CliRunner().invoke(cli, ["tasks", *arguments, *options])


def told(*arguments, store):
    done = call(*arguments, "--json", store=store)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


class Watch:
    """An observer that other threads can wait for."""

    def __init__(self):
        self._events, self._told = [], threading.Condition()

    def __call__(self, event):
        with self._told:
            self._events.append((event.name, event.task))
            self._told.notify_all()

    def until(self, *event):
        with self._told:
            assert self._told.wait_for(lambda: event in self._events, 30), self._events


@pytest.fixture
def store(tmp_path):
    return f"sqlite:{tmp_path / 'state.db'}"


@pytest.fixture
def watch(store):
    """Run three tasks beside the test; `watch.release` lets the blocking one end."""
    watch = Watch()
    watch.release = threading.Event()

    async def quick():
        pass

    async def failing():
        raise ValueError("no disk")

    def blocking():
        watch.release.wait(30)

    registrations = [
        ("quick", NEVER_SOON, quick, 60),
        dutiful.task("failing", NEVER_SOON, failing, 3600, timeout=60, retry_limit=3),
        ("blocking", NEVER_SOON, dutiful.in_thread(blocking), 60),
    ]
    with dutiful.in_background(registrations, store, ledger=True, timezone="Europe/Berlin", observer=watch):
        yield watch
        watch.release.set()


def test_a_list_shows_what_each_task_does_and_which_process_runs_them(watch, store):
    call("run-now", "failing", store=store)
    watch.until("TaskRunFailed", "failing")
    listed = told("list", store=store)
    assert [(task["name"], task["state"], task["asked_for"]) for task in listed["tasks"]] == [
        ("blocking", "AwaitingRun", 0),
        ("failing", "AwaitingRetry", 0),
        ("quick", "AwaitingRun", 0),
    ]
    shown = call("list", store=store).stdout.splitlines()
    assert re.fullmatch(r"task  +state  +cron  +last \((\S+)\)  +next \(\1\)  +now", shown[0])
    assert shown[1].startswith("blocking  ○ to come  ")
    assert shown[2].startswith("failing   ✕ failed   ")
    assert "ValueError: no disk" in shown[2]
    assert shown[-1].startswith(f"Run by process {listed['leader']['pid']} since ")


def test_tables_show_times_in_the_zone_of_their_heads_whatever_the_zone_of_the_task_is(store, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")

    async def nothing():
        pass

    watch = Watch()
    tasks = [("yearly", "0 9 29 2 *", nothing, 60)]
    with dutiful.in_background(tasks, store, ledger=True, timezone="Asia/Tokyo", observer=watch):
        call("run-now", "yearly", store=store)
        watch.until("TaskRunCompleted", "yearly")
    head, row, _ = call("list", store=store).stdout.splitlines()
    assert head.count("(America/New_York)") == 2
    assert "-02-28 19:00:00" in row
    (run,) = told("history", "yearly", store=store)["runs"]
    shown = (
        f"{datetime.fromisoformat(run['run_at']).astimezone(ZoneInfo('America/New_York')):%Y-%m-%d %H:%M:%S}"
    )
    assert call("history", "yearly", store=store).stdout.splitlines()[1].startswith(shown)


def test_a_task_is_shown_with_its_options_and_its_next_five_ticks(watch, store):  # noqa: ARG001
    view = told("show", "failing", store=store)
    kept = {
        key: view[key] for key in ("cron", "timezone", "timeout_s", "retry_limit", "retry_delay_s", "ledger")
    }
    assert kept == {
        "cron": NEVER_SOON,
        "timezone": "Europe/Berlin",
        "timeout_s": 60.0,
        "retry_limit": 3,
        "retry_delay_s": 3600.0,
        "ledger": True,
    }
    assert len(view["preview"]) == 5
    assert all("-02-29T00:00:00+01:00" in tick for tick in view["preview"])
    assert call("show", "failing", store=store).stdout.splitlines()[0] == "name             failing"


def test_a_run_is_asked_for_taken_up_by_the_leader_and_kept_in_the_history(watch, store):
    asked = told("run-now", "quick", store=store)
    watch.until("TaskRunCompleted", "quick")
    (row,) = told("history", "quick", store=store)["runs"]
    assert (row["status"], row["trigger"], row["attempt"], len(asked["key"])) == ("SUCCESS", "manual", 1, 64)
    assert "SUCCESS" in call("history", "quick", store=store).stdout


def test_a_run_in_flight_is_cancelled_by_the_leader(watch, store):
    call("run-now", "blocking", store=store)
    watch.until("TaskRunStarted", "blocking")
    assert told("cancel", "blocking", store=store)["cancelled"] == 1
    watch.until("TaskRunCancelled", "blocking")
    (row,) = told("history", "blocking", store=store)["runs"]
    assert (row["status"], row["reason"], row["detail"]) == ("FAILED", "interrupted", "cancelled by request")


def test_there_is_nothing_to_cancel(watch, store):  # noqa: ARG001
    done = call("cancel", "quick", store=store)
    assert (done.exit_code, done.stdout) == (1, "quick does nothing that could be cancelled.\n")


def test_a_request_waits_for_a_scheduler_to_start(store):
    ran = Watch()

    async def work():
        pass

    tasks = [("work", NEVER_SOON, work, 60)]
    dutiful.in_background(tasks, store).stop()
    done = call("run-now", "work", store=store)
    waits = "No scheduler is running on this store; it is done when one starts."
    assert (done.exit_code, done.stdout) == (0, f"Asked for a run of work. {waits}\n")
    assert "asked for 1 more" in call("list", store=store).stdout
    with dutiful.in_background(tasks, store, observer=ran):
        ran.until("TaskRunCompleted", "work")


def test_a_task_without_a_ledger_has_no_history(store):
    async def work():
        pass

    dutiful.in_background([("work", NEVER_SOON, work, 60)], store).stop()
    done = call("history", "work", store=store)
    assert done.exit_code == 2
    assert "keeps no ledger; start its scheduler with ledger=True" in done.stderr


def test_what_is_not_there_is_refused_and_not_made(store, tmp_path):
    missing = call("list", store=store)
    memory = call("list", store="memory:")
    assert (missing.exit_code, memory.exit_code, list(tmp_path.iterdir())) == (2, 2, [])
    assert "there is no such file" in missing.stderr
    assert "only its own process can look into it" in memory.stderr


def test_an_unknown_task_is_refused_with_what_may_be_meant(watch, store):  # noqa: ARG001
    done = call("run-now", "quik", store=store)
    assert (done.exit_code, "did you mean 'quick'?" in done.stderr) == (2, True)
    done = call("run-now", "x", store=store)
    assert (done.exit_code, "known: blocking, failing, quick" in done.stderr) == (2, True)


def test_an_empty_namespace_is_said_to_be_empty(watch, store):  # noqa: ARG001
    done = call("list", "--namespace", "other", store=store)
    assert done.stdout == "No tasks in the namespace 'other'.\nNo scheduler is running on this store.\n"


def test_the_schedules_of_another_door_are_refused(store):
    import asyncio

    from dutiful.runtime.clock import SystemClock
    from dutiful.service import ScheduleInput, Service, settings_from

    async def serve():
        service = Service(settings_from({"DUTIFUL_STORE": store}), SystemClock())
        await service.start()
        await service.registrar.upsert_schedule(ScheduleInput("report", 1, "ada", "0 0 * * *", "job"))
        await service.stop()

    asyncio.run(serve())
    done = call("list", "--namespace", "service", store=store)
    assert (done.exit_code, "belongs to the service" in done.stderr) == (2, True)
