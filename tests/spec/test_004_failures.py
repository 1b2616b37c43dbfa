"""004 §7, failures and idempotency: one run per tick, launches tried again, restarts, and feedback."""

from __future__ import annotations

import asyncio

import pytest
from tests.service.rig import TEN, after, given, play

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import InvalidArgumentError, UnknownRunError
from dutiful.core.plan.outcome import Accepted, Failed, Refused, Succeeded, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.core.schedule import tick_key
from dutiful.service import Service

NOON = "0 12 * * *"


def answers(*outcomes):
    """Return an executor that gives these answers, one after the other; the last one again and again."""
    left = [*outcomes]

    async def behave(_):
        return left.pop(0) if len(left) > 1 else left[0]

    return behave


def attempts(rig):
    return [(meta.attempt, meta.idempotency_key) for meta in rig.calls.metas]


def key(minutes, id_="job"):
    return tick_key(id_, epoch_ms(after(minutes)))


async def one_tick(rig, seconds=30, **changes):
    await rig.registrar.upsert_schedule(given(end_at=after(1), **changes))
    await rig.clock.advance(60 + seconds)
    [run] = (await rig.registrar.runs("job")).items
    return run.status, run.reason, run.attempt, len(rig.calls.metas)


RETRIED = [
    ("at_least_once", Unreached("no route"), ("FAILED", "launch_failed", 4, 4)),
    ("at_least_once", Unanswered("timeout"), ("FAILED", "launch_failed", 4, 4)),
    ("at_most_once", Unreached("no route"), ("FAILED", "launch_failed", 4, 4)),
    ("at_most_once", Unanswered("timeout"), ("FAILED", "outcome_unknown", 1, 1)),
    ("at_least_once", Refused(Reason.LAUNCH_REFUSED, "400"), ("FAILED", "launch_refused", 1, 1)),
    ("at_least_once", Failed("boom"), ("FAILED", "task_failed", 1, 1)),
    ("at_least_once", Succeeded(), ("SUCCESS", None, 1, 1)),
    ("at_least_once", Accepted("r"), ("ENQUEUED", None, 1, 1)),
]


@pytest.mark.parametrize(("delivery", "outcome", "expected"), RETRIED)
def test_7_launches_are_tried_a_few_times_and_then_the_tick_has_failed(delivery, outcome, expected):
    async def story(rig):
        return await one_tick(rig, delivery=delivery)

    assert play(story, behave=answers(outcome)) == expected


def test_7_every_attempt_has_the_same_key_and_a_higher_number():
    async def story(rig):
        await one_tick(rig)
        return attempts(rig)

    assert play(story, behave=answers(Unreached(), Unanswered(), Accepted("r"))) == [
        (n, key(1)) for n in (1, 2, 3)
    ]


def test_7_an_unknown_workflow_is_a_failure_at_once():
    async def story(rig):
        return await one_tick(rig, workflow_id="nobody")

    assert play(story) == ("FAILED", "unknown_workflow", 1, 0)


def test_7_a_workflow_that_is_stored_later_serves_the_next_tick():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(version=2))
        await rig.clock.advance(60)
        await rig.service.workflows.save_dag("report", 2, {"v": 2})
        await rig.clock.advance(60)
        return await rig.rows(), rig.calls.dags

    assert play(story) == (["10:01 FAILED unknown_workflow", "10:02 ENQUEUED"], [{"v": 2}])


def test_7_a_tick_with_a_row_is_not_started_again_by_a_clock_set_back():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        await rig.clock.advance(180)
        await rig.clock.jump(-150)
        await rig.clock.advance(240)
        return rig.calls.ticks()

    assert play(story) == ["10:01", "10:02", "10:03", "10:04"]


@pytest.mark.parametrize(
    ("delivery", "expected", "launches"),
    [("at_least_once", "ENQUEUED", [1, 2]), ("at_most_once", "FAILED outcome_unknown", [1])],
)
def test_7_a_crash_while_a_launch_is_under_way(delivery, expected, launches):
    async def hang_once(meta):
        if meta.attempt == 1:
            await asyncio.Event().wait()
        return Accepted("r")

    async def story(rig):
        await rig.registrar.upsert_schedule(given(end_at=after(1), delivery=delivery))
        await rig.clock.advance(70)
        await rig.crash(5)
        await rig.clock.advance(5)
        return await rig.rows(), [attempt for attempt, _ in attempts(rig)]

    assert play(story, behave=hang_once) == ([f"10:01 {expected}"], launches)


