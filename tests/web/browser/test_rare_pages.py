"""Pages of states that few services get into: damage, a broken audit chain, and forms with their effects."""

from __future__ import annotations

import json
import sqlite3

import pytest
from tests.web.browser.seed import Acting
from tests.web.browser.test_pages_after_forms_and_faults import faults
from tests.web.running import SCHEDULE, running

# The longest id and the longest label, both without a place at which a line may break.
LONG_ID, LONG_LABEL = "w" * 128, "w" * 1000
PAST = {"From": "2026-03-02 09:00", "Until, not included": "2026-03-02 09:20"}


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """A service with a damaged schedule, late ticks, over a hundred schedules and a broken audit file."""
    folder = tmp_path_factory.mktemp("troubled")
    audit = folder / "audit.jsonl"
    with running(folder, executor=Acting, DUTIFUL_AUDIT_LOG=str(audit)) as service:
        service.put("/workflows/report/1", {"takes": 4})
        service.put("/workflows/slow/1", {"takes": 400})
        service.upsert(schedule_id="billing.damaged", cron_expr="*/5 * * * *")
        service.upsert(
            schedule_id="queue.late", workflow_id="slow", cron_expr="*/5 * * * *", overlap_policy="queue"
        )
        service.upsert(schedule_id=LONG_ID, cron_expr="*/5 * * * *", labels={"team": LONG_LABEL})
        many = [{**SCHEDULE, "schedule_id": f"many.{number:03}"} for number in range(120)]
        service.post("/schedules/bulk", many)
        service.advance(1200)
        with sqlite3.connect(folder / "service.db") as connection:
            connection.execute("UPDATE declarations SET payload = 'x' WHERE id = 'billing.damaged'")
        connection.close()
        service.advance(600)
        service.post("/schedules/pause", {"schedule_id": "many.007", "paused": True, "note": "ask Ada"})
        lines = audit.read_text(encoding="utf-8").splitlines(keepends=True)
        audit.write_text("".join([lines[0].replace("report", "rapport"), *lines[1:]]), encoding="utf-8")
        yield service


def rare_pages(service):
    """Return the name of each page, words that it must say, and how it is opened."""

    def goto(path):
        return lambda page: page.goto(service.url + path)

    def backfill(page):
        page.goto(f"{service.url}/ui/schedules/queue.late/backfill")
        for name, value in PAST.items():
            page.get_by_label(name).fill(value)
        with page.expect_navigation():
            page.get_by_role("button", name="Show what would run").click()

    def imported(page):
        page.goto(f"{service.url}/ui/schedules/import")
        new = [
            {**SCHEDULE, "schedule_id": "many.000", "cron_expr": "0 3 * * *"},
            {**SCHEDULE, "schedule_id": "new"},
        ]
        page.get_by_role("textbox", name="Schedules").fill(json.dumps(new, indent=2))
        with page.expect_navigation():
            page.get_by_role("button", name="Show what would change").click()

    def without_proof(page):
        page.goto(f"{service.url}/ui/schedules/many.000/pause")
        page.get_by_label("Why is it paused?").fill("books are closed")
        page.context.clear_cookies()
        with page.expect_navigation():
            page.get_by_role("button", name="Pause").click()

    return [
        ("damaged", "cannot be read", goto("/ui/schedules/billing.damaged")),
        ("list with damage", "billing.damaged", goto("/ui/schedules?state=trouble")),
        ("needs with damage", "damaged", goto("/")),
        ("late ticks", "launched late", goto("/ui/schedules/queue.late?range=1h")),
        ("typed number", "Type 119 to change that many", goto("/ui/schedules/pause-many?q=many")),
        ("broken chain", "The chain is broken", goto("/ui/audit")),
        ("minute of the calendar", "many.000", goto("/ui/calendar?at=09:30&day=2026-03-03")),
        ("two crons", "change", goto("/ui/cron?e=30+2+*+*+*&tz=America/New_York&than=45+2+*+*+1-5")),
        ("backfill with forecast", "ticks in that range", backfill),
        ("import with effects", "Store 2 schedules", imported),
        ("form without its proof", "Send it again", without_proof),
    ]


def test_the_first_cell_of_a_row_keeps_its_hairline_on_a_phone(troubled, page):
    page.set_viewport_size({"width": 390, "height": 800})
    [show] = [show for name, _, show in rare_pages(troubled) if name == "import with effects"]
    show(page)
    shown = page.locator("td.id").first.evaluate("cell => getComputedStyle(cell).display")
    assert shown == "table-cell"


@pytest.mark.parametrize("width", [320, 834, 1280])
def test_long_ids_and_labels_leave_every_page_as_wide_as_its_window(troubled, page, width):
    page.set_viewport_size({"width": width, "height": 800})
    here = f"/ui/schedules/{LONG_ID}"
    paths = ["/", "/ui/schedules?q=www", here, f"{here}/edit", f"{here}/run", f"{here}/pause", "/ui/runs"]
    paths += ["/ui/runs?view=each", "/ui/audit", f"/ui/why?schedule={LONG_ID}", "/ui/calendar?at=09:30&q=www"]
    paths += [f"{here}/backfill", f"{here}/delete", f"/ui/schedules/pause-many?q=team={LONG_LABEL[:190]}"]
    wider = []
    for path in paths:
        page.goto(troubled.url + path)
        wider += [path.replace(LONG_ID, "ID")] * page.evaluate(
            "document.documentElement.scrollWidth > innerWidth"
        )
    assert wider == []


@pytest.mark.timeout(300)
def test_pages_of_rare_states_are_accessible(troubled, inspection):
    assert faults(inspection, rare_pages(troubled)) == {}
