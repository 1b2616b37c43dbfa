"""Schedules that say how soon they start, end and succeed: the service tells where one does not."""

from __future__ import annotations

import logging

import pytest
from tests.service.rig import after, given, play

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Unreached


def told(caplog):
    """Return what the log says of expectations, each as its facts."""
    found = [record.event for record in caplog.records if record.getMessage().startswith("expectation")]
    return [(event["schedule"], event["expectation"], event["since"]) for event in found]


async def gauge(rig, expectation):
    """Return how many schedules miss an expectation, as the metrics say."""
    await rig.service.count_damaged()
    name = f'dutiful_expectations_missed{{expectation="{expectation}"}} '
    (line,) = [line for line in rig.service.metrics().splitlines() if line.startswith(name)]
    return float(line.removeprefix(name))


async def looked(rig, minutes):
    """Let time pass until so many minutes after the start, and look."""
    await rig.clock.advance((after(minutes) - rig.clock.now()).total_seconds())
    await rig.service.expectations.look()


def test_a_run_that_does_not_end_in_time_is_reported_once_and_counted(caplog):
    caplog.set_level(logging.WARNING, "dutiful.service")

    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr="0 * * * *", finish_within_s=90))
        await looked(rig, 60 + 1.5)
        assert told(caplog) == []
        await looked(rig, 60 + 1.6)
        await looked(rig, 60 + 3)
        assert told(caplog) == [("job", "finish_within", "2026-01-05T11:00:00+00:00")]
        assert await gauge(rig, "finish_within") == 1
        (run,) = (await rig.registrar.runs("job", 10)).items
        await rig.registrar.report(run.idempotency_key, "SUCCESS")
        await looked(rig, 60 + 4)
        assert await gauge(rig, "finish_within") == 0
        assert len(told(caplog)) == 1

    play(story)


def test_a_schedule_that_never_succeeds_is_reported(caplog):
    caplog.set_level(logging.WARNING, "dutiful.service")

    async def unreachable(_):
        return Unreached("nobody listens")

    async def story(rig):
        await rig.registrar.upsert_schedule(given(succeed_every_s=600))
        await looked(rig, 10)
        assert told(caplog) == []
        await looked(rig, 11)
        assert told(caplog) == [("job", "succeed_every", "2026-01-05T10:00:00+00:00")]

    play(story, behave=unreachable)


def test_a_tick_that_no_worker_takes_is_reported_by_the_process_that_looks(caplog):
    caplog.set_level(logging.WARNING, "dutiful.service")

    async def story(rig):
        await rig.registrar.upsert_schedule(given(start_within_s=30))
        rig.service._worker._host.abandon()
        await looked(rig, 2)
        assert told(caplog) == [("job", "start_within", "2026-01-05T10:01:00+00:00")]

    play(story)


def test_what_is_expected_is_shown_as_it_was_said():
    async def story(rig):
        expected = {"start_within_s": 30.0, "finish_within_s": 0.5, "succeed_every_s": 86_400.0}
        wanted = given(**expected, calendar=["12-25", "2026-05-01"])
        await rig.registrar.upsert_schedule(wanted)
        view = await rig.registrar.get_schedule("job")
        assert {name: getattr(view, name) for name in expected} == expected
        assert view.calendar == ["12-25", "2026-05-01"]
        assert (await rig.registrar.upsert_schedule(wanted)).changed == []

    play(story)


@pytest.mark.parametrize("field", ["start_within_s", "finish_within_s", "succeed_every_s"])
def test_no_time_at_all_is_refused(field):
    async def story(rig):
        with pytest.raises(InvalidArgumentError, match=field):
            await rig.registrar.upsert_schedule(given(**{field: 0}))

    play(story)


def test_a_day_of_the_calendar_has_no_ticks_and_explain_says_why():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr="0 12 * * *", calendar=["2026-01-06"]))
        view = await rig.registrar.get_schedule("job")
        assert [f"{at:%d}" for at in view.preview[:2]] == ["05", "07"]
        answer = await rig.registrar.explain("job", after(26 * 60))
        assert (answer.due, answer.code, answer.setting) == (False, "excluded", "calendar=2026-01-06")
        assert answer.text == "job at 2026-01-06T12:00:00Z is on a day that its calendar excludes"
        assert [(step.name, step.fact) for step in answer.steps] == [
            ("A tick of the cron", "its calendar excludes that day")
        ]

    play(story)
