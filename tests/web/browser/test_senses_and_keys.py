"""The pages for people who see no colours, choose their own, or use only the keyboard."""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.web.browser.pages import SETTLEMENT
from tests.web.browser.png import rows
from tests.web.test_style import contrast

KEY_PAGES = ["/", SETTLEMENT, f"{SETTLEMENT}/edit"]
HERE = "document.activeElement.outerHTML.slice(0, 120)"
MARKS = ".ran .failed .cross .skipped .come .comebar .skipbar .axis .now .d1 .today"
# Returns the colour of the canvas, and class, fill and stroke of each mark that is drawn.
PAINTED = """marks => {
  const canvas = document.body.appendChild(document.createElement("i"));
  canvas.style.color = "Canvas";
  const drawn = [...document.querySelectorAll(marks.split(" ").map(mark => ".plot " + mark).join())];
  return [getComputedStyle(canvas).color, drawn.map(mark => {
    const style = getComputedStyle(mark);
    return [mark.getAttribute("class"), style.fill, style.stroke];
  })];
}"""
# Returns the words of each entry of a legend, and the box of its mark within the legend.
BOXES = """legend => Object.fromEntries([...legend.querySelectorAll("li")].map(entry => {
  const [whole, mark] = [legend, entry.querySelector("svg")].map(each => each.getBoundingClientRect());
  return [entry.textContent.trim(),
    [mark.x - whole.x, mark.y - whole.y, mark.width, mark.height].map(Math.round)];
}))"""


def colour(said):
    """Return a computed colour as #rrggbb, None for a colour that draws nothing."""
    if said == "none" or (said.startswith("rgba") and said.endswith(", 0)")):
        return None
    parts = said[said.index("(") + 1 : said.index(")")].split(",")[:3]
    return "#" + "".join(f"{int(float(part)):02x}" for part in parts)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_can_be_seen_in_forced_colours(service, page, theme):
    page.emulate_media(forced_colors="active", color_scheme=theme)
    for path in KEY_PAGES:
        page.goto(service.url + path)
        ground, marks = page.evaluate(PAINTED, MARKS)
        assert marks
        for name, *painted in marks:
            seen = [one for one in map(colour, painted) if one is not None]
            assert max(contrast(one, colour(ground)) for one in seen) >= 3, (path, name, painted)


def test_the_current_page_and_the_chosen_answer_are_marked_in_forced_colours(service, page):
    page.emulate_media(forced_colors="active")
    page.goto(service.url + KEY_PAGES[2])
    border = "element => getComputedStyle(element).borderBottomWidth"
    other, current = page.locator(".nav a:not([aria-current])").first, page.locator(".nav a[aria-current]")
    assert (other.evaluate(border), current.evaluate(border)) == ("2px", "3px")
    free, chosen = (
        page.locator(".choice label:not(:has(:checked))").first,
        page.locator(".choice label:has(:checked)").first,
    )
    assert (free.evaluate(border), chosen.evaluate(border)) == ("1px", "2px")


def test_every_state_has_a_shape_of_its_own_without_colour(service, page):
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setEmulatedVisionDeficiency", {"type": "achromatopsia"})
    counts, alike = {}, []
    for path in KEY_PAGES:
        page.goto(service.url + path)
        drawn = legend(page)
        counts[path] = len(drawn)
        alike += [pair for pair in combinations(drawn, 2) if not apart(drawn[pair[0]], drawn[pair[1]])]
    session.detach()
    assert counts == dict(zip(KEY_PAGES, (4, 7, 5), strict=True))
    assert alike == []


def legend(page):
    """Return the outline of each mark in the first legend of the page, by its words."""
    found = page.locator(".legend").first
    boxes = found.evaluate(BOXES)
    pixels = rows(found.screenshot())
    assert all(max(pixel[:3]) - min(pixel[:3]) <= 2 for row in pixels for pixel in row)
    return {name: outline(pixels, *box) for name, box in boxes.items()}


def outline(pixels, left, top, width, height):
    """Return the pixels of a box that differ from the ground, as a set of places in the box."""
    ground = pixels[0][-1][0]
    within = [(x, y) for y in range(height) for x in range(width)]
    return {(x, y) for x, y in within if abs(pixels[top + y][left + x][0] - ground) > 40}


def apart(one, other):
    """Return whether two shapes differ in at least a quarter of what either of them draws."""
    return len(one ^ other) >= len(one | other) / 4


