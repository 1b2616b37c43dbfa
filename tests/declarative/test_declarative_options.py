"""Tasks with a timeout, a limit of retries and a backoff; runs that outlast their tick; other settings."""

from __future__ import annotations

import logging

import pytest
from tests.spec.world import play

import dutiful
from dutiful.errors import InvalidArgumentError
from dutiful.runtime.registrar import Registrar

STORES = ["memory:", "sqlite:"]


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return request.param if request.param == "memory:" else f"sqlite:{tmp_path / 'state.db'}"


def with_options(registration, **options):
    return dutiful.task(*registration, **options)


def test_a_run_that_outlives_its_timeout_is_cancelled_and_tried_again(store):
    cancelled = []

    async def story(world):
        async def stuck():
            try:
                await world.clock.sleep(3600)
            finally:
                cancelled.append(world.time())

        task = world.task(cron="0 * * * *", does=stuck, delay=60)
        await world.scheduler().initialize([with_options(task, timeout=30)])
        await world.clock.advance(240)

    world = play(story, store=store)
    assert world.ran == ["10:00 job", "10:01:30 job", "10:03 job"]
    assert cancelled == ["10:00:30", "10:02", "10:03:30"]
    failed = [event for event in world.events if event["name"] == "TaskRunFailed"]
    assert [(event["at"][11:19], event["error"]) for event in failed] == [
        ("10:00:30", "timed out after 30 s"),
        ("10:02:00", "timed out after 30 s"),
        ("10:03:30", "timed out after 30 s"),
    ]


@pytest.mark.parametrize(
    ("cron", "timeout", "delay", "told"),
    [
        (
            "* * * * *",
            90,
            10,
            [
                "10:00:00 TaskRunStarted",
                "10:01:00 TaskRunOverran",
                "10:01:30 TaskRunFailed",
                "10:01:30 TaskRetryPreempted",
                "10:01:30 TaskRunStarted",
                "10:02:00 TaskRunOverran",
            ],
        ),
        (
            "0 * * * *",
            90,
            0,
            ["10:00:00 TaskRunStarted", "10:01:30 TaskRunFailed", "10:01:30 TaskRetryStarted"],
        ),
    ],
    ids=["its next tick is owed", "it is retried at once"],
)
def test_a_run_that_times_out_is_reported_as_failed_before_the_start_that_follows(
    cron, timeout, delay, told, store
):
    async def story(world):
        task = world.task(cron=cron, does=world.sleeping(3600), delay=delay)
        await world.scheduler().initialize([with_options(task, timeout=timeout)])
        await world.clock.advance(150)

    events = play(story, store=store).events
    assert [
        f"{event['at'][11:19]} {event['name']}" for event in events if event["name"].startswith("TaskR")
    ] == told


def test_a_run_within_its_timeout_is_left_alone(store):
    async def story(world):
        task = world.task(cron="0 * * * *", does=world.sleeping(29))
        await world.scheduler().initialize([with_options(task, timeout=30)])
        await world.clock.advance(120)

    assert play(story, store=store).names(prefix="TaskRun") == ["TaskRunStarted job", "TaskRunCompleted job"]


def test_a_limit_of_retries_and_a_backoff_hold(store):
    async def story(world):
        task = world.task(cron="0 * * * *", does=world.failing(), delay=60)
        await world.scheduler().initialize([with_options(task, retry_limit=2, retry_backoff=3)])
        await world.clock.advance(1800)

    assert play(story, store=store).ran == ["10:00 job", "10:01 job", "10:04 job"]


def test_a_timeout_counts_against_the_limit_of_retries(store):
    async def story(world):
        task = world.task(cron="0 * * * *", does=world.sleeping(3600), delay=60)
        await world.scheduler().initialize([with_options(task, timeout=30, retry_limit=1)])
        await world.clock.advance(1800)

    world = play(story, store=store)
    assert (world.ran, len(world.names(prefix="TaskRunFailed"))) == (["10:00 job", "10:01:30 job"], 2)


def test_a_run_that_outlasts_its_next_tick_is_reported_once(store, caplog):
    async def story(world):
        await world.scheduler().initialize([world.task(does=world.sleeping(200))])
        await world.clock.advance(230)

    with caplog.at_level(logging.WARNING, "dutiful"):
        world = play(story, store=store)
    told = [event for event in world.events if event["name"] == "TaskRunOverran"]
    assert [(event["at"][11:19], event["task"], event["runningMs"]) for event in told] == [
        ("10:01:00", "job", 60_000)
    ]
    assert caplog.messages == ["TaskRunOverran job runningMs=60000"]


def test_a_change_of_options_is_reported_by_name(store):
    async def story(world):
        for options in ({}, {"timeout": 30, "retry_limit": 2}, {"retry_backoff": 2}):
            scheduler = world.scheduler(ledger=options.get("retry_backoff") == 2)
            await scheduler.initialize([with_options(world.task(cron="0 * * * *"), **options)])
            await scheduler.stop()

    world = play(story, store=store, monitored=False)
    told = [event for event in world.events if event["name"] == "TaskDifference"]
    assert [{k: v for k, v in e.items() if k not in ("name", "at", "task", "call")} for e in told] == [
        {"kind": "added"},
        {"kind": "overridden", "retryLimit": "None -> 2", "timeoutMs": "None -> 30000"},
        {
            "kind": "overridden",
            "retryLimit": "2 -> None",
            "retryBackoff": "1 -> 2",
            "timeoutMs": "30000 -> None",
            "ledger": "False -> True",
        },
    ]


