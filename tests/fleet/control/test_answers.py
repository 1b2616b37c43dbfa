"""What a fleet can be asked: requests in the right shape reach it, others are refused."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from dutiful.errors import DutifulError
from dutiful.fleet.control.answers import answer

NAMED = {"agent": "a", "schedule": "s"}
ALL = {"agent": None, "schedule": None}


class Listener:
    """Answers with what it was asked."""

    async def status(self):
        return ["status"]

    async def schedules(self, agent):
        return ["schedules", agent]

    async def past(self, ids):
        return ["past", ids]

    async def stop_soon(self):
        return ["stop"]

    async def cancel(self, agent, schedule):
        return ["cancel", agent, schedule]

    async def outcome(self, agent, schedule, run_at):
        return ["outcome", agent, schedule, run_at]

    async def switch(self, agent, schedule, *, enabled):
        return ["switch", agent, schedule, enabled]

    async def run(self, agent, schedule, prompt):
        return ["run", agent, schedule, prompt]

    async def history(self, agent, schedule, limit, *, failed):
        return ["history", agent, schedule, limit, failed]

    async def output(self, agent, schedule, number):
        return ["output", agent, schedule, number]

    async def explain(self, agent, schedule, at):
        return ["explain", agent, schedule, at]


@pytest.mark.parametrize(
    ("request_", "heard"),
    [
        ({"ask": "status"}, ["status"]),
        ({"ask": "schedules", "agent": None, "more": 1}, ["schedules", None]),
        ({"ask": "stop"}, ["stop"]),
        ({"ask": "past", "ids": ["a/s"]}, ["past", ["a/s"]]),
        ({"ask": "cancel", **NAMED}, ["cancel", "a", "s"]),
        ({"ask": "output", **NAMED, "run": None}, ["output", "a", "s", None]),
        ({"ask": "output", **NAMED, "run": 3}, ["output", "a", "s", 3]),
        ({"ask": "outcome", **NAMED, "run_at": 5}, ["outcome", "a", "s", 5]),
        ({"ask": "disable", "agent": "a", "schedule": None}, ["switch", "a", None, False]),
        ({"ask": "history", **ALL, "limit": 5, "failed": True}, ["history", None, None, 5, True]),
        ({"ask": "enable", **NAMED}, ["switch", "a", "s", True]),
        ({"ask": "disable", **NAMED}, ["switch", "a", "s", False]),
        ({"ask": "run", **NAMED, "prompt": None}, ["run", "a", "s", None]),
        ({"ask": "run", **NAMED, "prompt": "Go."}, ["run", "a", "s", "Go."]),
        ({"ask": "history", **NAMED, "limit": 1000, "failed": False}, ["history", "a", "s", 1000, False]),
        (
            {"ask": "explain", **NAMED, "at": "2026-03-08T06:30:00Z"},
            ["explain", "a", "s", datetime(2026, 3, 8, 6, 30, tzinfo=UTC)],
        ),
    ],
)
def test_a_request_reaches_the_fleet(request_, heard):
    assert asyncio.run(answer(Listener(), request_)) == heard


@pytest.mark.parametrize(
    "request_",
    [
        None,
        [],
        {},
        {"ask": "cancel"},
        {"ask": "schedules"},
        {"ask": "past", "ids": [1]},
        {"ask": "past", "ids": ["a/s"] * 1001},
        {"ask": "enable"},
        {"ask": "enable", "agent": "a", "schedule": 1},
        {"ask": "dance", **NAMED},
        {"ask": "run", **NAMED},
        {"ask": "run", **NAMED, "prompt": 1},
        {"ask": "history", **NAMED, "limit": 0},
        {"ask": "history", **NAMED, "limit": 1001},
        {"ask": "history", **NAMED, "limit": "5"},
        {"ask": "explain", **NAMED, "at": "yesterday"},
        {"ask": "explain", **NAMED, "at": "2026-03-08T06:30:00"},
        {"ask": "explain", **NAMED, "at": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_what_is_no_request_is_refused(request_):
    with pytest.raises(DutifulError):
        asyncio.run(answer(Listener(), request_))
