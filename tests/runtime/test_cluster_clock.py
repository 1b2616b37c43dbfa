"""The cluster's clock is never ahead of the database's, and does not go back for small differences."""

from __future__ import annotations

from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.runtime.cluster_clock import ClusterClock, OffsetWatch, SampledClock

START = 1_700_000_000_000
# Each question: seconds since the last one, on the way there, on the way back.
waits = st.floats(0, 5)
trips = st.lists(st.tuples(st.floats(0, 40), waits, waits), min_size=1, max_size=30)


def asked(clock, database, now, there, back):
    """Ask at `now`; return when the answer is there."""
    said = int(database(now + there))
    clock.sample(now, now + there + back, said)
    return now + there + back


def right(now):
    return START + now * 1000


@given(trips)
def test_the_clock_is_never_ahead_and_behind_by_a_round_trip_at_most(questions):
    clock, now = SampledClock(), 100.0
    for pause, there, back in questions:
        now = asked(clock, right, now, there, back)
        assert right(now) - (there + back) * 1000 - 2 <= clock.read(now) <= right(now)
        now += pause
        assert clock.read(now) <= right(now)


@given(trips, st.integers(-999, 999))
def test_a_small_difference_never_sets_the_clock_back(questions, by):
    clock, now, last = SampledClock(), 100.0, 0
    for number, (pause, there, back) in enumerate(questions):
        now = asked(clock, lambda at, n=number: right(at) + by * (n % 2), now + pause, there, back)
        assert clock.read(now) >= last
        last = clock.read(now)


@given(st.floats(0, 0.2), st.floats(0, 0.2))
def test_a_small_step_back_makes_the_clock_stand_still_until_it_is_right(there, back):
    clock = SampledClock()
    now = asked(clock, right, 100, 0, 0)
    shown = clock.read(now)
    now = asked(clock, lambda at: right(at) - 900, now, there, back)
    assert clock.read(now) == shown
    assert shown <= clock.read(now + 0.2) <= max(shown, right(now + 0.2) - 900)
    assert clock.read(now + 1) <= right(now + 1) - 900 + 1


@given(st.integers(1_500, 10**9), st.floats(0, 0.1))
def test_a_large_step_back_is_shown_at_once(by, trip):
    clock = SampledClock()
    now = asked(clock, right, 100, 0, 0)
    clock.read(now)
    now = asked(clock, lambda at: right(at) - by, now, trip, trip)
    assert right(now) - by - trip * 2000 - 2 <= clock.read(now) <= right(now) - by


def test_a_sample_older_than_a_minute_is_forgotten():
    def drifting(now):
        return right(now) - (now - 100)

    clock, now = SampledClock(), 100.0
    for _ in range(200):
        now = asked(clock, drifting, now, 0.25, 0.25)
        now += 0.5
    # A millisecond a second: at most a minute's worth ahead.
    assert clock.read(now) - drifting(now) <= 61


def test_the_clock_of_a_host_that_is_wrong_changes_nothing():
    clock = ClusterClock()
    assert clock.offset_ms() is None
    at = clock.monotonic()
    clock.sample(at, at, START)
    assert clock.epoch_ms() == pytest.approx(START, abs=5_000)
    assert clock.now().timestamp() * 1000 == pytest.approx(START, abs=5_000)
    assert clock.offset_ms() > 1_000_000


def test_an_offset_beyond_a_bound_is_reported_once_until_it_was_well_below():
    watch = OffsetWatch()
    offsets = [0, 499, -500, 600, 480, 510, 249, 700, -5000, 6000, 3000, 5500, 2000, 5000, 86_400_000]
    assert [offset for offset in offsets if watch.rises(offset)] == [-500, 700, -5000, 5000]


class Interrupted(float):
    """A time of the monotonic clock at whose use another thread gets its turn."""

    def __mul__(self, factor):
        self.other.start()
        self.other.join(0.1)
        return float(self) * factor


def test_a_step_back_that_is_sampled_by_another_thread_during_a_read_is_shown():
    clock = SampledClock()
    clock.sample(0, 0, 10_000_000)
    assert clock.read(1) == 10_001_000
    now = Interrupted(2)
    now.other = Thread(target=clock.sample, args=(2, 2, 1_000_000))
    assert clock.read(now) in (10_002_000, 1_000_000)
    now.other.join()
    assert clock.read(3) == 1_001_000
