"""Every page in a real browser: accessible, within its frame, without errors, and usable without script."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.web.browser.inspection import VENDOR
from tests.web.browser.pages import PAGES
from tests.web.pages.test_login import environ, token
from tests.web.running import running

from dutiful.process.output_log import OutputFolder


def test_the_checker_has_the_bytes_that_were_reviewed():
    listed = (VENDOR / "SHA256SUMS").read_text(encoding="utf-8").split()
    assert hashlib.sha256((VENDOR / "axe.min.js").read_bytes()).hexdigest() == listed[0]


def run_with_output(service):
    """Return the page of a run that failed and has printed something."""
    runs = service.get("/schedules/settlement.us-east/runs")["runs"]
    run = next(run for run in runs if run["status"] == "FAILED")
    output = OutputFolder(Path(service.service.settings.output_dir)).open(run["idempotency_key"])
    output.write(b"connecting to ledger-db.internal:5432\n" * 60)
    output.close()
    return f"/ui/runs/{run['idempotency_key']}"


# One test for all pages: in workers of their own each half would fill a service and start a browser.
@pytest.mark.timeout(600)
def test_every_page_is_accessible_within_its_frame_and_the_same_without_script(service, inspection, plain):
    wrong = {}
    for path in [*PAGES, run_with_output(service)]:
        url = service.url + path
        found, text = inspection.faults(lambda page, url=url: page.goto(url))
        plain.goto(url)
        if text.removesuffix("Live").split() != plain.locator("main").inner_text().split():
            found.append("says something else without script")
        wrong |= {path: found} if found else {}
    assert wrong == {}


def test_no_page_is_heavier_than_its_budget(service):
    heavy = {}
    for path in PAGES:
        body = service.client.get(path).content
        if len(body) > 64 * 1024 or len(gzip.compress(body)) > 12 * 1024:
            heavy[path] = len(body), len(gzip.compress(body))
    assert heavy == {}


@pytest.fixture(scope="module")
def scriptless(browser):
    context = browser.new_context(java_script_enabled=False, color_scheme="light")
    yield context.new_page()
    context.close()


@pytest.fixture
def plain(scriptless):
    """A page of a browser that runs no script."""
    yield scriptless
    scriptless.context.clear_cookies()


def says(page, text):
    """Wait until the page, which may still be loading, says a text."""
    expect(page.locator("main")).to_contain_text(text)


def test_a_schedule_is_found_explained_edited_and_saved_without_script(service, plain):
    plain.goto(service.url)
    plain.get_by_role("searchbox", name="Find a schedule").fill("dunning")
    plain.keyboard.press("Enter")
    plain.get_by_role("link", name="billing.dunning").click()
    plain.get_by_label("Another time").fill("2026-11-01 09:30")
    plain.get_by_role("button", name="Ask about another time").click()
    says(plain, "The cron has no tick then.")
    plain.get_by_role("link", name="Edit", exact=True).first.click()
    plain.get_by_label("Cron text").fill("45 9 * * 1-5")
    plain.get_by_role("button", name="Preview").click()
    says(plain, "+15 min")
    plain.get_by_role("button", name="Save").click()
    says(plain, "At 09:45, Monday to Friday, in New York")
    assert service.get("/schedules/billing.dunning")["cron_expr"] == "45 9 * * 1-5"


def test_a_schedule_is_paused_resumed_run_and_filled_in_without_script(service, plain):
    plain.goto(f"{service.url}/ui/schedules/invoices.export")
    plain.get_by_role("link", name="Pause…").click()
    plain.get_by_label("Why is it paused?").fill("partner moves house")
    plain.get_by_role("button", name="Pause").click()
    says(plain, "partner moves house")
    plain.get_by_role("link", name="Resume…").click()
    plain.get_by_role("button", name="Resume").click()
    says(plain, "The schedule runs again.")
    plain.get_by_role("link", name="Run now").click()
    plain.get_by_role("button", name="Run now").click()
    says(plain, "A run by hand was asked for")
    plain.get_by_role("link", name="Backfill…").click()
    plain.get_by_label("From").fill("2026-10-30 00:00")
    plain.get_by_label("Until, not included").fill("2026-10-30 04:00")
    plain.get_by_role("button", name="Show what would run").click()
    says(plain, "4 ticks in that range: 4 would run, 0 ran already.")
    plain.get_by_role("button", name="Run them").click()
    says(plain, "4 past ticks will run, 0 ran already.")
    made = [run["trigger"] for run in service.get("/schedules/invoices.export/runs", limit=1000)["runs"]]
    assert (made.count("manual"), made.count("backfill")) == (1, 4)


def test_lists_are_filtered_without_script(service, plain):
    plain.goto(f"{service.url}/ui/schedules")
    plain.get_by_role("link", name="paused").first.click()
    expect(plain.locator("a.id")).to_have_text(["search.suggest"])
    plain.goto(f"{service.url}/ui/runs")
    plain.locator("select[name=status]").select_option("FAILED")
    plain.locator("main form button").first.click()
    plain.wait_for_url("**status=FAILED**")
    says(plain, "task_failed")
    expect(plain.locator("main")).not_to_contain_text("edge.heartbeat")


def test_one_signs_in_without_script(plain, tmp_path):
    with running(tmp_path, **environ(tmp_path)) as service:
        plain.goto(f"{service.url}/ui/schedules?state=paused")
        plain.get_by_label("Token").fill(token())
        plain.get_by_role("button", name="Sign in").click()
        plain.wait_for_url("**/ui/schedules?state=paused")
        says(plain, "Schedules")


def test_the_theme_is_kept_in_this_browser(service, plain):
    plain.goto(f"{service.url}/ui/me")
    plain.get_by_label("Dark").check()
    plain.get_by_role("button", name="Keep").click()
    expect(plain.locator("html")).to_have_attribute("data-theme", "dark")
