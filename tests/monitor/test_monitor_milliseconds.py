"""Instants to the millisecond: what the monitor says of one task is what an independent count says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutiful.monitor import check
from dutiful.monitor.obligation import instant_of, iso

TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)
TEN_MS = int(TEN.timestamp()) * 1000
MINUTE = 60_000
LAG = 10 * 3600
FORMS = {
    "datetime": lambda ms: TEN + timedelta(milliseconds=ms),
    "text": lambda ms: (TEN + timedelta(milliseconds=ms)).isoformat(),
    "seconds": lambda ms: (TEN_MS + ms) / 1000,
}
steps = st.lists(
    st.tuples(
        st.sampled_from(["RunStart", "RunSuccess", "RunFailure"]),
        st.one_of(st.integers(0, 3 * MINUTE), st.sampled_from(["retry", "minute", "just before the retry"])),
    ),
    max_size=12,
)


def judged(moves, delay):
    """Return (name, ms) of a trace and what is wrong with it, counted in whole milliseconds.

    The task is due in every third minute; the scheduler began just after 10:00.
    """
    now, trace, wrong = 1, [], []
    mark, retry, running, strays = -1, None, False, 0
    for position, (name, wait) in enumerate(moves, 2):
        if isinstance(wait, int):
            now += wait
        elif wait == "minute":
            now += 3 * MINUTE - now % (3 * MINUTE)
        elif retry is not None:
            now = max(now, retry - (wait != "retry"))
        trace.append((name, now))
        if name == "RunStart":
            due = any(
                minute % (3 * MINUTE) == 0 for minute in range(mark - mark % MINUTE + MINUTE, now + 1, MINUTE)
            )
            if running or not (due or (retry is not None and retry <= now)):
                wrong.append(("S1", position))
            strays += running
            mark, retry, running = now, None, True
        elif running:
            running, retry = False, now + delay if name == "RunFailure" else retry
        elif strays:
            strays -= 1
        else:
            wrong.append(("EA7", position))
    return trace, wrong


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=400)
@given(steps, st.integers(0, 100_000))
def test_a_trace_to_the_millisecond_is_judged_as_counted(form, moves, delay):
    trace, wrong = judged(moves, delay)
    events = [
        {"name": "InitStart", "at": FORMS[form](1), "list": "all"},
        {"name": "InitSuccess", "at": FORMS[form](1), "list": "all"},
        *({"name": name, "at": FORMS[form](at), "task": "a"} for name, at in trace),
    ]
    every_third = ",".join(map(str, range(0, 60, 3)))
    lists = {"all": [("a", f"{every_third} * * * *", timedelta(milliseconds=delay))]}
    found = check(events, registrations=lists, lag=LAG)
    # Two successes between two due minutes are another axiom, shown elsewhere.
    assert [(each.axiom, each.position) for each in found if each.axiom != "S2"] == wrong


@given(st.integers(-(10**13), 10**14))
def test_every_form_of_an_instant_is_the_same_instant(ms):
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert instant_of(at) == instant_of(at.isoformat()) == instant_of(ms / 1000) == ms * 1000
    assert iso(ms * 1000) == at.isoformat()


@pytest.mark.parametrize("lag", [timedelta(seconds=30), 30, 30.0])
def test_the_lag_is_a_timedelta_or_seconds(lag):
    events = [{"name": name, "at": TEN, "list": "all"} for name in ("InitStart", "InitSuccess")]
    lists = {"all": [("a", "0 10 * * *", 60)]}
    ends = [TEN + timedelta(seconds=seconds) for seconds in (30, 30.001)]
    found = [[each.axiom for each in check(events, registrations=lists, lag=lag, end=end)] for end in ends]
    assert found == [[], ["L1"]]


def test_texts_of_another_dialect_are_read_in_it():
    events = [
        {"name": "InitStart", "at": TEN, "list": "all"},
        {"name": "InitSuccess", "at": TEN + timedelta(seconds=5), "list": "all"},
        {"name": "RunStart", "at": TEN + timedelta(seconds=20), "task": "a"},
        {"name": "RunSuccess", "at": TEN + timedelta(seconds=21), "task": "a"},
        {"name": "RunStart", "at": TEN + timedelta(seconds=29), "task": "a"},
    ]
    lists = {"all": [("a", "*/10 * * * * *", 60)]}
    found = check(events, registrations=lists, lag=60, dialect="seconds")
    assert [(each.axiom, each.position) for each in found] == [("S1", 4)]
