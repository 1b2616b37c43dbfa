"""Texts that others wrote are shown as texts: no markup of theirs reaches a page, whatever field they use."""

from __future__ import annotations

import asyncio

import pytest
from tests.web.pages.html import page

from dutiful.core.changes import Changes, Put

TEXTS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</title><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; &#x3c;b>",
    "\u05e9\u05dc\u05d5\u05dd <b>",
]
OWN = {
    "a", "aside", "b", "bdi", "body", "br", "button", "circle", "code", "datalist", "dd", "del", "details",
    "div", "dl", "dt", "fieldset", "footer", "form", "g", "h1", "h2", "h3", "head", "header", "html",
    "input", "ins", "kbd", "label", "legend", "li", "line", "link", "main", "marker", "meta", "nav",
    "ol", "option", "p", "path", "pre", "q", "rect", "script", "section", "select", "small", "span",
    "strong", "summary", "svg", "symbol", "table", "tbody", "td", "text", "th", "thead", "time",
    "title", "tr", "ul", "use",
}  # fmt: skip


@pytest.fixture
def hostile(service):
    for number, text in enumerate(TEXTS):
        service.put(f"/workflows/w{number}/1", {"fail": text})
        labels = {"team": text[:60], "note": text[::-1][:60]}
        given = {"user_id": text, "labels": labels, "input": {"text": text}, "cron_expr": "*/5 * * * *"}
        service.upsert(schedule_id=f"s{number}", workflow_id=f"w{number}", **given)
    service.advance(900)
    for number, text in enumerate(TEXTS):
        service.post("/schedules/pause", {"schedule_id": f"s{number}", "paused": True, "note": text})
    return service


def pages_of(service):
    for number in range(len(TEXTS)):
        here = f"/ui/schedules/s{number}"
        run = service.get(f"/schedules/s{number}/runs")["runs"][-1]["idempotency_key"]
        yield from (here, f"{here}?at={run}", f"{here}?done=%3Cscript%3E", f"/ui/runs/{run}")
        yield from (f"{here}/{action}" for action in ("edit", "pause", "run", "backfill", "delete"))
    yield from ("/", "/ui/schedules", "/ui/schedules?q=%3Cscript%3E", "/ui/runs", "/ui/runs?view=each")
    yield from ("/ui/why?schedule=s0&at=%3Cscript%3E", "/ui/cron?e=%3Cscript%3E&tz=%3Cimg%3E", "/ui/system")
    yield from ("/ui/runs?schedule=%3Cscript%3E", "/ui/runs/again?status=FAILED&line=%3Cimg+src=x%3E")
    yield from ("/ui/schedules?q=team=%3Cb%3E", "/ui/schedules/pause-many?q=team=%22%3E%3Cimg+src=x%3E")


def test_no_field_brings_markup_into_a_page(hostile):
    wrong = {}
    for path in pages_of(hostile):
        shown = page(hostile, path)
        scripts = [own for own in shown.all("script") if not own.get("src", "").startswith("/static/ui.js?")]
        events = [(tag, name) for tag, own in shown.elements for name in own if name.startswith("on")]
        links = [link for link in shown.links if link and not link.startswith(("/", "#", "?"))]
        foreign = {tag for tag, _ in shown.elements} - OWN
        if scripts or events or links or foreign:
            wrong[path] = scripts, events, links, foreign
    assert wrong == {}


def test_the_texts_are_there_as_they_were_written(hostile):
    for number, text in enumerate(TEXTS):
        shown = page(hostile, f"/ui/schedules/s{number}")
        assert text in "".join(shown.words), text
        # A text that turns the writing direction around turns only itself around.
        assert shown.all("bdi")


def test_a_reason_of_quarantine_is_a_text_too(hostile):
    async def set_aside():
        known = await hostile.service._store.get("s0")
        state = known.state._replace(quarantine=TEXTS[1])
        await hostile.service._store.apply(Changes([Put(known.schedule, state, None, known.version)]))

    asyncio.run_coroutine_threadsafe(set_aside(), hostile.loop).result(60)
    for path in ("/", "/ui/schedules/s0"):
        shown = page(hostile, path)
        assert shown.all("img") == []
        assert TEXTS[1] in "".join(shown.words)
