"""The overview page: readable without script, and harmless whatever it shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from tests.web.running import SCHEDULE

from dutiful.web.pages import _distance

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


class Elements(HTMLParser):
    """Collects the elements and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page(service):
    answer = service.client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    return answer, Elements(answer.text)


def text_of(elements):
    return " ".join(" ".join(elements.words).split())


def test_an_empty_service_says_so(service):
    _, elements = page(service)
    text = text_of(elements)
    assert "Working" in text
    assert "None of the latest runs failed." in text
    assert "Nothing is due." in text
    assert "Nothing has fired yet." in text


def test_it_shows_what_fired_what_failed_and_what_is_next(service):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    service.upsert(schedule_id="good", cron_expr="* * * * *")
    service.upsert(schedule_id="bad", cron_expr="* * * * *", workflow_id="broken")
    service.advance(61)
    text = text_of(page(service)[1])
    assert re.search(r"Failed .*2026-03-02 09:01:00 UTC bad 1 task_failed ?RuntimeError: no such table", text)
    assert "2026-03-02 09:02:00 UTC in 59 s good * * * * * UTC report 1" in text
    assert "2026-03-02 09:01:00 UTC good SUCCESS" in text


def test_schedules_beyond_the_first_page_are_a_link_away(service):
    many = [{**SCHEDULE, "schedule_id": f"s{number:04}"} for number in range(1001)]
    service.post("/schedules/bulk", many)
    _, first = page(service)
    assert "1000 schedules on this page, 0 paused." in text_of(first)
    [link] = [attributes["href"] for attributes in first.all("a") if attributes.get("rel") == "next"]
    second = Elements(service.client.get(link).text)
    assert "1 schedules on this page, 0 paused. First page" in text_of(second)
    assert "Next of this page" in text_of(second)
    assert "s1000" in text_of(second)


def test_failures_that_are_not_shown_are_counted(service):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    many = [
        {**SCHEDULE, "schedule_id": f"s{number}", "workflow_id": "broken", "cron_expr": "* * * * *"}
        for number in range(25)
    ]
    service.post("/schedules/bulk", many)
    service.advance(61)
    assert "And 5 more of the latest 1000 runs." in text_of(page(service)[1])


def test_a_cursor_that_is_none_is_refused(service):
    assert service.client.get("/", params={"cursor": "x"}).status_code == 422


def test_every_instant_is_a_time_element(service):
    service.upsert()
    answer, elements = page(service)
    outside = re.sub(r"<time[^>]*>[^<]*</time>", "", answer.text)
    assert not re.search(r"\d{4}-\d\d-\d\d", outside)
    times = {attributes["datetime"] for attributes in elements.all("time")}
    assert {"2026-03-02T09:00:00Z", "2026-03-02T09:30:00Z"} <= times


def test_there_is_no_script_and_nothing_from_elsewhere(service):
    answer, elements = page(service)
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert elements.all("script") == []
    assert "style=" not in answer.text
    assert not [a for _, attributes in elements.elements for a in attributes if a.startswith("on")]
    links = [a.get("href") or a.get("src") for _, a in elements.elements if "href" in a or "src" in a]
    assert [link for link in links if not link.startswith("/")] == []
    for link in links:
        assert service.client.get(link).status_code == 200, link


def test_hostile_texts_are_shown_and_do_nothing(service):
    service.put("/workflows/broken/1", {"fail": HOSTILE})
    service.upsert(cron_expr="* * * * *", workflow_id="broken", labels={"team": HOSTILE})
    service.post("/schedules/pause", {"schedule_id": "nightly", "paused": False, "note": HOSTILE})
    service.advance(61)
    _, elements = page(service)
    assert elements.all("script") == elements.all("img") == []
    assert HOSTILE in text_of(elements)


def test_the_style_is_served_with_its_type(service):
    answer = service.client.get("/static/overview.css")
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "prefers-color-scheme: dark" in answer.text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s ago"),
        (1, "in 1 s"),
        (-59, "59 s ago"),
        (60, "in 1 min"),
        (3661, "in 1 h 1 min"),
        (-90_000, "1 d 1 h ago"),
        (86_400, "in 1 d"),
    ],
)
def test_a_distance_has_its_two_largest_units(seconds, words):
    now = datetime(2026, 3, 2, tzinfo=UTC)
    assert _distance(now + timedelta(seconds=seconds), now) == words
