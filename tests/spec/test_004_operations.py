"""004 §8 to §11: one worker at a time, what is counted and logged, what is bounded, what is configured."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import pytest
from tests.service.rig import after, given, play

from dutiful.core.plan.outcome import Refused, Succeeded, Unreached
from dutiful.core.policy import Reason
from dutiful.service import Service, settings_from
from dutiful.service.worker import takeover_ms


def test_8_a_second_worker_stands_by_and_takes_over():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        second = await Service(rig.settings, rig.clock, executor=rig.calls).start()
        await rig.clock.advance(125)
        standby = await second.health()
        before = (await rig.service.health()).leading, standby.leading, standby.ok
        await rig.service.stop()
        await rig.clock.advance(60)
        leading = (await second.health()).leading
        await second.stop()
        return before, leading, rig.calls.ticks()

    assert play(story) == ((True, False, True), True, ["10:01", "10:02", "10:03"])


def test_8_a_process_without_worker_answers_and_leaves_the_firing_to_others():
    async def story(rig):
        front = await Service(rig.settings, rig.clock, worker=False).start()
        await front.registrar.upsert_schedule(given())
        health = await front.health()
        # The worker learns of it within a tick.
        await rig.clock.advance(61)
        await front.registrar.trigger("job")
        await rig.clock.advance(1)
        await front.stop()
        return health[:2], rig.calls.ticks()

    assert play(story) == ((True, False), ["10:01", "10:01"])


def metric(rig, name):
    lines = [line.split() for line in rig.service.metrics().splitlines() if line.startswith(name + " ")]
    return float(lines[0][1])


def test_9_metrics_have_their_names():
    async def story(rig):
        return rig.service.metrics()

    text = play(story)
    for name in ("schedules_due", "runs_emitted", "runs_skipped_overlap", "runs_failed_launch"):
        assert f"# TYPE {name}_total counter\n" in text
    assert "# TYPE scheduling_drift_seconds histogram\n" in text


def test_9_metrics_count_every_tick_once():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(10 * 60 + 30)
        return [
            metric(rig, f"{name}_total") for name in ("schedules_due", "runs_emitted", "runs_skipped_overlap")
        ]

    due, emitted, skipped = play(story)
    assert (emitted, skipped) == (1, 9)
    assert due >= 10


def test_9_launches_that_fail_are_counted_when_they_are_given_up():
    async def refuse(_):
        return Refused(Reason.LAUNCH_REFUSED)

    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        await rig.clock.advance(130)
        return metric(rig, "runs_failed_launch_total"), metric(rig, "runs_emitted_total")

    assert play(story, behave=refuse) == (2, 2)


def test_9_drift_is_how_far_from_its_planned_time_a_tick_was_launched():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        await rig.clock.advance(59)
        await rig.restart(21)
        await rig.clock.advance(60)
        return metric(rig, "scheduling_drift_seconds_count"), metric(rig, "scheduling_drift_seconds_sum")

    assert play(story) == (2, 20)


def test_9_decisions_are_logged_with_their_reasons(caplog):
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(130)

    with caplog.at_level(logging.INFO, logger="dutiful.service"):
        play(story)
    told = Counter((record.event["name"], record.event.get("reason")) for record in caplog.records)
    assert told["launched", None] == told["skipped", "overlap"] == told["leading", None] == 1
    [launched] = [record for record in caplog.records if record.event["name"] == "launched"]
    assert launched.event["schedule"] == "job"
    assert launched.event["runAt"] == "2026-01-05T10:01:00+00:00"


def test_9_the_last_runs_of_a_schedule_and_of_all():
    async def done(_):
        return Succeeded()

    async def story(rig):
        await rig.registrar.upsert_many([given(), given(schedule_id="other", cron_expr="*/2 * * * *")])
        await rig.clock.advance(250)
        mine = (await rig.registrar.runs("job", 3)).items
        return [f"{run.run_at:%M}" for run in mine], [
            (run.schedule_id, f"{run.run_at:%M}") for run in await rig.registrar.recent(3)
        ]

    assert play(story, behave=done) == (["04", "03", "02"], [("other", "04"), ("job", "04"), ("job", "03")])


def test_10_a_storm_of_catch_up_runs_is_bounded():
    async def done(_):
        return Succeeded()

    async def story(rig):
        await rig.registrar.upsert_schedule(given(catchup_policy="fire_immediately", overlap_policy="allow"))
        await rig.restart(24 * 3600)
        await rig.clock.advance(0)
        rows = (await rig.registrar.runs("job", 1000)).items
        dropped = [run for run in rows if run.reason == "catchup_cap"]
        return len(rig.calls.metas), [run.ticks for run in dropped]

    # Seven that were missed, and the two that are only late.
    launched, dropped = play(story, behave=done, MAX_CATCHUP_PER_TICK="7")
    assert (launched, dropped) == (9, [24 * 60 - 9])


def test_10_the_bound_on_a_storm_is_the_workers_own_not_that_of_the_upsert():
    async def done(_):
        return Succeeded()

    async def story(rig):
        await rig.registrar.upsert_schedule(given(catchup_policy="fire_immediately", overlap_policy="allow"))
        rig.settings = replace(rig.settings, max_catchup_per_tick=7)
        await rig.restart(24 * 3600)
        await rig.clock.advance(0)
        rows = (await rig.registrar.runs("job", 1000)).items
        [dropped] = [run for run in rows if run.reason == "catchup_cap"]
        return len(rig.calls.metas), dropped.ticks

    assert play(story, behave=done, MAX_CATCHUP_PER_TICK="100") == (9, 24 * 60 - 9)


SETTINGS = {
    "TICK_MS": ("1000", "tick_ms", 1000),
    "LOOKAHEAD_MS": ("60000", "lookahead_ms", 60_000),
    "MAX_CATCHUP_PER_TICK": ("100", "max_catchup_per_tick", 100),
    "DEFAULT_OVERLAP_POLICY": ("skip", "default_overlap_policy", "skip"),
    "DEFAULT_CATCHUP_POLICY": ("none", "default_catchup_policy", "none"),
    "DEFAULT_JITTER_MS": ("0", "default_jitter_ms", 0),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_11_every_setting_has_its_default(name):
    text, field, value = SETTINGS[name]
    assert getattr(settings_from({}), field) == getattr(settings_from({name: text}), field) == value


def test_11_defaults_are_for_schedules_that_name_nothing_else():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        own = given(schedule_id="own", overlap_policy="skip", catchup_policy="none", jitter_ms=0)
        await rig.registrar.upsert_schedule(own)
        views = [await rig.registrar.get_schedule(id_) for id_ in ("job", "own")]
        return [(view.overlap_policy, view.catchup_policy, view.jitter_ms) for view in views]

    settings = {
        "DEFAULT_OVERLAP_POLICY": "queue",
        "DEFAULT_CATCHUP_POLICY": "spread",
        "DEFAULT_JITTER_MS": "500",
    }
    assert play(story, **settings) == [("queue", "spread", 500), ("skip", "none", 0)]


@pytest.mark.parametrize(
    ("slow", "expected"),
    [({}, [60, 5, 2]), ({"DUTIFUL_LEASE_S": "120"}, [60, 5, 2]), ({"TICK_MS": "60000"}, [60, 5, 2])],
)
def test_11_no_grace_is_shorter_than_the_slowest_takeover(slow, expected):
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.upsert_schedule(given(schedule_id="short", grace_s=5))
        await rig.registrar.upsert_schedule(given(schedule_id="zero", grace_s=0))
        return [(await rig.registrar.get_schedule(id_)).grace_s for id_ in ("job", "short", "zero")]

    assert play(story, **slow) == expected


@pytest.mark.parametrize(
    ("store", "expected"),
    [("sqlite:x.db", [2.0, 2.0]), ("memory:", [2.0, 2.0]), ("postgresql://db/x", [10.0, 240.0])],
)
def test_11_a_takeover_waits_for_the_lease_only_where_many_machines_share_the_store(store, expected):
    leases = [{}, {"DUTIFUL_LEASE_S": "120"}]
    found = [takeover_ms(settings_from({"DUTIFUL_STORE": store, **lease})) / 1000 for lease in leases]
    assert found == expected


@pytest.mark.parametrize("catchup_policy", ["none", "latest"])
def test_11_no_tick_is_lost_to_the_lateness_of_a_busy_worker(catchup_policy):
    async def story(rig):
        await rig.registrar.upsert_schedule(given(grace_s=0, catchup_policy=catchup_policy))
        await rig.clock.advance(59.9)
        await rig.clock.jump(0.2)
        return rig.calls.ticks(), await rig.rows()

    assert play(story) == (["10:01"], ["10:01 ENQUEUED"])


def test_11_the_retries_of_a_launch_are_the_workers_own_not_those_of_the_upsert():
    async def refuse(_):
        return Unreached("no route")

    async def story(rig):
        await rig.registrar.upsert_schedule(given(end_at=after(1)))
        await rig.service.stop()
        rig.settings = replace(rig.settings, launch_retries=5)
        rig.service = await rig._new().start()
        await rig.clock.advance(180)
        return await rig.rows(), len(rig.calls.metas)

    assert play(story, behave=refuse) == (["10:01 FAILED launch_failed"], 6)


def test_11_the_look_ahead_is_the_time_over_which_missed_ticks_are_spread():
    async def story(rig):
        await rig.registrar.upsert_schedule(
            given(catchup_policy="spread", overlap_policy="allow", end_at=after(1))
        )
        await rig.restart(300)
        await rig.clock.advance(0)
        [run] = (await rig.registrar.runs("job")).items
        return run.fire_at

    assert play(story, LOOKAHEAD_MS="20000") == after(5 + 10 / 60)


def test_11_another_processes_edits_are_seen_within_a_tick():
    async def story(rig):
        other = await Service(rig.settings, rig.clock, worker=False).start()
        await other.registrar.upsert_schedule(given())
        await other.registrar.trigger("job")
        await rig.clock.advance(0.25)
        await other.stop()
        return len(rig.calls.metas)

    assert play(story, TICK_MS="200") == 1
