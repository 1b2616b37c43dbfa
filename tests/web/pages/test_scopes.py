"""What a caller may not do is shown as such: the control is there, leads nowhere, and names the scope."""

from __future__ import annotations

import re

import pytest
from tests.web.pages.test_login import environ, token
from tests.web.running import SCHEDULE, running


@pytest.fixture
def guarded(tmp_path):
    with running(tmp_path, **environ(tmp_path)) as service:
        service.client.headers["Authorization"] = f"Bearer {token()}"
        service.upsert(**SCHEDULE)
        yield service


def shown(service, path, scope):
    return service.client.get(path, headers={"Authorization": f"Bearer {token(scope=scope)}"}).text


def disabled(html):
    return re.findall(r'<a[^>]* aria-disabled="true"[^>]*>(?:<svg.*?</svg>)?\s*([^<]+)', html, re.DOTALL)


@pytest.mark.parametrize(
    ("scope", "links", "said"),
    [
        (
            "read",
            [],
            ["Run now and Backfill need the scope trigger.", "Pause, Edit and Delete need the scope write."],
        ),
        ("read trigger", ["run", "backfill"], ["Pause, Edit and Delete need the scope write."]),
        ("read write trigger", ["run", "pause", "backfill", "edit"], []),
    ],
)
def test_the_actions_of_a_schedule_name_the_scope_that_is_missing(guarded, scope, links, said):
    html = shown(guarded, "/ui/schedules/nightly", scope)
    head = html[html.index('<div class="actions">') :].partition("<dl")[0]
    assert re.findall(r'href="/ui/schedules/nightly/(\w+)"', head) == links
    assert re.findall(r'<p class="muted" id="needs-\w+">([^<]+)</p>', head) == said
    assert len(disabled(head)) == 4 - len(links)
    assert ('href="/ui/schedules/nightly/delete"' in html) is ("edit" in links)


@pytest.mark.parametrize("path", ["/", "/ui/schedules/nightly", "/ui/more"])
def test_the_pages_for_admins_are_named_and_lead_nowhere_for_others(guarded, path):
    html = shown(guarded, path, "read write trigger")
    assert 'href="/ui/audit"' not in html
    assert 'href="/ui/system"' not in html
    assert disabled(html)[:1] == ["Audit"]
    assert "needs the scope admin" in html


def test_admins_have_the_links(guarded):
    html = shown(guarded, "/ui/more", "read admin")
    assert html.count('href="/ui/audit"') == html.count('href="/ui/system"') == 2
    assert disabled(html) == []
