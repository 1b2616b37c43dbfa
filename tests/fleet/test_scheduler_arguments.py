"""What programs hand to the fleet scheduler: loggers, answers, numbers, agents made in Python."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.rig import START, FleetRig, agent, every

from dutiful.fleet import FleetScheduler, JobResult, ScheduleRunResult
from dutiful.testing import VirtualClock


class FourMethods:
    """A logger that has what `SchedulerLogger` asks for, and nothing else."""

    def __init__(self):
        self.lines = []

    def debug(self, msg, *args):
        self.lines.append("DEBUG " + msg % args)

    def info(self, msg, *args):
        self.lines.append("INFO " + msg % args)

    def warning(self, msg, *args):
        self.lines.append("WARNING " + msg % args)

    def error(self, msg, *args):
        self.lines.append("ERROR " + msg % args)


def test_a_logger_needs_the_four_methods_that_are_documented(tmp_path):
    logger, clock = FourMethods(), VirtualClock(START)
    mended = []

    def reload():
        if not mended:
            raise RuntimeError("100% broken")

    async def story():
        fleet = FleetScheduler(state_dir=tmp_path, logger=logger, clock=clock, reload=reload)
        await fleet.start([agent(i=every("1h"))])
        mended.append(True)
        await clock.advance(1)
        await fleet.stop()

    asyncio.run(story())
    since = "2026-03-02 08:59:58+0000"
    assert logger.lines == [
        f"ERROR no schedule is triggered, because passes fail since {since}: RuntimeError: 100% broken",
        "INFO passes succeed again",
        "INFO a/i: triggered (interval)",
    ]


async def _generates(_info):
    yield


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, None),
        ("anything else", None),
        (ScheduleRunResult(True, "did it"), None),
        (ScheduleRunResult(False, error="no luck"), "no luck"),
        (ScheduleRunResult(True, error="no luck"), "no luck"),
        (JobResult(True, "did it"), None),
        (JobResult(False, error="no luck"), "no luck"),
        (_generates(None), "on_trigger returned a generator, so nothing of it was run"),
        (iter(()), None),
    ],
)
def test_a_failure_is_one_in_whatever_form_on_trigger_answers_it(tmp_path, answer, error):
    async def job(_info):
        return answer

    async def story():
        async with FleetRig(tmp_path, agent(i=every("1h")), behave=job) as rig:
            await rig.clock.advance(1)
            return rig.state("a", "i").last_error

    assert asyncio.run(story()) == error
