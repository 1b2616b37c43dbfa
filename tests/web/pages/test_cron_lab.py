"""The cron lab: a text without a schedule, beside another text and beside what is stored."""

from __future__ import annotations

from tests.web.pages.html import page

NEW_YORK = "tz=America/New_York"


def test_two_texts_are_compared_by_their_fire_times(service):
    shown = page(service, f"/ui/cron?e=45+9+*+*+1-5&{NEW_YORK}&than=30+9+*+*+*")
    assert "The difference in the next year Fire times 365 → 261 move 261 go 104 come 0" in shown.text
    assert "Day That text This text Change Mon 2 Mar 09:30 09:45 +15 min" in shown.text
    assert "At 09:30, every day, in New York" in shown.text
    assert "The year from today" not in shown.text


def test_a_text_alone_has_no_difference(service):
    shown = page(service, f"/ui/cron?e=45+9+*+*+1-5&{NEW_YORK}")
    assert "The difference" not in shown.text
    assert "The year from today 261 fire times" in shown.text


def test_a_second_text_that_is_refused_is_said_at_its_field(service):
    shown = page(service, "/ui/cron?e=45+9+*+*+*&than=61+9+*+*+*")
    [own] = [each for each in shown.all("input") if each["name"] == "than"]
    assert (own["aria-invalid"], own["aria-describedby"]) == ("true", "e-than")
    assert "minute field must be 0-59, not 61" in shown.text
    assert "The difference" not in shown.text


def test_the_load_of_the_next_fire_time_is_shown_and_leads_to_its_minute(service):
    service.upsert(schedule_id="a", cron_expr="45 9 * * *")
    service.upsert(schedule_id="b", cron_expr="45 9 * * *")
    shown = page(service, "/ui/cron?e=45+9+*+*+*")
    assert "2 ticks of the stored schedules at 09:45." in shown.text
    [minute] = [link for link in shown.links if link.startswith("/ui/calendar?day")]
    assert "2 ticks, of 2 schedules." in page(service, minute).text


def test_links_keep_the_zone_and_the_other_text(service):
    shown = page(service, f"/ui/cron?e=*/5+*+*+*+*&{NEW_YORK}&dialect=posix&than=0+2+*+*+*")
    kept = "tz=America%2FNew_York"
    assert f"/ui/cron?e=0+%2A+%2A+%2A+%2A&{kept}&than=0+2+%2A+%2A+%2A" in shown.links
    assert f"/ui/cron?e=%2A%2F5+%2A+%2A+%2A+%2A&{kept}&dialect=standard&than=0+2+%2A+%2A+%2A" in shown.links