# Gives the focus to one control after the other, down the page and up again, and returns those that a
# sticky bar hides whole.
OBSCURED = """() => {
  const bars = [...document.querySelectorAll(".bar, .tabs, .save")];
  const isHidden = (control) => {
    const box = control.getBoundingClientRect();
    const heights = [0.1, 0.5, 0.9].map(part => box.top + part * box.height);
    return heights.every(y => {
      const seen = document.elementFromPoint(box.left + box.width / 2, y);
      return !seen || bars.some(bar => bar.contains(seen));
    });
  };
  const all = [...document.querySelectorAll("main :is(a[href], button, input, select, summary, pre)")]
    .filter(control => control.checkVisibility({visibilityProperty: true}) && !control.closest(".save, svg"));
  return [...all, ...all.toReversed()]
    .filter(control => (control.focus(), document.activeElement === control && isHidden(control)))
    .map(control => control.outerHTML.slice(0, 120));
}"""


# Returns the controls that are lower than a finger needs, and the texts that are smaller than 11 pixels.
TOO_SMALL = """() => {
  const controls = "button, .button, summary, select, input:not([type=radio], [type=hidden]), textarea,"
    + " .choice label, :is(.seg, .chips, .tabs, .foot, .presets, .menu, .crumbs) a[href]";
  const seen = [...document.querySelectorAll("body *")].filter(
    each => each.checkVisibility({visibilityProperty: true}) && !each.closest(".sr"));
  const low = seen.filter(each => each.matches(controls) && each.getBoundingClientRect().height < 43.9);
  const isText = child => child.nodeType === 3 && child.data.trim();
  // A drawing that is shown smaller than it was drawn shows its texts smaller too.
  const scale = each => each.closest("svg") ? each.getScreenCTM().a : 1;
  const fine = seen.filter(each => [...each.childNodes].some(isText) && each.nodeName !== "title"
    && parseFloat(getComputedStyle(each).fontSize) * scale(each) < 11);
  return [low, fine].map(found => found.map(each => each.outerHTML.slice(0, 90)));
}"""


def test_targets_are_44_pixels_high_and_texts_11_on_a_phone(service, page):
    page.set_viewport_size({"width": 390, "height": 800})
    small = {}
    for path in [
        *KEY_PAGES,
        "/ui/schedules",
        "/ui/runs",
        "/ui/calendar",
        "/ui/me",
        "/ui/system",
        f"{SETTLEMENT}/pause",
    ]:
        page.goto(service.url + path)
        low, fine = page.evaluate(TOO_SMALL)
        small |= {path: (low, fine)} if low or fine else {}
    assert small == {}
    page.goto(f"{service.url}/ui/schedules")
    assert not page.get_by_role("link", name="JSON").is_visible()


# Returns the texts that are partly outside a drawing which shows nothing beyond its edges.
CUT_OFF = """() => [...document.querySelectorAll("svg text")].filter(each => {
  const drawing = each.closest("svg"), edges = drawing.getBoundingClientRect();
  const {top, bottom} = each.getBoundingClientRect();
  return getComputedStyle(drawing).overflow !== "visible" && (top < edges.top || bottom > edges.bottom);
}).map(each => each.textContent)"""


