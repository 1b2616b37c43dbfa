"""Pages that refresh themselves: they show what is new, and leave alone what a person is doing."""

from __future__ import annotations

import pytest
from tests.web.browser.inspection import SHIFT
from tests.web.browser.seed import started, store

SECONDS = 5


@pytest.fixture(scope="module")
def service():
    with started() as it:
        it.put("/workflows/poll/14", {"takes": 4})
        for name in ("a.first", "b.second", "c.third"):
            store(it, {"schedule_id": name, "workflow_id": "poll", "cron_expr": "*/5 * * * *"})
        # Ten hours: the counts have three digits for all tests. A digit more moves the words beside it.
        it.advance(36_000)
        yield it


@pytest.fixture(scope="module")
def tab(tab):
    tab.clock.install()
    tab.asked = []
    tab.on("response", lambda answer: _note(tab, answer))
    return tab


def _note(page, answer):
    if answer.request.resource_type == "fetch":
        page.asked.append(answer.status)


def opened(page, service, path):
    page.goto(service.url + path)
    page.asked.clear()
    return page


def pass_seconds(page, seconds=SECONDS):
    """Let the timers of the page run, and wait until what they asked for is shown.

    A page asks in the middle of a second, so up to half a second later.
    """
    page.clock.run_for(seconds * 1000 + 500)
    page.wait_for_selector("main:not([aria-busy])")


def test_a_page_shows_what_became_of_ticks_meanwhile(service, page):
    opened(page, service, "/ui/schedules/a.first")
    before = page.locator(".facts").inner_text()
    service.advance(600)
    pass_seconds(page)
    assert page.locator(".facts").inner_text() != before
    assert page.asked == [200]


def test_where_nothing_was_written_nothing_is_sent(service, page):
    opened(page, service, "/ui/schedules/b.second")
    pass_seconds(page)
    pass_seconds(page)
    # The first answer is whole: the distances of the page may be old.
    assert page.asked == [200, 204]


def test_once_a_minute_the_page_comes_whole_so_that_distances_are_true(service, page):
    opened(page, service, "/ui/schedules/b.second")
    for _ in range(14):
        pass_seconds(page)
    assert page.asked.count(200) == 2
    assert page.asked.count(204) == 12


def test_what_is_typed_survives_twenty_refreshes(service, page):
    opened(page, service, "/")
    page.locator("#find").fill("half a na")
    for _ in range(20):
        service.advance(60)
        pass_seconds(page)
    assert page.locator("#find").input_value() == "half a na"
    assert page.asked == []
    page.locator("#find").blur()
    pass_seconds(page)
    assert (page.asked, page.locator("#find").input_value()) == ([200], "half a na")


