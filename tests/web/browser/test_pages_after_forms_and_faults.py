"""Pages that no link leads to: after a form, before a login, without a store, and those of a fleet."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.web.browser.inspection import Inspection
from tests.web.browser.pages import SETTLEMENT
from tests.web.pages.test_login import environ, token
from tests.web.running import running
from tests.web.test_fleet_page import FILE, serving


@pytest.fixture
def page(browser):
    context = browser.new_context()
    yield context.new_page()
    context.close()


def faults(page, pages):
    """Return what is wrong with each of these pages: its name, the words it must show, how it is opened."""
    inspection, wrong = Inspection(page), {}
    for place, (name, words, show) in enumerate(pages):
        found, text = inspection.faults(show, dark_first=bool(place % 2))
        if words not in text:
            found.append(f"does not say {words!r}: {text[:200]}")
        wrong |= {name: found} if found else {}
    return wrong


def test_the_editor_is_accessible_with_a_difference_and_with_an_error(service, page):
    def edited(cron, button):
        page.goto(f"{service.url}{SETTLEMENT}/edit")
        page.get_by_label("Cron text").fill(cron)
        with page.expect_navigation():
            page.get_by_role("button", name=button).click()

    wrong = faults(
        page,
        [
            ("difference", "+45 min", lambda: edited("15 2 * * 0-5", "Preview")),
            ("error", "It was not saved", lambda: edited("61 2 * * *", "Save")),
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


def test_a_login_an_empty_a_failing_a_forbidden_and_a_lost_service_are_accessible(page, tmp_path):
    with running(tmp_path, executor=Unreachable, **environ(tmp_path)) as service:

        def sign_in(given):
            page.goto(f"{service.url}/ui/login")
            page.get_by_label("Token").fill(given)
            with page.expect_navigation():
                page.get_by_role("button", name="Sign in").click()

        def lose_the_store():
            (tmp_path / "service.db").unlink(missing_ok=True)
            page.goto(service.url)

        wrong = faults(
            page,
            [
                ("login", "Token", lambda: page.goto(f"{service.url}/ui/schedules")),
                ("wrong token", "(token_malformed)", lambda: sign_in("x")),
                ("empty and down", "Store the first schedule", lambda: sign_in(token())),
                ("for admins", "You may not do this", lambda: page.goto(f"{service.url}/ui/audit")),
                ("store lost", "The store cannot be used", lose_the_store),
            ],
        )
    assert wrong == {}


def test_the_pages_of_a_fleet_are_accessible(page, tmp_path):
    path = Path(tmp_path / "fleet.yaml")
    path.write_text(FILE)
    with serving(path, runs=2) as fleet:
        places = {"/": "needs you", "/ui/fleet/writer/digest": "lines", "/ui/fleet/writer/broken": "no disk"}
        shown = [
            (place, words, lambda place=place: page.goto(fleet.url + place))
            for place, words in places.items()
        ]
        wrong = faults(page, shown)
    assert wrong == {}
