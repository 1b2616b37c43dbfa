"""The timeline of a schedule with many ticks: every tick of its time is counted in one bucket."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from dutiful.web.drawing.axis import Span
from dutiful.web.drawing.marks import STATES, Tick
from dutiful.web.pages.schedule_timeline import counts_of

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
SPAN = Span(NOON - timedelta(hours=19), NOON + timedelta(hours=5), UTC, 1180)
singles = st.builds(
    Tick,
    st.integers(-30 * 3600, 8 * 3600).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    st.sampled_from(STATES),
)
stretches = st.builds(
    lambda tick, ticks: tick._replace(state="skipped", reason="missed", ticks=ticks),
    singles,
    st.integers(1, 10_000),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(singles | stretches, max_size=200), st.sampled_from([60, 120]))
def test_the_buckets_of_a_density_sum_up_to_all_ticks(ticks, buckets):
    # The page passes no tick that ends before the span; one that began before it is in the first bucket.
    recorded = [tick for tick in ticks if tick.state != "to_come" and tick.at < SPAN.end]
    found = counts_of(ticks, SPAN, buckets)
    told = {
        "failed": sum(bucket["failed"] for bucket in found),
        "skipped": sum(bucket["skipped"].total() for bucket in found),
        "ran": sum(bucket["ran"] for bucket in found),
    }
    assert len(found) == buckets
    assert told == {
        "failed": sum(tick.state == "failed" for tick in recorded),
        "skipped": sum(tick.ticks for tick in recorded if tick.state == "skipped"),
        "ran": sum(tick.state not in {"failed", "skipped"} for tick in recorded),
    }
    assert {bucket["to_come"] for bucket in found} == {0}
