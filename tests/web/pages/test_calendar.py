"""The calendar: the crowded times, the schedules behind them, and the cost of an outage."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import pytest
from tests.web.pages.html import page

from dutiful.web.pages.calendar import CalendarQuery, read

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


def drawn(html: str, css: str) -> set[str]:
    """Return the shades of the drawing of a width that have a cell."""
    [picture] = re.findall(rf'<svg class="plot {css}".*?</svg>', html, re.DOTALL)
    return {*re.findall(r'class="(load\d)"', picture)}


def legend(html: str, css: str) -> dict[str, str]:
    """Return the numbers of each shade in the legend of a width."""
    [found] = re.findall(rf'<div class="said {css}"><ul class="legend">(.*?)</ul>', html, re.DOTALL)
    return dict(re.findall(r'class="(load\d)"/></svg> ([^<]+)</li>', found))


def test_the_legend_of_the_hours_has_the_numbers_by_which_hours_are_shaded(service):
    service.upsert(cron_expr="*/20 * * * *")
    html = page(service, "/ui/calendar?day=2026-03-03").answer.text
    assert drawn(html, "narrow") == {"load1"}
    assert legend(html, "narrow") == {
        "load1": "1 to 19",
        "load2": "20 to 67",
        "load3": "68 to 195",
        "load4": "196 to 483",
        "load5": "484 and more",
    }
    service.upsert(schedule_id="minutely", cron_expr="* * * * *")
    service.advance(61)
    html = page(service, "/ui/calendar?day=2026-03-04").answer.text
    assert drawn(html, "narrow") == {"load2"}, "63 ticks an hour"
    assert drawn(html, "wide") == {"load1"}, "1 or 2 ticks a minute"
    assert legend(html, "wide")["load1"] == "1 to 4"


@pytest.fixture
def crowded(service):
    for schedule_id, cron, zone in [
        ("a.one", "0 2 * * *", "UTC"),
        ("a.two", "0 2 * * *", "UTC"),
        ("b.three", "0 3 * * *", "Europe/Berlin"),
        ("c.four", "*/30 * * * *", "UTC"),
    ]:
        service.upsert(schedule_id=schedule_id, cron_expr=cron, timezone=zone)
    service.upsert(schedule_id="a.two", cron_expr="0 2 * * *", catchup_policy="latest")
    return service


def test_a_minute_lists_the_schedules_that_fire_in_it(crowded):
    shown = page(crowded, "/ui/calendar?day=2026-03-03&at=02:00")
    assert "4 ticks, of 4 schedules." in shown.text
    rows = "a.one and 1 more At 02:00, every day, UTC 2 b.three At 03:00, every day, in Berlin 1 c.four"
    assert rows in shown.text
    assert "/ui/schedules/a.one" in shown.links
    assert "To spread them: the quietest minutes of this hour are 02:01 (0), 02:02 (0)" in shown.text
    assert "0 ticks." in page(crowded, "/ui/calendar?day=2026-03-03&at=02:01").text


def test_the_fullest_minutes_are_links_to_what_fires_in_them(crowded):
    shown = page(crowded, "/ui/calendar?day=2026-03-03&hours=5")
    cell = "/ui/calendar?view=day&day=2026-03-03&down=02%3A00&hours=5&at=2026-03-03T02%3A00#at"
    assert shown.links.count(cell) == 2, "in the drawing and in the table"
    assert "02:00 4 00:00 1 00:30 1 01:00 1" in shown.text
    assert len([link for link in shown.links if "&at=" in link]) == 2 * 20
    followed = page(crowded, cell)
    assert "4 ticks, of 4 schedules." in followed.text
    assert 'name="hours" value="5"' in followed.answer.text


def test_a_week_has_a_cell_for_each_hour(crowded):
    shown = page(crowded, "/ui/calendar?view=week&day=2026-03-03")
    assert "Seven days from Tuesday 3 March 2026, UTC" in shown.text
    assert f"{7 * (3 + 48)} ticks" in shown.text
    assert "Tue 3, 02:00 5 Wed 4, 02:00 5" in shown.text
    assert legend(shown.answer.text, "wide") == legend(shown.answer.text, "narrow")
    hour = page(crowded, "/ui/calendar?view=week&day=2026-03-03&at=2026-03-05T02:00")
    assert "Thu 5 Mar 02:00 UTC, an hour" in hour.text
    assert "5 ticks, of 4 schedules." in hour.text
    assert "/ui/calendar?view=week&day=2026-03-10" in hour.links


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("down=2am", "'2am' is not known; write a time of day, such as 02:00"),
        ("hours=all", "'all' is not known; write a number of hours, at most 168"),
        ("hours=nan", "'nan' is not known; write a number of hours, at most 168"),
        ("at=soon", "'soon' is not known; write a time of day, such as 02:00"),
        ("day=9999-12-31", "'9999-12-31' is not known; write a day, such as 2026-03-02. Today is shown."),
        ("day=yesterday", "'yesterday' is not known; write a day, such as 2026-03-02. Today is shown."),
    ],
)
def test_what_cannot_be_read_keeps_the_page_and_says_what_to_write(service, query, said):
    service.upsert()
    shown = page(service, f"/ui/calendar?{query}", 422)
    assert said in shown.text
    assert "What if it is down?" in shown.text


def test_a_query_is_read_with_the_usual_values_where_it_has_none():
    asked = read(CalendarQuery(), NOW)
    assert (asked.view, asked.day, asked.at, asked.hours, asked.wrong) == (
        "day",
        date(2026, 3, 2),
        None,
        3,
        {},
    )
    assert asked.start == datetime(2026, 3, 2, 2, tzinfo=UTC)
    asked = read(CalendarQuery(day="2026-03-05", at="7:05", down="23:30", hours="1.5"), NOW)
    assert asked.at == datetime(2026, 3, 5, 7, 5, tzinfo=UTC)
    assert asked.href() == "/ui/calendar?view=day&day=2026-03-05&down=23%3A30&hours=1.5"


def test_a_calendar_at_the_ends_of_what_can_be_asked_is_shown(service):
    service.upsert()
    for query in ("day=1970-01-02", "day=9000-01-01&view=week&hours=168&at=23:59"):
        page(service, f"/ui/calendar?{query}")


def test_a_year_has_the_ticks_of_each_day_and_leads_to_its_days(crowded):
    crowded.upsert(schedule_id="yearly", cron_expr="0 0 24 12 *")
    found = page(crowded, "/ui/calendar?view=year&day=2026-03-02")
    assert "A year from Monday 2 March 2026, UTC 18,616 ticks" in found.text
    assert "Ticks a day a row is a weekday, a column a week" in found.text
    assert "Day Ticks Thu 24 Dec 2026 52 Mon 2 Mar 2026 51" in found.text
    assert "/ui/calendar?view=day&day=2026-12-24" in found.links
    assert "/ui/calendar?view=year&day=2027-03-02" in found.links
    assert drawn(found.answer.text, "wide") == drawn(found.answer.text, "narrow") == {"load1"}
    assert legend(found.answer.text, "wide")["load5"] == "11,600 and more"
    assert len(found.answer.content) < 64 * 1024


@pytest.mark.parametrize("day", ["1970-01-02", "8999-12-31"])
def test_a_year_at_either_end_of_the_calendar_is_shown(crowded, day):
    assert "Ticks a day" in page(crowded, f"/ui/calendar?view=year&day={day}").text


@pytest.mark.parametrize(
    ("asked", "ticks"),
    [("q=a.", 2), ("q=three", 1), ("q=team=ops", 48), ("q=user:ada", 51), ("q=none", 0), ("q=user:eve", 0)],
)
@pytest.mark.parametrize("view", ["day", "week", "year"])
def test_only_the_schedules_of_a_filter_are_counted(crowded, asked, ticks, view):
    crowded.upsert(schedule_id="c.four", cron_expr="*/30 * * * *", labels={"team": "ops"})
    crowded.upsert(schedule_id="a.paused", cron_expr="* * * * *", paused=True)
    found = page(crowded, f"/ui/calendar?view={view}&day=2026-03-03&at=02:00&{asked}")
    number = ticks * {"day": 1, "week": 7, "year": 365}[view]
    assert f"UTC {number:,} tick{'s' * (number != 1)} counted" in found.text
    assert "Only the schedules that match" in found.text
    quoted = asked.replace("=team=", "=team%3D").replace("user:", "user%3A")
    assert f"/ui/calendar?view={view}&{quoted}&day=2026-03-04" in found.links or view != "day"
