"""Pages that no link leads to: after a form, before a login, without a store, and those of a fleet."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.web.browser.pages import SETTLEMENT
from tests.web.pages.test_login import environ, token
from tests.web.running import running
from tests.web.test_fleet_page import FILE, serving


def faults(inspection, pages, plain=None):
    """Return what is wrong with each of these pages: its name, the words it must show, how it is opened.

    In `plain`, a page of a browser without script, each must say the same.
    """
    wrong = {}
    for name, words, show in pages:
        found, text = inspection.faults(show)
        if words not in text:
            found.append(f"does not say {words!r}: {text[:200]}")
        if plain is not None:
            show(plain)
            same, other = text.removesuffix("Live").strip(), plain.locator("main").inner_text().strip()
            if same.split() != other.split():
                found.append(f"says something else without script: {other!r} for {same!r}")
        wrong |= {name: found} if found else {}
    return wrong


def test_the_editor_is_accessible_with_a_difference_and_with_an_error(service, inspection):
    def edited(page, cron, button):
        page.goto(f"{service.url}{SETTLEMENT}/edit")
        page.get_by_label("Cron text").fill(cron)
        with page.expect_navigation():
            page.get_by_role("button", name=button).click()

    wrong = faults(
        inspection,
        [
            ("difference", "+45 min", lambda page: edited(page, "15 2 * * 0-5", "Preview")),
            ("error", "It was not saved", lambda page: edited(page, "61 2 * * *", "Save")),
        ],
    )
    assert wrong == {}


class Unreachable:
    """An executor that cannot be reached."""

    def __init__(self, _clock):
        pass

    async def probe(self):
        return "connection refused by executor.internal:443"

    async def run(self, _dag, _meta):
        raise AssertionError


@pytest.fixture
def plain(browser):
    """A page of a browser that runs no script."""
    context = browser.new_context(java_script_enabled=False, color_scheme="light")
    yield context.new_page()
    context.close()


def test_a_login_an_empty_a_failing_a_forbidden_and_a_lost_service_are_accessible(
    inspection, plain, tmp_path
):
    with running(tmp_path, executor=Unreachable, **environ(tmp_path)) as service:

        def sign_in(page, given):
            # An address has five tries a minute.
            service.advance(60)
            page.goto(f"{service.url}/ui/login")
            page.get_by_label("Token").fill(given)
            with page.expect_navigation():
                page.get_by_role("button", name="Sign in").click()

        def send_after_the_end(page):
            """Send a form after the session has ended, and sign in again."""
            sign_in(page, token(lives=900))
            page.goto(f"{service.url}/ui/schedules/import")
            page.get_by_role("textbox", name="Schedules").fill("[]")
            page.context.clear_cookies(name="dutiful-session")
            with page.expect_navigation():
                page.get_by_role("button", name="Show what would change").click()
            page.get_by_label("Token").fill(token(lives=900))
            with page.expect_navigation():
                page.get_by_role("button", name="Sign in").click()

        def lose_the_store(page):
            (tmp_path / "service.db").unlink(missing_ok=True)
            page.goto(service.url)

        wrong = faults(
            inspection,
            [
                ("login", "Token", lambda page: page.goto(f"{service.url}/ui/schedules")),
                ("wrong token", "(token_malformed)", lambda page: sign_in(page, "x")),
                ("empty and down", "Store the first schedule", lambda page: sign_in(page, token())),
                ("for admins", "You may not do this", lambda page: page.goto(f"{service.url}/ui/audit")),
                ("after the end", "nothing was changed yet", send_after_the_end),
                ("store lost", "at the moment; nothing was changed. Try again.", lose_the_store),
            ],
            plain,
        )
    assert wrong == {}


def test_the_pages_of_a_fleet_are_accessible(inspection, tmp_path):
    path = Path(tmp_path / "fleet.yaml")
    path.write_text(FILE)
    with serving(path, runs=2) as fleet:
        places = {
            "/": "needs you",
            "/?q=dig": "digest",
            "/ui/fleet/writer": "3 schedules",
            "/ui/fleet/writer/digest": "lines",
            "/ui/fleet/writer/broken": "no disk",
        }
        shown = [
            (place, words, lambda page, place=place: page.goto(fleet.url + place))
            for place, words in places.items()
        ]
        wrong = faults(inspection, shown)
    assert wrong == {}
