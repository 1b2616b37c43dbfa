"""Texts that others wrote, in a real browser: none of them runs, on a page, in a refresh or in a preview."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import sys
from urllib.parse import urlencode

import pytest
from tests.web.running import running
from tests.web.test_fleet_page import serving

from dutiful.core.changes import Changes, Put
from dutiful.core.plan.outcome import Accepted, Failed
from dutiful.httpd.audit import AuditLog
from dutiful.process.output_log import OutputFolder

# Leaves every place that a text may stand in: attributes, titles, fields, scripts, styles, comments.
MARKUP = (
    "'\"></title></textarea></style></script>--><script>console.log(1)</script>"
    "<img src=x onerror=console.log(2)><svg onload=console.log(3)>"
)
SHORT = "\"'><img src=x onerror=console.log(4)>"
UNQUOTED = "'><img src=x onerror=console.log(6)>"
LINK = "javascript:console.log(5)"
# Returns the texts of the page, also those in its fields, and where its links, forms and pictures lead.
SHOWN = """() => [
  document.title + document.body.textContent
    + [...document.querySelectorAll("input, textarea")].map(field => field.value).join(" "),
  [...document.querySelectorAll("[href], [src], [action]")]
    .map(each => new URL(each.getAttribute("href") ?? each.getAttribute("src") ?? each.getAttribute("action"),
      location).origin)
    .filter(origin => origin !== location.origin),
]"""


def hostile(field, markup=MARKUP):
    """Return a text that runs wherever it is taken for markup, and names the field that it came by."""
    return f"by-{field}-{markup}"


class Hostile:
    """An executor that takes runs under a hostile id, or fails with a hostile error."""

    def __init__(self, _clock):
        pass

    async def run(self, dag, _meta):
        return Accepted(hostile("run-id", SHORT)) if dag["takes"] else Failed(hostile("detail"))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    files = {
        "DUTIFUL_AUDIT_LOG": str(folder / hostile("setting", SHORT)),
        "DUTIFUL_OUTPUT_DIR": str(folder / "outputs"),
    }
    with running(folder, executor=Hostile, **files) as it:
        _fill(it, folder)
        _audit(AuditLog(it.clock, files["DUTIFUL_AUDIT_LOG"]))
        yield it


def _fill(it, folder):
    for name, takes in (("works", True), ("fails", False)):
        it.put(f"/workflows/{name}/1", {"takes": takes})
        labels = {"team": hostile("label"), "link": LINK}
        given = {"user_id": hostile("user"), "labels": labels, "cron_expr": "*/5 * * * *"}
        it.upsert(schedule_id=name, workflow_id=name, **given)
    it.upsert(schedule_id="aside", workflow_id="works")
    it.upsert(schedule_id="damaged", workflow_id="works")
    it.advance(900)
    it.post("/schedules/pause", {"schedule_id": "fails", "paused": True, "note": hostile("note")})
    asyncio.run_coroutine_threadsafe(_set_aside(it.service._store), it.loop).result(60)
    with sqlite3.connect(folder / "service.db") as connection:
        connection.execute("UPDATE declarations SET damage = ? WHERE id = 'damaged'", (hostile("damage"),))
    connection.close()
    output = OutputFolder(folder / "outputs").open(key_of(it, "fails"))
    output.write(hostile("output").encode())
    output.close()


async def _set_aside(store):
    known = await store.get("aside")
    state = known.state._replace(quarantine=hostile("quarantine"))
    await store.apply(Changes([Put(known.schedule, state, None, known.version)]))


def _audit(log):
    """Write changes in which every text is hostile, beside those of the service."""
    who, action, note = hostile("who"), hostile("action", UNQUOTED), {"note": hostile("audit-note")}
    given = {"labels": {"team": hostile("audit-given")}}
    log.intend("1", who, action, [{**note, "workflow_id": hostile("audit-workflow")}])
    log.intend("2", who, action, [{**note, "schedule_id": hostile("audit-id"), "given": given}])
    log.close()


def key_of(it, schedule_id):
    return it.get(f"/schedules/{schedule_id}/runs")["runs"][-1]["idempotency_key"]


def pages_of(it):
    """Return every page that shows a text of somebody else, or one from its own address."""

    def asked(path, **query):
        return f"{path}?{urlencode(query)}"

    here = "/ui/schedules/fails"
    change = re.search(r"/ui/audit\?line=\d+", it.client.get("/ui/audit").text)[0]
    return [
        "/", "/ui/runs", "/ui/runs?view=each", "/ui/audit", change, "/ui/system", "/ui/schedules/aside",
        "/ui/schedules/damaged", "/ui/schedules/works", "/ui/calendar?down=%3Cscript%3E",
        here, *(f"{here}/{action}" for action in ("run", "pause", "backfill", "delete")),
        *(f"/ui/runs/{key_of(it, name)}" for name in ("works", "fails")),
        asked(here, at=hostile("at", SHORT)), asked(here, done=hostile("done")),
        asked("/ui/schedules", q=hostile("part", SHORT)),
        asked("/ui/schedules", q=f"team={hostile('label')}"),
        asked("/ui/schedules/pause-many", q=f"team={hostile('label')}"),
        asked("/ui/why", schedule="fails", at=hostile("why-at", SHORT)),
        asked("/ui/why", schedule=hostile("why-id", SHORT)),
        asked("/ui/cron", e=hostile("cron", SHORT), tz=hostile("zone", SHORT)),
    ]  # fmt: skip


FIELDS = {
    "user", "label", "note", "detail", "run-id", "quarantine", "damage", "output", "setting", "who", "action",
    "audit-note", "audit-id", "audit-workflow", "audit-given",
    "at", "done", "part", "why-at", "why-id", "cron", "zone",
}  # fmt: skip


@pytest.fixture(scope="module")
def tab(tab):
    """A tab that notes all that is written to its console, which has what scripts and the CSP say."""
    tab.said = []
    tab.on("console", lambda message: tab.said.append(message.text))
    tab.on("pageerror", lambda error: tab.said.append(str(error)))
    return tab


def executed(page):
    """Return what ran or was refused by the CSP since the last time, and links that lead elsewhere."""
    ran = [text for text in page.said if "the server responded with a status of 4" not in text]
    page.said.clear()
    return ran + page.evaluate(SHOWN)[1]


def shown_fields(page, fields):
    text = page.evaluate(SHOWN)[0]
    return {field for field in fields if f"by-{field}-" in text and "onerror=console.log(" in text}


def test_no_text_of_others_runs_on_any_page(service, page):
    wrong, shown = {}, set()
    for path in pages_of(service):
        page.goto(service.url + path)
        shown |= shown_fields(page, FIELDS)
        if found := executed(page):
            wrong[path] = found
    assert wrong == {}
    assert shown == FIELDS


def test_no_text_of_others_runs_in_a_refresh_or_a_preview(service, page):
    page.clock.install()
    page.goto(f"{service.url}/ui/schedules/works")
    note = {"schedule_id": "works", "paused": True, "note": hostile("new-note")}
    service.post("/schedules/pause", note)
    page.clock.run_for(5000)
    page.wait_for_selector("main:has-text('by-new-note-')")
    page.goto(f"{service.url}/ui/schedules")
    page.locator("#q").fill(hostile("found"))
    page.clock.run_for(500)
    page.wait_for_selector("main:has-text('by-found-')")
    page.goto(f"{service.url}/ui/schedules/works/edit")
    page.locator("#cron").fill(hostile("typed"))
    page.clock.run_for(500)
    page.wait_for_selector("#english:has-text('by-typed-')")
    assert executed(page) == []


def test_no_text_of_a_fleet_runs_on_its_pages(page, tmp_path):
    says, fails = f"print({hostile('fleet')!r})", f"raise SystemExit({hostile('fleet')!r})"
    jobs = {
        name: {
            "type": "interval",
            "interval": "1h",
            "job": {"type": "command", "command": [sys.executable, "-c", code]},
        }
        for name, code in (("says", says), ("fails", fails))
    }
    path = tmp_path / f"{hostile('file', SHORT)}.yaml"
    path.write_text(json.dumps({"version": 1, "agents": [{"name": "writer", "schedules": jobs}]}))
    shown, ran = set(), []
    with serving(path, runs=2) as fleet:
        for place in ("/", "/ui/fleet/writer/says", "/ui/fleet/writer/fails"):
            page.goto(fleet.url + place)
            shown |= {(place, field) for field in shown_fields(page, {"file", "fleet"})}
            ran += executed(page)
    assert ran == []
    assert shown == {
        ("/", "file"),
        ("/", "fleet"),
        ("/ui/fleet/writer/says", "fleet"),
        ("/ui/fleet/writer/fails", "fleet"),
    }
