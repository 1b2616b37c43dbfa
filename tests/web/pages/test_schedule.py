"""The page of one schedule: is it well, when next, what became of each tick, and why."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from tests.web.pages.html import page
from tests.web.running import SCHEDULE, running

from dutiful.core.cron.cron import Cron
from dutiful.web.pages.ledger_entries import tick_of, ticks_of
from dutiful.web.pages.schedule_timeline import Timeline, draw, pauses_of

DAY = timedelta(days=1)
MONDAY_NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.fixture
def minutely(service):
    service.upsert(schedule_id="good", cron_expr="* * * * *", labels={"team": "ops"})
    service.advance(301)
    return service


def answer_of(service, question):
    """Return what the registrar answers in the loop of the service."""
    return asyncio.run_coroutine_threadsafe(question, service.loop).result(60)


def view_of(service):
    return answer_of(service, service.service.registrar.get_schedule("good"))


def runs_of(service):
    return answer_of(service, service.service.registrar.runs("good", 1000)).items


def test_it_says_when_it_runs_next_and_what_became_of_the_last_tick(minutely):
    text = page(minutely, "/ui/schedules/good").text
    assert "good Last run succeeded" in text
    assert "Every minute, UTC * * * * *" in text
    assert "Next Today 09:06 Mon 2 Mar, UTC, in 59 s" in text
    assert "Last Today 09:05 ran, 1 s ago" in text
    assert "5 due, 5 accounted for 5 ran, 0 failed, 0 skipped" in text


def test_quiet_entries_are_one_row_and_can_be_unfolded(minutely):
    folded = page(minutely, "/ui/schedules/good")
    assert "Mon 2 Mar 09:01 to 09:05 5 ran" in folded.text
    whole = page(minutely, "/ui/schedules/good?entries=all")
    assert "Mon 2 Mar 09:05 ran" in whole.text
    assert "All 5" in whole.text


def test_the_newest_tick_is_explained_without_being_asked(minutely):
    found = page(minutely, "/ui/schedules/good")
    assert "Why? Mon 2 Mar 09:05 SUCCESS" in found.text
    assert "It was due and it was launched 0 ms after its time. It ran and succeeded." in found.text
    assert "Executor took it: yes" in found.text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("2026-03-02+09:03", "SUCCESS"),
        ("today+09:03", "SUCCESS"),
        ("yesterday+09:03", "NO ENTRY unrecorded"),
        ("tomorrow+09:03", "TO COME It is due and will fire at Tue 3 Mar 09:03 UTC."),
        ("2026-03-02T09:03:00Z", "SUCCESS"),
        ("soon", "That is not a time that can be read: write a time such as 2026-11-01 01:30"),
        ("2026-13-02+09:03", "There is no such time"),
    ],
)
def test_any_time_can_be_asked_about(minutely, asked, said):
    assert said in page(minutely, f"/ui/schedules/good?at={asked}").text


def test_a_tick_to_come_is_shown_in_the_zone_of_its_schedule(service):
    service.upsert(schedule_id="night", cron_expr="30 2 * * *", timezone="America/New_York")
    text = page(service, "/ui/schedules/night?at=2026-03-09+02:30").text
    assert "It is due and will fire at Mon 9 Mar 02:30 UTC−4." in text


def test_a_wall_time_that_the_clock_skips_is_named(service):
    service.upsert(schedule_id="night", cron_expr="30 2 * * *", timezone="America/New_York", gap="skip")
    text = page(service, "/ui/schedules/night?at=2026-03-08+02:30").text
    assert "NO TICK dst_gap The clock jumps over that time on that day. Decided by gap=skip." in text
    assert "Sun 8 March: clocks go from 02:00 to 03:00; ticks are touched, decided by gap=skip" in text


def test_a_pause_is_shown_with_its_note_and_its_age(minutely):
    minutely.post("/schedules/pause", {"schedule_id": "good", "paused": True, "note": "index moves, ask Ada"})
    minutely.advance(3600)
    text = page(minutely, "/ui/schedules/good").text
    assert "Paused by local since Mon 2 Mar 09:05:01 UTC, 1 h ago index moves, ask Ada" in text
    assert "skipped paused" in text


def test_an_edit_does_not_make_a_pause_younger(minutely):
    minutely.post("/schedules/pause", {"schedule_id": "good", "paused": True, "note": "index moves"})
    minutely.advance(3600)
    minutely.upsert(schedule_id="good", cron_expr="*/2 * * * *")
    text = page(minutely, "/ui/schedules/good").text
    assert "Paused by local since Mon 2 Mar 09:05:01 UTC, 1 h ago index moves" in text


def test_the_setting_that_decided_leads_to_where_it_is_changed(minutely):
    minutely.upsert(schedule_id="night", cron_expr="30 2 * * *", timezone="America/New_York", gap="skip")
    skipped = page(minutely, "/ui/schedules/night?at=2026-03-08+02:30").answer.text
    assert 'Decided by <a href="/ui/schedules/night/edit"><code>gap=skip</code></a>.' in skipped
    minutely.post("/schedules/pause", {"schedule_id": "good", "paused": True, "note": "moves"})
    minutely.advance(120)
    paused = page(minutely, "/ui/schedules/good").answer.text
    assert 'Decided by <a href="/ui/schedules/good/pause"><code>paused=True</code></a>.' in paused


@pytest.mark.parametrize("at", ["2026-03-02T09:03:00Z", "2026-03-02T09:03:40Z", "today 09:03"])
def test_an_answer_leads_to_the_ticks_before_and_after(minutely, at):
    found = page(minutely, f"/ui/why?schedule=good&at={at}")
    assert "The tick before: Mon 2 Mar 09:02 · The tick after: Mon 2 Mar 09:04" in found.text
    assert "/ui/why?schedule=good&at=2026-03-02T09%3A02%3A00Z" in found.links


def test_a_schedule_that_never_fired_says_so(service):
    service.upsert()
    text = page(service, "/ui/schedules/nightly").text
    assert "Has not fired yet" in text
    assert "No tick has passed in this time." in text


def test_many_ticks_become_bars(service):
    service.upsert(schedule_id="fast", cron_expr="* * * * *")
    service.advance(60 * 200)
    found = page(service, "/ui/schedules/fast?range=24h")
    assert "200 due, 200 accounted for" in found.text
    assert found.answer.text.count("<a ") < 300


def test_an_unknown_schedule_is_an_error_page(service):
    found = page(service, "/ui/schedules/nowhere", 404)
    assert 'There is no schedule "nowhere"' in found.text
    assert "unknown_schedule" in found.text


def test_the_range_is_chosen_by_the_cadence(service):
    for name, cron, chosen in [
        ("m", "* * * * *", "1 h"),
        ("h", "0 * * * *", "24 h"),
        ("d", "0 9 * * *", "30 d"),
        ("w", "0 9 * * 1", "1 y"),
    ]:
        service.upsert(schedule_id=name, cron_expr=cron)
        html = page(service, f"/ui/schedules/{name}").answer.text
        assert f'aria-current="true">{chosen}</a>' in html


def test_a_chosen_tick_keeps_the_range_and_the_entries(minutely):
    here = "/ui/schedules/good?range=24h&at=today%2009%3A03&entries=all"
    found = page(minutely, here)
    chosen = [link for link in found.links if link.endswith("#why")]
    assert "?at=2026-03-02T09%3A05%3A00Z&range=24h&entries=all#why" in chosen
    assert [link for link in chosen if not link.endswith("Z&range=24h&entries=all#why")] == []
    assert "?range=7d&at=today%2009%3A03&entries=all" in found.links
    assert "?range=24h&at=today%2009%3A03" in found.links
    hidden = [(own["name"], own["value"]) for own in found.all("input") if own.get("type") == "hidden"]
    assert hidden == [("range", "24h"), ("entries", "all")]


@pytest.mark.parametrize("entries", ["&entries=all", ""])
def test_a_long_ledger_has_pages_that_show_each_entry_once(service, entries):
    # Every second run is by hand, so that nothing folds.
    service.upsert(schedule_id="fast", cron_expr="* * * * *")
    service.advance(30)
    for _ in range(40):
        service.post("/schedules/fast/trigger", {})
        service.advance(60)
    shown, path, pages = [], f"/ui/schedules/fast?range=24h{entries}", 0
    while path is not None:
        html = service.client.get(path).text
        shown += re.findall(r'<td><a class="id"[^>]*><time datetime="([^"]+)"', html)
        more = re.search(r'<a href="([^"]+)#ledger" rel="next">', html)
        path, pages = more and f"/ui/schedules/fast{unescape(more[1])}", pages + 1
    told = [run["run_at"] for run in service.get("/schedules/fast/runs", limit=100)["runs"]]
    assert (shown, pages) == (told, 6)


def test_a_busy_schedule_stays_within_the_budget_of_a_page(service):
    service.put("/workflows/report/2", {"fail": "disk full, and more to say of it " * 10})
    service.upsert(schedule_id="fast", cron_expr="* * * * *", version=2)
    service.advance(60 * 90)
    for query in ("?range=1h", "?range=1h&entries=all", "?range=24h&entries=all"):
        found = page(service, f"/ui/schedules/fast{query}")
        assert len(found.answer.content) <= 64 * 1024, query
        assert len(found.elements) <= 1500, query


def test_a_cursor_that_no_page_has_given_is_refused(minutely):
    assert "cursor" in page(minutely, "/ui/schedules/good?cursor=x", 422).text


def test_the_changes_of_a_schedule_are_its_lines_of_the_audit_file(tmp_path):
    with running(tmp_path, DUTIFUL_AUDIT_LOG=f"{tmp_path}/audit.jsonl") as service:
        service.upsert(schedule_id="good")
        service.post("/schedules/bulk", [{**SCHEDULE, "schedule_id": name} for name in ("good", "good.too")])
        service.post("/schedules/pause", {"schedule_id": "good", "paused": True, "note": "index moves"})
        service.post("/schedules/pause", {"schedule_id": "good.too", "paused": True, "note": "of another"})
        text = page(service, "/ui/schedules/good").text
        changes = text[text.index("Changes newest first") :].partition(" dutiful 0.")[0]
    assert changes == (
        "Changes newest first, UTC Audit 09:00 local paused good index moves"
        " 09:00 local stored good · what changed in good 09:00 local stored good · what changed in good"
    )


def test_without_an_audit_file_there_are_no_changes_to_show(minutely):
    assert "Changes newest first" not in page(minutely, "/ui/schedules/good").text


def test_a_pause_is_a_hatched_band_in_the_strip_from_its_beginning_on(minutely):
    minutely.post("/schedules/pause", {"schedule_id": "good", "paused": True, "note": "index moves"})
    minutely.advance(300)
    view, end = view_of(minutely), MONDAY_NINE + timedelta(hours=2)
    assert pauses_of(view, [], end) == [(MONDAY_NINE + timedelta(seconds=301), end)]
    assert page(minutely, "/ui/schedules/good").answer.text.count('class="hatch"') == 2
    minutely.post("/schedules/pause", {"schedule_id": "good", "paused": False})
    runs = runs_of(minutely)
    assert pauses_of(view_of(minutely), runs, end) == [
        (MONDAY_NINE + timedelta(minutes=6), MONDAY_NINE + timedelta(minutes=10))
    ]


@pytest.mark.parametrize(
    ("minutes", "to_come"), [(None, 0), (3, 2)], ids=["until it is resumed", "until an instant"]
)
def test_after_the_end_of_a_pause_ticks_are_to_come(minutely, minutes, to_come):
    now = MONDAY_NINE + timedelta(minutes=5)
    end = None if minutes is None else now + timedelta(minutes=minutes)
    view = dataclasses.replace(view_of(minutely), paused=True, paused_at=now, pause_until=end)
    fires = [now + timedelta(minutes=minute) for minute in (1, 2, 3, 4)]
    timeline = Timeline(view, [], fires, now, lambda _: "?")
    assert draw(timeline, timedelta(hours=1), "wide").svg.count('class="come"') == to_come
    last = now + timedelta(hours=1)
    assert pauses_of(view, [], last) == [(now, last if end is None else end)]
    bars = draw(timeline, 2 * DAY, "wide").svg
    assert ('class="comebar"' in bars) is (end is not None)


def test_the_line_of_a_schedule_that_is_set_aside_ends(minutely):
    view = dataclasses.replace(view_of(minutely), quarantine="no such zone")
    now = MONDAY_NINE + timedelta(minutes=5)
    timeline = Timeline(view, runs_of(minutely), [now + timedelta(minutes=1)], now, lambda _: "?")
    drawn = draw(timeline, timedelta(hours=1), "wide").svg
    assert "set aside" in drawn
    assert 'class="come"' not in drawn


def test_ticks_that_would_touch_are_bars_however_few_of_them_are_recorded(minutely):
    now = MONDAY_NINE + timedelta(minutes=5)
    timeline = Timeline(view_of(minutely), runs_of(minutely), [], now, lambda _: "?")
    drawn = [draw(timeline, back, "wide") for back in (timedelta(hours=1), DAY)]
    assert ["<title>Mon 2 Mar 09:05: ran</title>" in each.svg for each in drawn] == [True, False]
    assert [each.counts for each in drawn] == [False, True]


def test_the_legend_says_what_a_taller_bar_means(minutely):
    def said(span):
        return page(minutely, f"/ui/schedules/good?range={span}").text

    assert "ran, taller is longer ran, taller is longer failed" in said("1h")
    assert "ran, taller is more ran, taller is more failed" in said("24h")


def test_the_row_with_the_chosen_tick_is_marked(minutely):
    minutely.post("/schedules/pause", {"schedule_id": "good", "paused": True, "note": "index moves"})
    minutely.advance(300)
    minutely.post("/schedules/pause", {"schedule_id": "good", "paused": False})
    html = page(minutely, "/ui/schedules/good?at=today+09:08").answer.text
    [row] = re.findall(r'<tr class="[a-z ]*\bon">.*?</tr>', html)
    assert "5 skipped" in row


@pytest.mark.parametrize(
    ("text", "is_expanded"),
    [("* * * * *", True), ("* * * * * *", False), ("30 * * * * *", False), ("*/2 * * * *", False),
     ("0 0 29 2 *", False)],
)  # fmt: skip
def test_a_stretch_is_drawn_tick_by_tick_only_where_the_cron_still_has_these_ticks(
    service, text, is_expanded
):
    """An edit may have replaced the cron under which the ticks were skipped."""
    service.upsert(schedule_id="good", cron_expr="* * * * *")
    service.post("/schedules/pause", {"schedule_id": "good", "paused": True})
    service.advance(30 * 60 + 1)
    service.post("/schedules/pause", {"schedule_id": "good", "paused": False})
    [stretch] = runs_of(service)
    drawn = [*ticks_of([stretch], Cron.parse(text, "seconds" if text.count(" ") == 5 else "standard"))]
    minutes = [MONDAY_NINE + timedelta(minutes=number) for number in range(1, 31)]
    one_by_one = [tick_of(stretch)._replace(at=at, until=None, ticks=1) for at in minutes]
    assert drawn == (one_by_one if is_expanded else [tick_of(stretch)])


def test_a_schedule_whose_runs_would_fail_says_so_until_its_workflow_is_stored(service):
    service.upsert(workflow_id="raport")
    said = "Its runs would fail The workflow is not stored: runs fail with unknown_workflow until PUT"
    assert said in page(service, "/ui/schedules/nightly").text
    service.put("/workflows/raport/1", {})
    assert said not in page(service, "/ui/schedules/nightly").text