def test_with_a_ledger_every_run_and_every_missed_tick_is_kept(store):
    async def story(world):
        scheduler = world.scheduler(ledger=True)
        await scheduler.initialize([world.task(does=world.failing(1), delay=30)])
        await world.clock.advance(60)
        await scheduler.stop()
        await world.clock.advance(600)
        scheduler = world.scheduler(ledger=True)
        await scheduler.initialize([world.task()])
        await world.clock.advance(0)
        rows = await scheduler._store.ledger("job", None, 10)
        return [(row.run_at // 60_000 % 60, row.status.value, row.reason, row.ticks) for row in rows]

    assert play(story, store=store).answer == [
        (11, "SUCCESS", None, 1),
        (2, "SKIPPED", "coalesced", 9),
        (1, "SUCCESS", None, 1),
        (0, "SUCCESS", None, 1),
    ]


def test_another_dialect_has_steps_and_seconds(store):
    async def story(world):
        await world.scheduler(dialect="seconds").initialize([world.task(cron="*/20 * * * * *")])
        await world.clock.advance(60)

    # The first one at once, since this very second is due.
    world = play(story, store=store, monitored=False)
    assert world.ran == ["10:00 job", "10:00:20 job", "10:00:40 job", "10:01 job"]


@pytest.mark.parametrize("dialect", ["quartz", ["posix"], None])
def test_a_dialect_that_does_not_exist_is_refused(dialect):
    with pytest.raises(InvalidArgumentError, match="choose from 'posix', 'standard', 'seconds'"):
        dutiful.Scheduler("memory:", dialect=dialect)


def test_a_run_that_a_person_asks_for_waits_for_the_one_in_flight(store):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(cron="0 * * * *", does=world.sleeping(30))])
        await world.clock.advance(10)
        registrar = Registrar(scheduler._store, world.clock, scheduler._host.wake)
        for key in ("a" * 64, "b" * 64):
            await registrar.trigger("job", key)
        await world.clock.advance(120)

    world = play(story, store=store)
    assert world.ran == ["10:00 job", "10:00:30 job", "10:01 job"]
    started = [event for event in world.events if event["name"] == "TaskRunStarted"]
    assert [event.get("trigger") for event in started] == [None, "manual", "manual"]


@pytest.mark.parametrize("moment", ["running", "waiting for its retry"])
def test_a_cancelled_run_is_ended_and_not_tried_again(store, moment):
    cancelled = []

    async def story(world):
        async def work():
            if moment != "running":
                raise ValueError("as planned")
            try:
                await world.clock.sleep(600)
            finally:
                cancelled.append(world.time())

        scheduler = world.scheduler()
        await scheduler.initialize([world.task(cron="0 * * * *", does=work, delay=120)])
        await world.clock.advance(10)
        runs = await Registrar(scheduler._store, world.clock, scheduler._host.wake).cancel("job")
        await world.clock.advance(3600)
        return len(runs)

    world = play(story, store=store)
    assert world.answer == 1
    assert world.ran == ["10:00 job", "11:00 job"]
    assert cancelled[:1] == (["10:00:10"] if moment == "running" else [])
    assert world.names(prefix="TaskRunCancelled") == ["TaskRunCancelled job"]


def test_a_request_to_cancel_survives_a_crash(store):
    async def story(world):
        scheduler = world.scheduler()
        task = world.task(cron="0 * * * *", does=world.sleeping(600))
        await scheduler.initialize([task])
        await world.clock.advance(10)
        await Registrar(scheduler._store, world.clock, lambda: None).cancel("job")
        await world.restart(scheduler, task, after=60)
        await world.clock.advance(600)

    world = play(story, store=store)
    assert (world.ran, world.names(prefix="TaskRunCancelled")) == (["10:00 job"], ["TaskRunCancelled job"])


def test_a_request_that_is_cancelled_before_its_run_begins_is_reported(store):
    async def story(world):
        scheduler = world.scheduler()
        await scheduler.initialize([world.task(cron="0 * * * *")])
        await world.clock.advance(10)
        registrar = Registrar(scheduler._store, world.clock, lambda: None)
        await registrar.trigger("job", "a" * 64)
        await registrar.cancel("job")
        await world.clock.advance(3600)

    world = play(story, store=store)
    assert world.ran == ["10:00 job", "11:00 job"]
    cancelled = [event for event in world.events if event["name"] == "TaskRunCancelled"]
    assert [(event["task"], event["trigger"]) for event in cancelled] == [("job", "manual")]


def test_a_tick_that_was_owed_before_a_run_that_a_person_asked_for_follows_it(store):
    async def story(world):
        scheduler, task = world.scheduler(), world.task(cron="30 10 * * *", does=world.sleeping(5))
        await scheduler.initialize([task])
        await scheduler.stop()
        await world.clock.advance(3600)
        await scheduler._store.open()
        await Registrar(scheduler._store, world.clock, lambda: None).trigger("job", "a" * 64)
        await scheduler._store.close()
        await scheduler.initialize([task])
        await world.clock.advance(60)

    assert play(story, store=store).ran == ["11:00 job", "11:00:05 job"]
