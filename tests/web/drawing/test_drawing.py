"""Drawings: nothing outside the box, every state its own shape, the same bytes for the same values."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutiful.web.drawing.axis import ClockChange, Span
from dutiful.web.drawing.density import Bucket, Density, density
from dutiful.web.drawing.marks import STATES, Mini, Tick, mini, places, shape
from dutiful.web.drawing.matrix import SHADES, LoadPicture, Year, load_matrix, load_picture, shade, year
from dutiful.web.drawing.strip import Strip, drift, histogram, meter, strip

GOLDEN = Path(__file__).with_name("golden")
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ZONES = ["UTC", "America/New_York", "Pacific/Kiritimati", "Etc/GMT+12", "Asia/Kathmandu", "Pacific/Apia"]


def strip_of(ticks, zone="UTC", back=7 * DAY, changes=(), chosen=None, css="wide", **more):
    span = Span(NOON - back, NOON + back * 24 / 76, ZoneInfo(zone), 1180 if css == "wide" else 360)
    shown = Strip(span, ticks, NOON, list(changes), lambda _: "?at=x", lambda t: t.state, chosen, **more)
    return strip(shown, css)


def day_of(buckets, css="wide"):
    span = Span(NOON - DAY / 2, NOON + DAY / 2, UTC, 1146 if css == "wide" else 360)
    return density(
        Density(
            span, buckets, timedelta(minutes=10), NOON, lambda begin, _: f"?{begin:%H}", timedelta(hours=1)
        ),
        css,
    )


SPACED = [(NOON - 6 * DAY + place * DAY / 2, state, place) for place, state in enumerate(STATES)]
ONE_OF_EACH = [
    *(Tick(at, state, "overlap" if state == "skipped" else None, 60.0 * n) for at, state, n in SPACED),
    Tick(NOON - DAY / 2, "ran", took=5.0, late=True),
    Tick(NOON - 6.5 * DAY, "skipped", "paused", until=NOON - 6.2 * DAY, ticks=40),
]
THE_DAY = [
    Bucket(NOON - timedelta(hours=3), 400, 1, Counter(overlap=7)),
    Bucket(NOON - timedelta(hours=1), 12),
    Bucket(NOON + timedelta(hours=4), to_come=1273),
    *(Bucket(NOON + timedelta(minutes=10 * n), to_come=20) for n in range(6)),
]
BACK = ClockChange(NOON - DAY, -3600)
EDITED = {date(2026, 12, 31): "moved", date(2027, 1, 1): "removed", date(2027, 1, 2): "added"}
PICTURES = {
    "strip-wide": lambda: strip_of(ONE_OF_EACH, "America/New_York", changes=[BACK], chosen=NOON - DAY),
    "strip-narrow": lambda: strip_of(ONE_OF_EACH, css="narrow"),
    "strip-paused": lambda: strip_of(
        [Tick(NOON - 5 * DAY, "ran", took=5.0)],
        pauses=[(NOON - DAY, NOON + 9 * DAY), (NOON - 4 * DAY, NOON - 2 * DAY)],
    ),
    "strip-set-aside": lambda: strip_of([Tick(NOON - DAY, "ran", took=5.0)], ends=True),
    "day-wide": lambda: day_of(THE_DAY),
    "day-narrow": lambda: day_of(THE_DAY, "narrow"),
    "mini": lambda: mini(ONE_OF_EACH, 3),
    "year": lambda: year(Year(date(2026, 11, 2), EDITED, frozenset({date(2027, 3, 14)}))),
    "load": lambda: load_matrix([minute % 7 * 20 for minute in range(1440)]),
    "load-picture": lambda: load_picture(
        LoadPicture(
            "When 1,000 schedules fire",
            "dutiful load, Tue 3 Nov 2026, UTC",
            "many ticks, at most 227 in a minute; 34 with 400 schedules moved",
            [227 if minute == 1439 else minute % 7 * (minute % 60 % 5 == 0) * 20 for minute in range(1440)],
            [("as they are", 227), ("with --spread 30m", 34)],
        )
    ),
    "drift": lambda: drift([0.0, 0.012, None, 2.0, 90.0]),
    "histogram": lambda: histogram([0.0, 0.001, *[0.012] * 40, *[0.05] * 9, 2.0, 90.0]),
    "meter": lambda: meter(300, 240),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_drawing_has_the_same_bytes_as_before(name):
    """Look at what changed, and then write the file anew: `python -m tests.web.drawing.test_drawing`."""
    assert PICTURES[name]() == (GOLDEN / f"{name}.svg").read_text(encoding="utf-8")


def box_of(drawn):
    return [float(part) for part in re.search(r'viewBox="([^"]+)"', drawn)[1].split()]


def extent(drawn):
    """Yield the (x, y) of every element and of the starts of every path."""
    pairs = [("x", "y"), ("cx", "cy"), ("x1", "y1"), ("x2", "y2")]
    for element in ElementTree.fromstring(drawn).iter():
        own = element.attrib
        yield from ((float(own[x]), float(own[y])) for x, y in pairs if x in own)
        starts = re.findall(r"M(-?[\d.]+) (-?[\d.]+)", own.get("d", ""))
        yield from ((float(x), float(y)) for x, y in starts)


ticks = st.builds(
    Tick,
    st.integers(-13 * 1440, 8 * 1440).map(lambda minutes: NOON + timedelta(minutes=minutes)),
    st.sampled_from(STATES),
    st.sampled_from([None, "overlap", "missed"]),
    st.none() | st.floats(0, 90_000),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ticks, max_size=40), st.sampled_from(ZONES), st.sampled_from(["wide", "narrow"]))
def test_every_tick_of_the_span_is_drawn_once_and_nothing_lies_outside_the_box(ticks, zone, css):
    drawn = strip_of(sorted(ticks, key=lambda tick: tick.at), zone, css=css)
    _, _, width, height = box_of(drawn)
    begin, end = NOON - 7 * DAY, NOON + 7 * DAY * 24 / 76
    assert drawn.count("<a ") == sum(begin <= tick.at < end for tick in ticks)
    assert all(-31 <= x <= width + 31 and -2 <= y <= height + 2 for x, y in extent(drawn))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            Bucket,
            st.integers(-80, 80).map(lambda n: NOON + timedelta(minutes=10 * n)),
            st.integers(0, 10**6),
            st.integers(0, 50),
            st.dictionaries(st.sampled_from(["overlap", "missed"]), st.integers(1, 500)).map(Counter),
            st.integers(0, 10**5),
        ),
        max_size=30,
    ),
    st.sampled_from(["wide", "narrow"]),
)
def test_bars_stay_inside_their_box_whatever_the_numbers(buckets, css):
    drawn = day_of(buckets, css)
    _, _, width, height = box_of(drawn)
    assert all(-20 <= x <= width + 1 and 0 <= y <= height for x, y in extent(drawn))


def test_each_state_has_a_shape_of_its_own():
    assert len({shape(state) for state in (*STATES, "paused", "aside", "clock")}) == len(STATES) + 3


def test_a_place_that_is_taken_is_solid_and_one_that_is_free_is_hollow():
    drawn = re.findall(r'x="([0-9.]+)" .* class="(\w+)"', places(2, 3).replace("/>", "/>\n"))
    assert drawn == [("1", "rundot"), ("9", "rundot"), ("17", "come")]
    assert places(5, 500) == ""


def test_a_failure_among_hundreds_has_a_flag():
    drawn = day_of([Bucket(NOON - timedelta(hours=3), 4000, 1)])
    assert 'class="cross"' in drawn
    assert "1 failed" in drawn


def test_nothing_at_all_can_be_drawn():
    for drawn in (strip_of([]), day_of([]), mini([], 0), drift([]), histogram([]), load_matrix([0] * 1440)):
        ElementTree.fromstring(drawn)


def test_hostile_texts_stay_texts():
    drawn = strip_of([Tick(NOON - DAY, "skipped", "<script>alert(1)</script>")])
    assert "<script" not in drawn


def test_weekends_of_a_zone_begin_at_its_own_midnight():
    span = Span(
        datetime(2026, 10, 31, tzinfo=UTC),
        datetime(2026, 11, 3, tzinfo=UTC),
        ZoneInfo("America/New_York"),
        100,
    )
    days = [(begin.isoformat(), end.isoformat()) for begin, end in span.weekends()]
    assert days == [
        ("2026-10-31T00:00:00-04:00", "2026-11-01T00:00:00-04:00"),
        ("2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"),
    ]


def test_labels_leave_out_a_time_that_the_clock_skips():
    begin = datetime(2026, 3, 8, 5, tzinfo=UTC)
    span = Span(begin, begin + timedelta(hours=6), ZoneInfo("America/New_York"), 600)
    assert [words for _, words in span.round_instants()] == [
        "00:00 Sun",
        "01:00",
        "03:00",
        "04:00",
        "05:00",
        "06:00",
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(-180, 180), st.integers(5, 480))
def test_labels_in_a_fold_name_both_of_its_hours_and_stay_evenly_apart(minutes, length):
    # The clocks of New York go back at 06:00 UTC.
    begin = datetime(2026, 11, 1, 6, tzinfo=UTC) + timedelta(minutes=minutes)
    zone = ZoneInfo("America/New_York")
    span = Span(begin, begin + timedelta(minutes=length), zone, 1180)
    found = span.round_instants()
    assert found
    assert [words.split()[0] for _, words in found] == [
        f"{at.astimezone(zone):%H:%M:%S}".removesuffix(":00" if words.count(":") == 1 else "")
        for at, words in found
    ]
    assert len({after - before for (before, _), (after, _) in pairwise(found)}) <= 1
    assert {begin <= at < begin + timedelta(minutes=length) for at, _ in found} == {True}


CHANGES = [
    (3600, "clocks go forward 1 h"),
    (-1800, "clocks go back 30 min"),
    (86_400, "clocks go forward 24 h"),
]


@pytest.mark.parametrize(("by", "said"), CHANGES)
def test_a_change_of_the_clock_in_words(by, said):
    assert ClockChange(NOON, by).words == said


def test_a_mini_shows_twenty_and_three_at_most():
    drawn = mini([Tick(NOON, "ran")] * 50, 9)
    axis, bars = re.findall(r' d="([^"]+)"', drawn)
    assert (axis.count("h"), bars.count("v")) == (1 + Mini.NEXT, Mini.PAST)


def test_a_mini_has_one_path_for_each_kind_of_mark():
    drawn = ElementTree.fromstring(mini(ONE_OF_EACH * 3, 3))
    paths = [each.attrib for each in drawn if each.get("marker-mid") is not None]
    corners = {own["marker-mid"]: own["d"].count("h") - 1 for own in paths}
    states = Counter(tick.state for tick in (ONE_OF_EACH * 3)[-Mini.PAST :])
    assert corners == {
        "url(#m-x)": states["failed"],
        "url(#m-d)": states["skipped"],
        "url(#m-o)": states["to_come"] + 3,
    }
    assert len(drawn) == 7


def test_a_shade_begins_at_its_number():
    assert [shade(count) for count in (0, 1, 4, 5, 16, 17, 48, 49, 120, 121)] == [
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
        5,
    ]
    assert len(SHADES) == 5


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, make in PICTURES.items():
        (GOLDEN / f"{name}.svg").write_text(make(), encoding="utf-8")
