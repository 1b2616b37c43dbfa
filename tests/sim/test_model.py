"""The lines of a world's trace as steps of the formal model, and what the model says of them."""

from __future__ import annotations

import pytest
from tests.sim.gate import RIVAL
from tests.sim.model import exercised, judge, steps_of
from tests.sim.world import World

from dutiful.core.cron.cron import Cron
from dutiful.core.schedule import Schedule, Task
from dutiful.declarative.registration import policy

TEN = 1_767_607_200
BEGUN = [(0, "boot", "instance 1", 0), (0, "lead", "instance 1", 1), (0, "applied"), (0, "applied")]


def lines(*told):
    """Return lines of a trace that begins at 10:00, each told after so many seconds."""
    return [(0.0, (TEN + after) * 1000, *what) for after, *what in told]


def row(after, phase, ended=None, reason=None, attempt=1):
    ended_at = None if ended is None else (TEN + ended) * 1000
    return after, "row", "job", TEN * 1000, "schedule", phase, reason, attempt, 1, ended_at


def steps(*told):
    found, end = steps_of(lines(*BEGUN, *told))
    named = [(step["at"] - TEN, step["name"]) for step in found]
    assert named[:2] == [(0, "InitStart"), (0, "InitSuccess")]
    return named[2:], end - TEN


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([row(0, "launched"), row(9, "ended", 5)], [(0, "RunStart"), (5, "RunSuccess")]),
        ([row(0, "launched"), row(9, "retry", 5, "task_failed")], [(0, "RunStart"), (5, "RunFailure")]),
        ([row(0, "launched"), row(1, "launched")], [(0, "RunStart")]),
        ([row(0, "launched"), row(1, "launched", attempt=2)], [(0, "RunStart"), (1, "RunStart")]),
        ([row(9, "ended", 5, "task_failed")], []),
        ([(3, "crash", "kill", 1), (4, "applied")], [(3, "Crash")]),
        ([(3, "lead", RIVAL, 2), (3, "applied")], [(3, "Crash")]),
        ([(3, "crash", "kill", 1), (4, "lead", "x", 2)], [(3, "Crash")]),
        ([(3, "stopping"), (4, "stopped", 0)], [(3, "StopStart"), (4, "StopEnd")]),
        ([(3, "stopping"), (4, "stopped", 1)], [(3, "StopStart"), (4, "Crash")]),
        ([(3, "act", "jump", "", 60.0)], [(3, "Frozen"), (63, "Unfrozen")]),
        ([(3, "act", "jump", "", -1.0), row(4, "launched")], []),
    ],
)
def test_a_line_is_a_step_of_the_model(told, expected):
    assert steps(*told)[0] == expected


def test_the_model_ends_where_the_clock_is_set_back():
    assert steps((3, "heal"), (7, "act", "jump", "", -1.0), (8, "heal"))[1] == 3


def judged(*told):
    job = Schedule("job", Task("job"), Cron.parse("0 * * * *"), policy(60_000))
    return judge(World(0, TEN * 1000, 3600, (), lists=((job,),)), lines(*BEGUN, *told))[0]


def test_a_world_is_judged_by_the_axioms():
    assert judged(row(0, "launched"), row(5, "ended", 5), (60, "heal")) == []
    again = [row(0, "launched"), row(5, "ended", 5), row(9, "launched", attempt=2)]
    assert judged(*again) == ["model: S1 job started without being due"]
    assert judged((300, "heal")) == ["model: L1 job was owed a start by 2026-01-05T10:00:01+00:00"]


def test_an_axiom_is_put_to_the_test_only_where_it_has_something_to_say():
    told, _ = steps_of(lines(*BEGUN, (1, "stopping"), (2, "stopped", 0)))
    assert exercised(told)["axiom S3"] == 0
    told, _ = steps_of(lines(*BEGUN, row(0, "launched"), (1, "stopping")))
    assert {name: count for name, count in exercised(told).items() if name.startswith("axiom")} == {
        "axiom S1": 1,
        "axiom L1": 1,
        "axiom S3": 1,
        "axiom L3": 1,
        "axiom S6": 1,
    }