def test_the_focus_stays_where_it_is_when_rows_change(service, page):
    opened(page, service, "/ui/schedules")
    page.locator("a.id", has_text="b.second").focus()
    store(service, {"schedule_id": "a.second", "workflow_id": "poll", "cron_expr": "*/5 * * * *"})
    pass_seconds(page, 15)
    assert page.locator("a.id", has_text="a.second").count() == 1
    assert page.evaluate("document.activeElement.textContent") == "b.second"
    service.client.delete("/schedules/a.second")


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_moves_across_three_refreshes(service, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    run = service.get("/schedules/a.first/runs")["runs"][0]["idempotency_key"]
    lists = {"/ui/schedules": 15, "/ui/runs": 15, "/ui/system": 15, f"/ui/runs/{run}": 15}
    for path, every in {"/": 5, "/ui/schedules/a.first": 5, **lists}.items():
        opened(page, service, path)
        for _ in range(3):
            service.advance(300)
            pass_seconds(page, every)
        assert (path, page.asked, page.evaluate(SHIFT)) == (path, [200, 200, 200], [])


def test_a_move_after_a_refresh_would_be_found(service, page):
    opened(page, service, "/")
    pass_seconds(page)
    page.evaluate("document.querySelector('h1').insertAdjacentHTML('beforebegin', '<p>One line more</p>')")
    assert any("One line more" not in moved for moved in page.evaluate(SHIFT))


def test_a_hidden_tab_asks_nothing(service, page):
    opened(page, service, "/")
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    for _ in range(4):
        pass_seconds(page)
    assert page.asked == []
    page.evaluate("delete document.hidden")
    pass_seconds(page)
    assert page.asked == [200]


def test_the_switch_and_its_key_stop_the_refreshing(service, page):
    opened(page, service, "/")
    switch = page.get_by_role("button", name="Live")
    assert switch.get_attribute("aria-pressed") == "true"
    switch.click()
    assert switch.get_attribute("aria-pressed") == "false"
    for _ in range(4):
        pass_seconds(page)
    assert page.asked == []
    page.locator("h1").click()
    page.keyboard.press(".")
    assert switch.get_attribute("aria-pressed") == "true"


def test_a_service_that_cannot_be_reached_is_reported_and_asked_less_often(service, page):
    opened(page, service, "/")
    tried = []
    page.route("**/*", lambda route: (tried.append(1), route.abort()))
    for _ in range(12):
        pass_seconds(page)
    assert page.locator("#unreached").inner_text().startswith("Not reached since ")
    # After 5, 10, 20 and 40 seconds, where 12 times would be every 5.
    assert len(tried) <= 4
    page.unroute("**/*")
    for _ in range(13):
        pass_seconds(page)
    assert page.locator("#unreached").is_hidden()


def test_a_preview_keeps_the_field_the_caret_and_open_details(service, page):
    opened(page, service, "/ui/schedules/c.third/edit")
    page.locator("summary").first.click()
    page.get_by_label("Cron text").fill("*/15 * * * *")
    pass_seconds(page, 1)
    assert page.locator("#english").inner_text() == "Every 15 minutes, UTC"
    assert "2,016 → 672" in page.locator(".change").inner_text()
    assert page.evaluate("document.activeElement.id") == "cron"
    assert [each.get_attribute("open") is not None for each in page.locator("details").all()] == [True, False]
    assert service.client.get("/schedules/c.third").json()["cron_expr"] == "*/5 * * * *"


def test_the_list_is_found_while_one_types(service, page):
    opened(page, service, "/ui/schedules")
    page.locator("#q").press_sequentially("third")
    pass_seconds(page, 1)
    assert page.locator("a.id").all_inner_texts() == ["c.third"]
    assert page.url.endswith("/ui/schedules?q=third")
    assert page.locator("#q").input_value() == "third"


def test_keys_go_to_pages_and_rows_and_open_questions(service, page):
    opened(page, service, "/")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/ui/schedules")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "b.second"
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/schedules/b.second")
    page.keyboard.press("p")
    page.get_by_role("dialog", name="Pause it?").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


def test_keys_can_be_switched_off(service, page):
    opened(page, service, "/ui/me")
    page.get_by_role("button", name="Switch keys off").click()
    page.get_by_role("button", name="Switch keys on").wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    page.get_by_role("button", name="Switch keys on").click()
    page.get_by_role("button", name="Switch keys off").wait_for()
    page.keyboard.press("/")
    page.wait_for_function("document.activeElement.id === 'find'")


def test_seven_tabs_of_one_browser_stay_alive(service, browser):
    context = browser.new_context()
    tabs = [context.new_page() for _ in range(7)]
    for tab in tabs:
        tab.clock.install()
        tab.goto(f"{service.url}/ui/schedules/b.second")
    service.advance(600)
    for tab in tabs:
        with tab.expect_response(lambda answer: answer.request.resource_type == "fetch") as refreshed:
            tab.clock.run_for(SECONDS * 1000)
        assert refreshed.value.status in {200, 204}
    context.close()


def test_the_script_is_within_its_budget(service, page):
    import gzip

    opened(page, service, "/")
    address = page.locator("script").get_attribute("src")
    answer = service.client.get(address)
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert len(gzip.compress(answer.content)) <= 5 * 1024
