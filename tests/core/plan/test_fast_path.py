"""The fast path makes the same move as the planner's steps, and serves every case that it can."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dutiful.core.cadence import Every, Once
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.fast_path import HARMLESS, single_tick_move
from dutiful.core.plan.planner import decide_in_steps
from dutiful.core.policy import Capacity, CatchUp, Overlap, Policy, Reason, Retry
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import Schedule, SkippedRange, State, Task, Window
from dutiful.core.snapshot import Limits, Snapshot

MINUTE = 60_000
NOON = 1_772_971_200_000  # 2026-03-08T12:00:00Z, the day on which New York goes forward
LIMITS = Limits(epoch=3)
HOURLY = Cron.parse("0 * * * *")

crons = st.sampled_from(
    [
        HOURLY,
        Cron.parse("0,5,10 * * * *", timezone="America/New_York"),
        Cron.parse("30 2 * * *", timezone="America/New_York"),
        Cron.parse("0 12 29 2 *"),
        Cron.parse("* * * * * *", "seconds"),
    ]
)
policies = st.builds(
    Policy,
    overlap=st.sampled_from(Overlap),
    catch_up=st.sampled_from(CatchUp),
    grace=st.sampled_from([0, 30_000, MINUTE]),
    retry=st.sampled_from([None, Retry(MINUTE)]),
    run_timeout=st.sampled_from([None, 1000, MINUTE, 60 * MINUTE]),
    ledger=st.booleans(),
)
lateness = st.sampled_from([0, 1, 999, 30_000, MINUTE, 10 * MINUTE])
# What makes a case unusual, one thing at a time, so that each is looked at often.
ODD_POLICIES = {
    "jitter": {"jitter": 5000},
    "capacity": {"capacity": Capacity("group", 0)},
    "max_runs": {"max_runs": 4},
}
ODD = (
    "",
    "",
    "paused",
    "run",
    "room",
    "period",
    "once",
    "starts",
    "ends",
    "missed",
    "repeated",
    *ODD_POLICIES,
)


@st.composite
def situations(draw):
    """Return a schedule to be looked at, when, and under which limits."""
    odd, cron, policy = draw(st.sampled_from(ODD)), draw(crons), draw(policies)
    tick = cron.next_epoch(NOON // 1000) * 1000
    now, before = tick + draw(lateness), cron.previous_epoch(tick // 1000 - 1) * 1000
    cursor = before - 1 if odd == "missed" else draw(st.sampled_from([before, tick - 1]))
    skipped = draw(st.sampled_from([None, SkippedRange(cursor - 1000, Reason.MISSED, 2)]))
    ended_at = draw(st.sampled_from([None, cursor, now]))
    state = State(cursor, 4, cursor, None, cursor, ended_at, skipped, None, cursor)
    cadence = {"period": Every(tick - cursor, "start"), "once": Once(tick)}.get(odd, cron)
    window = {"starts": Window(now + 1, None), "ends": Window(None, tick - 1)}.get(odd, Window())
    changed = replace(policy, **ODD_POLICIES.get(odd, {}))
    schedule = Schedule("s", Task("t"), cadence, changed, window, odd == "paused")
    run = Run("s", before, "schedule", Status.STARTED, Phase.LAUNCHED, before, None, 1, 3, before)
    due = Snapshot(schedule, state, [run] if odd == "run" else (), 7, blocked=draw(st.booleans()))
    if odd == "repeated":
        # The clock was set back: the tick that is due, or the one before it, has a row already.
        decided = run._replace(run_at=draw(st.sampled_from([before, tick])), phase=Phase.ENDED)
        due = due._replace(repeated=[decided], state=state._replace(decided_until=tick))
    return due, now, LIMITS._replace(room=0) if odd == "room" else LIMITS


def test_every_policy_that_may_decide_is_tried():
    assert {*ODD_POLICIES} == {each.name for each in fields(Policy)} - {*HARMLESS}


@settings(max_examples=1000)
@given(situations())
def test_the_fast_path_makes_the_move_that_the_steps_make(situation):
    due, now, limits = situation
    move = single_tick_move(due, now, limits)
    if move is not None:
        assert move._replace(changes=[], cancels=[]) == decide_in_steps(due, now, limits, {})


@given(crons, policies, lateness)
def test_the_fast_path_serves_every_single_tick_that_is_on_time(cron, policy, late):
    tick = cron.next_epoch(NOON // 1000) * 1000
    plain = Policy(policy.overlap, policy.catch_up, grace=late, run_timeout=policy.run_timeout)
    due = Snapshot(Schedule("s", Task("t"), cron, plain), State(tick - 1))
    only = cron.next_epoch(tick // 1000) * 1000 > tick + late
    assert (single_tick_move(due, tick + late, LIMITS) is not None) == only


def test_a_late_tick_is_left_to_the_catch_up_policy():
    made = {
        policy: single_tick_move(
            Snapshot(Schedule("s", Task("t"), HOURLY, Policy(catch_up=policy)), State(NOON - 1)),
            NOON + 2 * MINUTE,
            LIMITS,
        )
        for policy in CatchUp
    }
    assert {policy for policy, move in made.items() if move} == {CatchUp.LATEST, CatchUp.FIRE_IMMEDIATELY}
