"""004 §5 and §6: overlap, catch-up and jitter; and the five set-ups in which the pseudo-code loses ticks."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.service.rig import after, given, play


def accounted(rows):
    """Return how many of the ticks 10:01 to 10:59 have a row, by status and reason."""
    counts = Counter()
    for run in rows:
        counts[f"{run.status} {run.reason or ''}".strip()] += run.ticks
    return dict(counts)


async def an_hour(rig, restart_at=None):
    if restart_at is None:
        await rig.clock.advance(59 * 60 + 30)
    else:
        await rig.clock.advance(restart_at)
        await rig.restart(2)
        await rig.clock.advance(59 * 60 + 28 - restart_at)
    return accounted((await rig.registrar.runs("job", 1000)).items), len(rig.calls.metas)


def test_6_skip_with_jobs_of_10_s_launches_59_of_59():
    async def story(rig):
        rig.reports_after(10)
        await rig.registrar.upsert_schedule(given(overlap_policy="skip"))
        return await an_hour(rig)

    assert play(story) == ({"SUCCESS": 59}, 59)


def test_6_skip_without_feedback_accounts_for_59_of_59_and_goes_on_after_the_timeout():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="skip", run_timeout_s=600))
        return await an_hour(rig)

    # 10:01 is lost at 10:11, in whose minute the next one starts.
    assert play(story) == ({"FAILED lost_run": 5, "ENQUEUED": 1, "SKIPPED overlap": 53}, 6)


def test_6_skip_without_feedback_for_an_hour_is_written_down():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="skip"))
        return await an_hour(rig)

    assert play(story) == ({"ENQUEUED": 1, "SKIPPED overlap": 58}, 1)


def test_6_queue_with_jobs_of_10_s_launches_59_of_59():
    async def story(rig):
        rig.reports_after(10)
        await rig.registrar.upsert_schedule(given(overlap_policy="queue"))
        return await an_hour(rig)

    assert play(story) == ({"SUCCESS": 59}, 59)


def test_6_queue_with_jobs_of_90_s_keeps_59_of_59_in_order():
    async def story(rig):
        rig.reports_after(90)
        await rig.registrar.upsert_schedule(given(overlap_policy="queue"))
        counts, launched = await an_hour(rig)
        await rig.clock.advance(3600)
        ticks = rig.calls.ticks()
        return counts, launched, ticks == sorted(ticks), ticks[58]

    assert play(story) == ({"SUCCESS": 39, "ENQUEUED": 20}, 40, True, "10:59")


@pytest.mark.parametrize("restart_at", [59, 60.5, 90, 1800])
def test_6_allow_through_a_restart_of_2_s_launches_59_of_59(restart_at):
    async def story(rig):
        rig.reports_after(10)
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        return await an_hour(rig, restart_at)

    counts, launched = play(story)
    assert (sum(counts.values()), launched) == (59, 59)


def test_6_allow_runs_concurrently():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        await rig.clock.advance(185)
        return await rig.rows()

    assert play(story) == ["10:01 ENQUEUED", "10:02 ENQUEUED", "10:03 ENQUEUED"]


def test_6_queue_is_bounded_and_what_overflows_is_written_down():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="queue", queue_limit=2))
        await rig.clock.advance(300)
        return await rig.rows()

    assert play(story) == [
        "10:01 ENQUEUED", "10:02 ENQUEUED", "10:03 ENQUEUED", "10:04-10:05 SKIPPED queue_full",
    ]  # fmt: skip


CATCH_UP = [
    ("none", ["10:11"], "10:02-10:09 SKIPPED missed"),
    ("latest", ["10:11"], "10:02-10:09 SKIPPED coalesced"),
    ("fire_immediately", [f"10:{minute:02}" for minute in range(2, 12)], None),
]


@pytest.mark.parametrize(("policy", "expected", "skipped"), CATCH_UP)
def test_6_catch_up_after_downtime(policy, expected, skipped):
    async def story(rig):
        await rig.registrar.upsert_schedule(given(catchup_policy=policy, overlap_policy="allow"))
        await rig.clock.advance(60)
        await rig.restart(10 * 60)
        await rig.clock.advance(1)
        return rig.calls.ticks()[1:], await rig.rows()

    ticks, rows = play(story)
    # The last minute is within the grace, so it is not missed but late.
    assert ticks == ([*expected] if skipped is None else ["10:10", *expected])
    assert (skipped in rows) == (skipped is not None)


def test_6_spread_distributes_missed_ticks_over_the_look_ahead():
    async def story(rig):
        await rig.registrar.upsert_schedule(
            given(catchup_policy="spread", overlap_policy="allow", end_at=after(6), grace_s=0)
        )
        await rig.restart(10 * 60)
        await rig.clock.advance(0)
        planned = [run.fire_at for run in (await rig.registrar.runs("job")).items[::-1]]
        await rig.restart(1)
        await rig.clock.advance(60)
        return planned, rig.calls.ticks()

    planned, ticks = play(story)
    # Six fire times inside the minute, and a restart in between loses none.
    assert [(at - after(10)).total_seconds() for at in planned] == pytest.approx(
        [n * 60 / 7 for n in range(1, 7)], abs=0.01
    )
    assert ticks == [f"10:0{minute}" for minute in range(1, 7)]


def test_6_jitter_is_bounded_stays_put_and_is_in_the_preview():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(jitter_ms=10_000, overlap_policy="allow"))
        previewed = await rig.registrar.next_fires("job", 20)
        await rig.restart(0)
        again = await rig.registrar.next_fires("job", 20)
        await rig.clock.advance(21 * 60)
        fired = [run.fire_at for run in (await rig.registrar.runs("job")).items[::-1]][:20]
        return previewed, again, fired

    previewed, again, fired = play(story)
    assert previewed == again == fired
    offsets = [(at - after(minute)).total_seconds() for minute, at in enumerate(previewed, 1)]
    assert all(-10 <= offset <= 10 for offset in offsets)
    assert min(offsets) < 0 < max(offsets)


def test_5_a_late_tick_is_not_a_missed_one():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(catchup_policy="none"))
        await rig.clock.advance(59)
        await rig.restart(50)
        await rig.clock.advance(0)
        return await rig.rows()

    assert play(story) == ["10:01 ENQUEUED"]


def test_5_nothing_is_decided_in_look_ahead():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(59.9)
        return await rig.rows(), rig.calls.ticks()

    assert play(story, LOOKAHEAD_MS="600000") == ([], [])
