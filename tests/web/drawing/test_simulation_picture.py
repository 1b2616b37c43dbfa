"""The picture of a simulation: whole, escaped, small, and the same bytes each time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from dutiful.web.drawing.axis import ClockChange
from dutiful.web.drawing.marks import Tick
from dutiful.web.drawing.simulation_picture import LANES_MAX, Lane, Picture, picture

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def of(lanes, **more):
    shown = Picture("Four schedules", "from noon", NOON, NOON + 48 * HOUR, lanes, [], [])
    return shown._replace(**more)


def lane(name="a", states=("ran", "failed", "skipped"), step=HOUR):
    ticks = [(Tick(NOON + number * step, state, "overlap"), None) for number, state in enumerate(states)]
    return Lane(name, ticks)


def test_a_picture_is_one_file_that_says_what_it_shows():
    drawn = picture(of([lane("nightly", ("ran", "ran", "failed", "skipped"))]))
    root = ElementTree.fromstring(drawn)
    assert root.find("{*}title").text == "Four schedules"
    assert root.find("{*}desc").text == "nightly: 2 ran, 1 failed, 1 skipped"
    assert "<script" not in drawn
    assert "prefers-color-scheme:dark" in drawn
    assert picture(of([lane("nightly", ("ran", "ran", "failed", "skipped"))])) == drawn


@pytest.mark.parametrize(("theme", "ground"), [("light", "#ffffff"), ("dark", "#14181e")])
def test_a_theme_can_be_pinned(theme, ground):
    drawn = picture(of([lane()]), theme)
    assert f".ground{{fill:{ground}}}" in drawn
    assert "@media" not in drawn


def test_an_outage_is_a_band_through_all_lanes_and_a_late_run_has_a_line_to_its_tick():
    late = Lane("a", [(Tick(NOON + HOUR, "ran", took=600.0), NOON + 4 * HOUR)])
    drawn = picture(of([late], outages=[(NOON + HOUR / 2, NOON + 3.5 * HOUR)]))
    assert "down 3 h" in drawn
    assert 'class="late"' in drawn
    assert 'class="hatch"' in drawn


def test_a_stretch_is_a_bracket_with_its_reason_and_number():
    stretch = Tick(NOON + HOUR, "skipped", "missed", until=NOON + 5 * HOUR, ticks=4)
    assert "missed 4" in picture(of([Lane("a", [(stretch, None)])]))


def labels_of(drawn):
    return [each.text for each in ElementTree.fromstring(drawn).findall(".//{*}text[@class='t-skip']")]


def test_neighbours_that_were_skipped_for_one_reason_share_a_label_with_their_number():
    alternating = lane("a", ("ran", "skipped") * 4, 4 * HOUR)
    assert labels_of(picture(of([alternating]))) == ["overlap 4"]
    missed = Tick(NOON + 20 * HOUR, "skipped", "missed", until=NOON + 30 * HOUR, ticks=3)
    single = Tick(NOON + 46 * HOUR, "skipped", "overlap")
    both = Lane("a", [*alternating.ticks[:4], (missed, None), (single, None)])
    assert labels_of(picture(of([both]))) == ["overlap 2", "missed 3", "overlap"]


def test_a_run_that_was_launched_again_says_which_attempt_it_is():
    again = Tick(NOON + HOUR, "ran", took=600.0, attempt=2)
    assert ">attempt 2<" in picture(of([Lane("a", [(again, NOON + 9 * HOUR)])]))


def test_a_change_of_the_clock_is_named():
    change = ClockChange(NOON + 10 * HOUR, 3600)
    assert "New York: clocks go forward 1 h" in picture(
        of([lane()], changes=[(change, f"New York: {change.words}")])
    )


def test_beyond_twenty_lanes_those_with_most_to_tell_are_shown_and_the_picture_says_so():
    quiet = [lane(f"quiet{number}", ("ran",) * 5) for number in range(30)]
    drawn = picture(of([*quiet, lane("broken", ("failed",))]))
    assert "broken" in drawn
    assert f"and {31 - LANES_MAX} more schedules" in drawn


def test_a_month_of_minutes_stays_small():
    busy = [lane(f"m{number}", ("ran",) * 43_200, timedelta(minutes=1)) for number in range(2)]
    drawn = picture(of(busy, end=NOON + timedelta(days=30)))
    assert len(drawn) <= 60 * 1024
    assert "43,200 ran" in drawn
    thinned = "bars are thinned out where there are too many to tell apart; the counts include all"
    assert thinned in drawn
    assert thinned not in picture(of([lane("few", ("ran",) * 40)]))


def test_hostile_names_stay_texts():
    assert "<script" not in picture(of([lane("<script>x</script>")], title="<script>"))
