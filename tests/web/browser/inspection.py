"""What is wrong with a page as a browser shows it: in both themes, at three widths, with wider text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import BrowserContext, Page

    Theme = Literal["light", "dark"]

VENDOR = Path(__file__).with_name("vendor")
_AXE = (VENDOR / "axe.min.js").read_text(encoding="utf-8")
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# The dark theme has other colours and nothing else, so these rules alone can find more in it.
_OF_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# Each step changes one thing only, and none needs the page to be loaded anew.
_SIGHTS: list[tuple[int, Theme, Any]] = [
    (1280, "light", _RULES),
    (1280, "dark", _OF_COLOURS),
    (390, "dark", _OF_COLOURS),
    (390, "light", _RULES),
    (320, "light", _RULES),
    (320, "dark", _OF_COLOURS),
]
_CHECK = """rules => axe.run(document, {runOnly: rules, resultTypes: ["violations"], preload: false})
  .then(found => found.violations.map(
    each => [each.id, each.nodes[0].html.slice(0, 200), each.nodes[0].failureSummary].join(": ")))"""
# Half of the time goes into the contrast of each text, and the rows of a table look alike. So once every text
# of a page was checked, only the first of those with equal colours, sizes and grounds is: this marks it.
_MARK = """() => {
  axe.configure({rules: [{id: "color-contrast", selector: "[data-first]"}]});
  const grounds = new Map(), kinds = new Set();
  const ground = element => {
    if (!element) return "";
    if (!grounds.has(element)) {
      const {backgroundColor, backgroundImage, opacity, position} = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity, position].join();
      const below = ground(element.parentElement);
      grounds.set(element, own === "rgba(0, 0, 0, 0),none,1,static" ? below : `${below}/${own}`);
    }
    return grounds.get(element);
  };
  for (const element of document.body.querySelectorAll("*")) {
    element.removeAttribute("data-first");
    const isText = element.matches("input, select, textarea")
      || [...element.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!isText || !element.checkVisibility()) continue;
    const {color, fontSize, fontWeight, textShadow} = getComputedStyle(element);
    const kind = [ground(element), color, fontSize, fontWeight, textShadow].join();
    element.toggleAttribute("data-first", !kinds.has(kind));
    kinds.add(kind);
  }
}"""
# Returns whether the page is wider than the window, and the tables that show fewer heads than cells, or more.
_FRAME = """() => [
  document.documentElement.scrollWidth > innerWidth,
  [...document.querySelectorAll("table:has(thead)")].filter(table => new Set(
    [...table.querySelectorAll("thead tr, tbody tr:first-child:not(:has([colspan]))")]
      .map(row => [...row.cells].filter(cell => cell.checkVisibility()).length)).size > 1)
    .map(table => table.outerHTML.slice(0, 200)),
]"""
# Returns the elements that have moved since the page began to load. What an IntersectionObserver sees is told
# after a frame was drawn, also where a test holds the clock and with it requestAnimationFrame.
SHIFT = """async () => {
  const moved = [];
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) for (const {node} of entry.sources)
      moved.push((node?.outerHTML ?? node?.nodeValue ?? "").slice(0, 80));
  }).observe({type: "layout-shift", buffered: true});
  for (const _ of [1, 2]) await new Promise(drawn => {
    const observer = new IntersectionObserver(() => (observer.disconnect(), drawn()));
    observer.observe(document.body);
  });
  return moved;
}"""
_SIZE = "() => [document.querySelectorAll('*').length, performance.getEntriesByType('resource').length + 1]"
_SIDEWAYS = "document.documentElement.scrollWidth > innerWidth"
# Sets the text spacing of WCAG 1.4.12, and returns the elements that cut off their text then.
_SPACED = """() => {
  const spacing = new CSSStyleSheet();
  spacing.replaceSync(`* { line-height: 1.5 !important; letter-spacing: .12em !important;
    word-spacing: .16em !important } p { margin-bottom: 2em !important }`);
  document.adoptedStyleSheets.push(spacing);
  return [...document.querySelectorAll("body *:not(input, textarea, select)")].filter(each => {
    const style = getComputedStyle(each);
    const isClipped = style.overflowX === "hidden" || style.overflowX === "clip";
    return isClipped && style.clipPath === "none" && each.clientWidth > 1
      && (each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1);
  }).map(each => each.outerHTML.slice(0, 120));
}"""
_NODES_MAX, _REQUESTS_MAX = 1500, 5


class Inspection:
    """Tabs that look at one page after the other, and note what their consoles say."""

    def __init__(self, context: BrowserContext) -> None:
        self._said: list[str] = []
        self._checked, *self._narrow = (self._tab(context, width) for width in (1280, 390, 320))
        self._checked.add_init_script(_AXE)
        self._theme: Theme | None = None

    def _tab(self, context: BrowserContext, width: int) -> Page:
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 800})
        page.on("console", lambda message: self._said.append(message.text))
        page.on("pageerror", lambda error: self._said.append(str(error)))
        return page

    def faults(self, show: Callable[[Page], Any]) -> tuple[list[str], str]:
        """Return what is wrong with the page that `show` opens, and its text at 1280 pixels."""
        self._said.clear()
        page, found = self._checked, list[str]()
        self._look(1280, "light")
        for tab in (*self._narrow, page):
            show(tab)
            found += [f"moves while it loads at {_width(tab)}: {moved}" for moved in tab.evaluate(SHIFT)]
        text = page.locator("main").inner_text()
        found += self._size()
        for place, sight in enumerate(_SIGHTS):
            found += self._seen(*sight, in_samples=place > 0)
        found += [f"cuts off spaced text: {cut}" for cut in page.evaluate(_SPACED)]
        found += ["scrolls sideways with spaced text"] if page.evaluate(_SIDEWAYS) else []
        return found + [said for said in self._said if "server responded with a status of" not in said], text

    def _seen(self, width: int, theme: Theme, rules: Any, *, in_samples: bool) -> list[str]:
        self._look(width, theme)
        if in_samples:
            self._checked.evaluate(_MARK)
        found = [f"{width}, {theme}: {violation}" for violation in self._checked.evaluate(_CHECK, rules)]
        is_wider, unequal = self._checked.evaluate(_FRAME)
        found += [f"scrolls sideways at {width}"] if is_wider else []
        return found + [f"heads and cells differ at {width}: {table}" for table in unequal]

    def _look(self, width: int, theme: Theme) -> None:
        # Either of the two draws the whole page, also where it changes nothing.
        if theme != self._theme:
            self._checked.emulate_media(color_scheme=theme)
            self._theme = theme
        if width != _width(self._checked):
            self._checked.set_viewport_size({"width": width, "height": 800})

    def _size(self) -> list[str]:
        nodes, requests = self._checked.evaluate(_SIZE)
        beyond = {f"{nodes:,} nodes": nodes > _NODES_MAX, f"{requests} requests": requests > _REQUESTS_MAX}
        return [said for said, is_beyond in beyond.items() if is_beyond]


def _width(page: Page) -> int:
    size = page.viewport_size
    assert size is not None
    return size["width"]
