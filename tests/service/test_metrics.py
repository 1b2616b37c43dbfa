"""Metrics are counted from events: each tick once, however its row grows and however often it is launched."""

from __future__ import annotations

import json

import pytest
from tests.core.plan.planner_notation import SECOND, at, run

from dutiful.core.event import (
    LeadershipChanged,
    PassFailed,
    RunEndedByPlan,
    RunLaunched,
    RunSettled,
    TicksSkipped,
)
from dutiful.core.policy import Overlap, Reason
from dutiful.core.run import Phase, Status
from dutiful.service.metrics import Metrics


def counted(*events, due=0):
    metrics = Metrics(lambda: due)
    for event in events:
        metrics(event)
    return counted_in(metrics)


def counted_in(metrics):
    lines = [line.split(" ") for line in metrics.text().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines if "_created" not in name}


def skipped(ticks, reason=Reason.OVERLAP, tick="10:01"):
    row = run(tick, Phase.ENDED, status=Status.SKIPPED, reason=reason, ticks=ticks)
    return TicksSkipped(at("10:09"), row)


def failed(reason):
    return RunSettled(at("10:09"), run("10:01", Phase.ENDED, status=Status.FAILED, reason=reason))


def test_a_launch_counts_in_its_first_attempt():
    events = [RunLaunched(at("10:01"), run("10:01", attempt=n), 0) for n in (1, 2, 3)]
    assert counted(*events)["runs_emitted_total"] == 1


def test_drift_is_of_ticks_of_today():
    launches = [
        RunLaunched(at("10:01") + 2 * SECOND, run("10:01"), 0),
        RunLaunched(at("10:02") - SECOND, run("10:02"), 0),
        RunLaunched(at("10:05"), run("10:01", kind="manual", own_key="ab" * 32), 0),
        RunLaunched(at("10:05"), run("10:01", backfill=Overlap.ALLOW), 0),
    ]
    found = counted(*launches)
    assert (found["scheduling_drift_seconds_count"], found["scheduling_drift_seconds_sum"]) == (2, 3)
    assert found["runs_emitted_total"] == 4


def test_a_stretch_that_grows_counts_what_is_new():
    found = counted(
        skipped(1), skipped(2), skipped(5), skipped(3, tick="10:30"), skipped(1, Reason.PAUSED, "10:40")
    )
    assert found["runs_skipped_overlap_total"] == 8
    assert found['dutiful_ticks_skipped_total{reason="paused"}'] == 1


@pytest.mark.parametrize("reason", Reason)
def test_failures_to_launch_are_those_of_the_launch(reason):
    launch = {"launch_refused", "launch_failed", "unknown_workflow", "outcome_unknown"}
    assert counted(failed(reason))["runs_failed_launch_total"] == (reason in launch)


def test_a_launch_that_is_tried_again_has_not_failed_yet():
    waiting = run("10:01", Phase.RETRY, reason=Reason.LAUNCH_FAILED)
    given_up = run("10:01", Phase.ENDED, status=Status.FAILED, reason=Reason.OUTCOME_UNKNOWN)
    found = counted(RunSettled(at("10:09"), waiting), RunEndedByPlan(at("10:09"), given_up))
    assert found["runs_failed_launch_total"] == 1


def test_the_rest_is_told_too():
    found = counted(LeadershipChanged(0, 4), PassFailed(0, "no"), due=7)
    assert (found["dutiful_leading"], found["dutiful_passes_failed_total"]) == (1, 1)
    assert found["schedules_due_total"] == 7
    assert counted(LeadershipChanged(0, 4), LeadershipChanged(0, None))["dutiful_leading"] == 0


def test_the_samples_of_another_process_are_added_to_the_own_ones():
    worker, server = Metrics(lambda: 5, lambda: 2, lambda: 0.25), Metrics(lambda: 0)
    for event in (RunLaunched(at("10:01"), run("10:01"), 0), skipped(3), LeadershipChanged(at("10:00"), 1)):
        worker(event)
    ended = run("10:01", Phase.ENDED, status=Status.SUCCESS)
    worker.ended(ended)
    server.ended(ended)
    server.missed_expectations({"start_within": 4})
    # As they come over the lifeline. Added twice, they count once.
    for _ in range(2):
        server.add(json.loads(json.dumps(worker.samples())))
    found = counted_in(server)
    assert found["schedules_due_total"] == 5
    assert found["runs_emitted_total"] == 1
    assert found["dutiful_launches_in_flight"] == 2
    assert found["dutiful_pass_seconds"] == 0.25
    assert found["dutiful_leading"] == 1
    assert found["scheduling_drift_seconds_count"] == 1
    assert found['scheduling_drift_seconds_bucket{le="+Inf"}'] == 1
    assert found['dutiful_ticks_skipped_total{reason="overlap"}'] == 3
    assert found['dutiful_runs_ended_total{status="SUCCESS"}'] == 2
    assert found['dutiful_expectations_missed{expectation="start_within"}'] == 4


def test_a_worker_that_is_gone_adds_nothing():
    server = Metrics(lambda: 0)
    server.add([("runs_emitted_total", {}, 3.0)])
    server.add([])
    assert counted_in(server)["runs_emitted_total"] == 0
