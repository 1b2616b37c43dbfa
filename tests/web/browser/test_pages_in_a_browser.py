"""Every page in a real browser: accessible, within its frame, without errors, and usable without script."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from tests.web.browser.pages import PAGES, SHIFT

VENDOR = Path(__file__).with_name("vendor")
AXE = (VENDOR / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CONTRAST = {"type": "rule", "values": ["color-contrast"]}
# The rules whose answer depends on the width of the window.
OF_WIDTH = {
    "type": "rule",
    "values": [
        "color-contrast",
        "target-size",
        "scrollable-region-focusable",
        "link-in-text-block",
        "region",
    ],
}
CHECK = (
    "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations'], preload: false}).then("
    "found => found.violations.map("
    "each => [each.id, each.nodes[0].html.slice(0, 200), each.nodes[0].failureSummary]))"
)
THEMES = ("light", "dark")


def test_the_checker_has_the_bytes_that_were_reviewed():
    listed = (VENDOR / "SHA256SUMS").read_text(encoding="utf-8").split()
    assert hashlib.sha256((VENDOR / "axe.min.js").read_bytes()).hexdigest() == listed[0]


# One test for all pages, because a new browser context costs as much as several pages.
@pytest.mark.timeout(600)
def test_every_page_is_accessible_within_its_frame_and_without_errors(service, browser):
    context = browser.new_context()
    page, complaints, wrong = context.new_page(), [], {}
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for place, path in enumerate(PAGES):
        complaints.clear()
        phone_theme, wide_theme = THEMES[place % 2], THEMES[1 - place % 2]
        found, status = [], 0
        for width in (390, 1280):
            _show(page, width, wide_theme)
            status = page.goto(service.url + path).status
            found += [f"moves at {width} while it loads: {moved}" for moved in page.evaluate(SHIFT)]
        page.evaluate(AXE)
        found += page.evaluate(CHECK, RULES)
        # Of the rules only contrast depends on the theme.
        _show(page, 1280, phone_theme)
        found += page.evaluate(CHECK, CONTRAST)
        _show(page, 320, phone_theme)
        found += page.evaluate(CHECK, OF_WIDTH)
        for width in (320, 390, 1280):
            _show(page, width, phone_theme)
            if page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"scrolls sideways at {width}")
        if page.evaluate("document.querySelectorAll('*').length") > 1500:
            found.append("more than 1,500 nodes")
        found += [text for text in complaints if "404" not in text]
        wrong |= {path: found} if found or status >= 500 else {}
    context.close()
    assert wrong == {}


def _show(page, width, theme):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=theme)


def test_every_page_says_the_same_without_script(service, browser):
    said = []
    for script in (True, False):
        context = browser.new_context(java_script_enabled=script)
        page = context.new_page()
        texts = {}
        for path in PAGES:
            page.goto(service.url + path)
            texts[path] = page.locator("main").inner_text().removesuffix("Live").strip()
        said.append(texts)
        context.close()
    assert said[0] == said[1]


def test_no_page_is_heavier_than_its_budget(service):
    heavy = {}
    for path in PAGES:
        body = service.client.get(path).content
        if len(body) > 64 * 1024 or len(gzip.compress(body)) > 12 * 1024:
            heavy[path] = len(body), len(gzip.compress(body))
    assert heavy == {}


@pytest.fixture
def plain(browser):
    """A page of a browser that runs no script."""
    context = browser.new_context(java_script_enabled=False, color_scheme="light")
    yield context.new_page()
    context.close()


def test_a_schedule_is_found_explained_edited_and_saved_without_script(service, plain):
    plain.goto(service.url)
    plain.get_by_role("searchbox", name="Find a schedule").fill("dunning")
    plain.keyboard.press("Enter")
    plain.get_by_role("link", name="billing.dunning").click()
    plain.get_by_label("Another time").fill("2026-11-01 09:30")
    plain.get_by_role("button", name="Ask about another time").click()
    assert "The cron has no tick then." in plain.locator("#why").inner_text()
    plain.get_by_role("link", name="Edit", exact=True).first.click()
    plain.get_by_label("Cron text").fill("45 9 * * 1-5")
    plain.get_by_role("button", name="Preview").click()
    assert "+15 min" in plain.locator("main").inner_text()
    plain.get_by_role("button", name="Save").click()
    assert "At 09:45, Monday to Friday, in New York" in plain.locator("main").inner_text()
    assert service.get("/schedules/billing.dunning")["cron_expr"] == "45 9 * * 1-5"


def test_a_schedule_is_paused_with_a_note_and_resumed_without_script(service, plain):
    plain.goto(f"{service.url}/ui/schedules/orders.sync")
    plain.get_by_role("link", name="Pause…").click()
    plain.get_by_label("Why is it paused?").fill("partner moves house")
    plain.get_by_role("button", name="Pause").click()
    assert "partner moves house" in plain.locator("main").inner_text()
    plain.get_by_role("link", name="Resume…").click()
    plain.get_by_role("button", name="Resume").click()
    assert "The schedule runs again." in plain.locator("main").inner_text()


def test_the_theme_is_kept_in_this_browser(service, plain):
    plain.goto(f"{service.url}/ui/me")
    plain.get_by_label("Dark").check()
    plain.get_by_role("button", name="Keep").click()
    assert plain.locator("html").get_attribute("data-theme") == "dark"
