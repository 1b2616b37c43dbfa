"""004 §4, the public interface, and §5, registering: the four calls of the registrar, and the launcher."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.service.rig import TEN, after, given, play

from dutiful.core.errors import InvalidArgumentError, InvalidCronExpressionError, UnknownScheduleError
from dutiful.core.plan.outcome import Refused, Unreached
from dutiful.core.policy import Reason
from dutiful.service import Upserted


def test_4_upsert_answers_the_id_and_the_next_run():
    async def story(rig):
        return await rig.registrar.upsert_schedule(given())

    assert play(story) == Upserted("job", after(1))


def test_4_an_upsert_without_an_id_makes_a_new_schedule_each_time():
    async def story(rig):
        made = [await rig.registrar.upsert_schedule(given(schedule_id=None)) for _ in range(2)]
        page = await rig.registrar.list_schedules()
        return {each.schedule_id for each in made} == {view.schedule_id for view in page.items}, len(
            page.items
        )

    assert play(story) == (True, 2)


def test_4_an_upsert_with_an_id_edits_what_is_there():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.upsert_schedule(given(version=2, cron_expr="0 12 * * *"))
        view = await rig.registrar.get_schedule("job")
        return view.version, view.cron_expr, view.next_run_at

    assert play(story) == (2, "0 12 * * *", TEN.replace(hour=12))


def test_4_the_first_run_is_not_before_start_at():
    async def story(rig):
        upserted = await rig.registrar.upsert_schedule(given(start_at=after(30), overlap_policy="allow"))
        await rig.clock.advance(31 * 60)
        return upserted.next_run_at, rig.calls.ticks()

    assert play(story) == (after(30), ["10:30", "10:31"])


def test_4_the_last_run_is_not_after_end_at():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(end_at=after(2), overlap_policy="allow"))
        await rig.clock.advance(600)
        return rig.calls.ticks(), (await rig.registrar.get_schedule("job")).next_run_at

    assert play(story) == (["10:01", "10:02"], None)


def test_4_pause_and_resume():
    async def story(rig):
        rig.reports_after(1)
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.pause_schedule("job", True)
        await rig.clock.advance(150)
        await rig.registrar.pause_schedule("job", False)
        await rig.clock.advance(60)
        return rig.calls.ticks(), await rig.rows()

    assert play(story) == (["10:03"], ["10:01-10:02 SKIPPED paused", "10:03 SUCCESS"])


def test_4_delete():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.delete_schedule("job")
        await rig.clock.advance(120)
        with pytest.raises(UnknownScheduleError):
            await rig.registrar.get_schedule("job")
        with pytest.raises(UnknownScheduleError):
            await rig.registrar.delete_schedule("job")
        return rig.calls.ticks()

    assert play(story) == []


def test_4_get_shows_the_next_five_fire_times_in_the_zone_of_the_schedule():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr="30 9 * * *", timezone="America/New_York"))
        return (await rig.registrar.get_schedule("job")).preview

    preview = play(story)
    zone = ZoneInfo("America/New_York")
    assert preview == [datetime(2026, 1, day, 9, 30, tzinfo=zone) for day in range(5, 10)]
    assert preview[0].isoformat() == "2026-01-05T09:30:00-05:00"


def test_4_the_launcher_loads_the_dag_and_calls_the_executor():
    async def story(rig):
        started = await rig.service.launcher.start("report", 1, "ada", TEN, "key")
        return started, rig.calls.dags, rig.calls.metas[0].as_json()

    started, dags, meta = play(story)
    assert (started, dags) == (True, [{"nodes": []}])
    assert meta == {
        "source": "schedule", "schedule_id": "", "workflow_id": "report", "version": 1, "user_id": "ada",
        "scheduled_for": "2026-01-05T10:00:00Z", "idempotency_key": "key", "attempt": 1, "epoch": 0,
        "labels": {}, "input": None,
    }  # fmt: skip


@pytest.mark.parametrize("outcome", [Refused(Reason.LAUNCH_REFUSED), Unreached(), None, "raise"])
def test_4_the_launcher_says_false_where_nothing_was_started(outcome):
    async def answer(_):
        if outcome == "raise":
            raise RuntimeError
        return outcome

    async def story(rig):
        unknown = await rig.service.launcher.start("report", 2, "ada", TEN, "key")
        return unknown, await rig.service.launcher.start("report", 1, "ada", TEN, "key")

    assert play(story, behave=answer) == (False, False)


@pytest.mark.parametrize(
    ("changes", "error", "field"),
    [
        ({"cron_expr": "61 * * * *"}, InvalidCronExpressionError, "minute"),
        ({"cron_expr": "0 0 30 2 *"}, InvalidCronExpressionError, "expression"),
        ({"cron_expr": None}, InvalidCronExpressionError, "expression"),
        ({"timezone": "Europe/Berlim"}, InvalidArgumentError, "timezone"),
        ({"timezone": "+02:00"}, InvalidArgumentError, "timezone"),
        ({"timezone": "../../etc/passwd"}, InvalidArgumentError, "timezone"),
        ({"schedule_id": ""}, InvalidArgumentError, "schedule_id"),
        ({"schedule_id": "a b"}, InvalidArgumentError, "schedule_id"),
        ({"schedule_id": "x" * 129}, InvalidArgumentError, "schedule_id"),
        ({"workflow_id": "ä"}, InvalidArgumentError, "workflow_id"),
        ({"user_id": None}, InvalidArgumentError, "user_id"),
        ({"version": True}, InvalidArgumentError, "version"),
        ({"version": -1}, InvalidArgumentError, "version"),
        ({"start_at": datetime(2026, 1, 1)}, InvalidArgumentError, "start_at"),  # noqa: DTZ001
        ({"start_at": after(5), "end_at": after(4)}, InvalidArgumentError, "end_at"),
        ({"jitter_ms": -1}, InvalidArgumentError, "jitter_ms"),
        ({"jitter_ms": 1.5}, InvalidArgumentError, "jitter_ms"),
        ({"overlap_policy": "sometimes"}, InvalidArgumentError, "overlap_policy"),
        ({"catchup_policy": "all"}, InvalidArgumentError, "catchup_policy"),
        ({"delivery": "twice"}, InvalidArgumentError, "delivery"),
        ({"grace_s": float("nan")}, InvalidArgumentError, "grace_s"),
        ({"run_timeout_s": 0}, InvalidArgumentError, "run_timeout_s"),
        ({"queue_limit": -1}, InvalidArgumentError, "queue_limit"),
        ({"labels": {"a b": "c"}}, InvalidArgumentError, "labels"),
        ({"labels": {"a": "line\nline"}}, InvalidArgumentError, "labels.a"),
        ({"dst": "vixie", "gap": "skip"}, InvalidArgumentError, "dst"),
        ({"dialect": "quartz"}, InvalidArgumentError, "dialect"),
        ({"paused": "yes"}, InvalidArgumentError, "paused"),
    ],
)
def test_5_what_is_wrong_is_refused_with_the_field_the_value_and_what_to_write(changes, error, field):
    async def story(rig):
        with pytest.raises(error) as caught:
            await rig.registrar.upsert_many([given(), given(**{"schedule_id": "second", **changes})])
        assert (await rig.registrar.list_schedules()).items == []
        return caught.value.details

    details = play(story)
    assert details["index"] == 1
    assert details.get("argument", details.get("field")) == field
    assert len(details["reason"]) > 5


def test_5_registering_precomputes_the_next_run_through_daylight_saving():
    async def story(rig):
        made = given(
            cron_expr="30 2 * * *", timezone="America/New_York", start_at=datetime(2026, 3, 8, tzinfo=UTC)
        )
        await rig.registrar.upsert_schedule(made)
        return (await rig.registrar.get_schedule("job")).preview[:2]

    # 2:30 does not exist that day: it runs at the first instant after the gap, once.
    assert [at.isoformat() for at in play(story)] == [
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]


def test_3_six_fields_have_seconds_first():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr="*/20 * * * * *", overlap_policy="allow"))
        await rig.clock.advance(60)
        return [meta.scheduled_for - TEN for meta in rig.calls.metas]

    assert play(story) == [timedelta(seconds=20), timedelta(seconds=40), timedelta(seconds=60)]