@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_of_a_drawing_is_cut_off(service, page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{service.url}{SETTLEMENT}")
    assert page.evaluate(CUT_OFF) == []


def test_nothing_moves_for_those_who_want_no_motion(service, page):
    page.emulate_media(reduced_motion="reduce")
    page.goto(service.url)
    moving = page.evaluate(
        """[...document.querySelectorAll("*")].filter(each => {
          const {transitionDuration, animationName, scrollBehavior} = getComputedStyle(each);
          return transitionDuration !== "0s" || animationName !== "none" || scrollBehavior === "smooth";
        }).map(each => each.outerHTML.slice(0, 80))"""
    )
    page.emulate_media(reduced_motion="no-preference")
    assert moving == []


def test_the_counts_of_the_calendar_are_shown_on_the_narrowest_screen(service, page):
    page.set_viewport_size({"width": 320, "height": 800})
    page.goto(f"{service.url}/ui/calendar")
    assert {each.is_visible() for each in page.locator(".table .num").all()} == {True}


def test_no_bar_hides_the_control_that_has_the_focus_at_400_percent(service, page):
    # A window of 1280 by 1024 has this many pixels at a zoom of 400 percent.
    page.set_viewport_size({"width": 320, "height": 256})
    hidden = {}
    for path in KEY_PAGES:
        page.goto(service.url + path)
        hidden[path] = page.evaluate(OBSCURED)
    assert hidden == {path: [] for path in KEY_PAGES}


# Returns whether the focus can be seen, and whether it is on the wanted control. After the last control it is
# on the body, once.
FOCUSED = """wanted => {
  const at = document.activeElement;
  return [at === document.body || getComputedStyle(at).outlineStyle !== "none", at === wanted];
}"""


def tab_to(page, name, role="link"):
    """Press Tab until the control with this name has the focus, which must be visible at each step."""
    wanted = page.get_by_role(role, name=name).first.element_handle()
    for _ in range(80):
        page.keyboard.press("Tab")
        is_seen, is_there = page.evaluate(FOCUSED, wanted)
        assert is_seen, page.evaluate(HERE)
        if is_there:
            return
    raise AssertionError(f"Tab does not reach {name}")


def test_a_schedule_is_found_explained_edited_and_saved_by_keyboard_only(service, page):
    page.goto(f"{service.url}/ui/schedules")
    tab_to(page, "Find a schedule", "searchbox")
    page.keyboard.type("clickstream")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=clickstream")
    tab_to(page, "etl.clickstream")
    page.keyboard.press("Enter")
    page.wait_for_url("**/etl.clickstream")
    tab_to(page, "Another time", "textbox")
    page.keyboard.press("Control+a")
    page.keyboard.type("yesterday 01:10")
    page.keyboard.press("Enter")
    page.wait_for_url("**at=yesterday**")
    assert "The cron has no tick then." in page.locator("#why").inner_text()
    tab_to(page, "Edit")
    page.keyboard.press("Enter")
    page.wait_for_url("**/edit")
    tab_to(page, "Cron text", "textbox")
    page.keyboard.press("Control+a")
    page.keyboard.type("*/20 * * * *")
    tab_to(page, "Save", "button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/etl.clickstream?done=**")
    assert service.get("/schedules/etl.clickstream")["cron_expr"] == "*/20 * * * *"


def test_a_schedule_is_run_and_many_are_paused_by_keyboard_only(service, page):
    page.goto(f"{service.url}/ui/schedules/cache.warm")
    page.keyboard.press("t")
    page.get_by_role("dialog", name="Run it now?").wait_for()
    tab_to(page, "Run now", "button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cache.warm?done=**")
    page.goto(f"{service.url}/ui/schedules?q=team%3Dbilling")
    tab_to(page, "Pause 2…")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Pause all that match?").wait_for()
    tab_to(page, "Why are they paused?", "textbox")
    page.keyboard.type("books are closed")
    tab_to(page, "Pause 2 schedules", "button")
    page.keyboard.press("Enter")
    page.wait_for_url("**done=2**")
    assert service.get("/schedules/invoices.export")["pause_note"] == "books are closed"
    service.post("/schedules/pause-many", {"paused": False, "label": "team=billing"})


def test_dialogs_ask_and_explain_keep_errors_and_give_the_focus_back(service, page, inspection):
    here = f"{service.url}/ui/schedules/orders.sync"
    question = page.get_by_role("dialog", name="Pause it?")

    def ask(tab):
        tab.goto(here)
        tab.keyboard.press("p")
        tab.get_by_role("dialog", name="Pause it?").wait_for()

    assert inspection.faults(ask)[0] == []
    ask(page)
    assert page.evaluate("document.activeElement.id") == "note"
    page.keyboard.type("  ")
    page.keyboard.press("Enter")
    refused = question.get_by_role("alert").inner_text()
    assert refused == "Write in one line, of at most 1000 characters, why it is paused: others will ask."
    assert (page.evaluate("document.activeElement.id"), page.url) == ("note", here)
    for leave in (lambda: page.keyboard.press("Escape"), page.get_by_role("link", name="Cancel").click):
        leave()
        assert (question.count(), page.evaluate("document.activeElement.innerText")) == (0, "Pause…")
        page.keyboard.press("Enter")
        question.wait_for()
    page.keyboard.type("moves to another queue")
    page.keyboard.press("Enter")
    page.wait_for_url("**/orders.sync?done=**")
    assert service.get("/schedules/orders.sync")["pause_note"] == "moves to another queue"
    service.post("/schedules/pause", {"schedule_id": "orders.sync", "paused": False})
    page.evaluate("self.stays = true")
    page.locator("a.id").last.press("Enter")
    page.wait_for_url("**/orders.sync?at=**")
    assert page.evaluate("self.stays")
    page.goto(service.url)
    opener = page.get_by_role("link", name="Why? settlement.us-east")
    opener.press("Enter")
    verdict = page.get_by_role("dialog", name="Why?")
    verdict.wait_for()
    assert "Decided by" in verdict.inner_text()
    shown, beside = verdict.bounding_box(), opener.bounding_box()
    gaps = shown["y"] - beside["y"] - beside["height"], beside["y"] - shown["y"] - shown["height"]
    assert 0 <= max(gaps) <= 8
    page.keyboard.press("Escape")
    assert (verdict.count(), page.evaluate(HERE)) == (0, opener.evaluate("it => it.outerHTML.slice(0, 120)"))