def test_7_an_accepted_run_is_never_launched_again():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(end_at=after(1)))
        await rig.clock.advance(70)
        await rig.restart(5)
        await rig.clock.advance(60)
        return attempts(rig)

    assert play(story) == [(1, key(1))]


def test_7_feedback_moves_the_status_forward_only():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(end_at=after(1)))
        await rig.clock.advance(70)
        seen = []
        for status in ("STARTED", "STARTED", "SUCCESS", "FAILED", "STARTED"):
            run = await rig.registrar.report(key(1), status, attempt=1, run_id="r", error="e")
            seen.append(run.status)
        return seen, run.run_id, run.reason

    assert play(story) == (["STARTED", "STARTED", "SUCCESS", "SUCCESS", "SUCCESS"], "r", None)


def test_7_a_failure_that_is_reported_has_its_reason_and_text():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(end_at=after(1)))
        await rig.clock.advance(70)
        run = await rig.registrar.report(key(1), "FAILED", error="exit status 3")
        return run.status, run.reason, run.detail, run.updated_at

    assert play(story) == ("FAILED", "task_failed", "exit status 3", after(70 / 60))


def test_7_feedback_may_come_before_the_launch_is_answered():
    async def story(rig):
        async def overtake(meta):
            await rig.registrar.report(meta.idempotency_key, "SUCCESS", run_id="first")
            return Accepted("second")

        rig.calls._behave = overtake
        await one_tick(rig)
        [run] = (await rig.registrar.runs("job")).items
        return run.status, run.run_id

    assert play(story) == ("SUCCESS", "first")


@pytest.mark.parametrize("answer", [Accepted("second"), Unanswered("timeout"), Unreached("reset")])
def test_7_that_a_run_began_may_be_reported_before_the_launch_is_answered(answer):
    async def story(rig):
        async def overtake(meta):
            await rig.registrar.report(meta.idempotency_key, "STARTED", run_id="first")
            return answer

        rig.calls._behave = overtake
        await one_tick(rig)
        [run] = (await rig.registrar.runs("job")).items
        return run.status, run.run_id, run.attempt

    assert play(story) == ("STARTED", "first", 1)


def test_7_feedback_from_another_process_on_the_store_counts():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="queue"))
        await rig.clock.advance(125)
        other = await Service(rig.settings, rig.clock, worker=False).start()
        await other.registrar.report(key(1), "SUCCESS")
        await other.stop()
        await rig.clock.advance(1)
        return rig.calls.ticks()

    assert play(story) == ["10:01", "10:02"]


@pytest.mark.parametrize("unknown", ["0" * 64, "x", "", "🙂"])
def test_7_feedback_on_an_unknown_run_is_refused(unknown):
    async def story(rig):
        with pytest.raises(UnknownRunError):
            await rig.registrar.report(unknown, "SUCCESS")

    play(story)


@pytest.mark.parametrize(("status", "attempt"), [("ENQUEUED", 1), ("done", 1), ("SUCCESS", 0)])
def test_7_feedback_that_means_nothing_is_refused(status, attempt):
    async def story(rig):
        with pytest.raises(InvalidArgumentError):
            await rig.registrar.report("0" * 64, status, attempt)

    play(story)


def test_7_a_run_that_never_reports_is_lost_after_its_timeout():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr=NOON, run_timeout_s=300))
        await rig.clock.advance(2 * 3600 + 299)
        before = await rig.rows()
        await rig.clock.advance(2)
        late = await rig.registrar.report(tick_key("job", epoch_ms(TEN.replace(hour=12))), "SUCCESS")
        return before, await rig.rows(), late.status

    assert play(story) == (["12:00 ENQUEUED"], ["12:00 FAILED lost_run"], "FAILED")
