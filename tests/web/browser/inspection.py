"""What is wrong with a page as a browser shows it: in both themes, at three widths, with wider text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

VENDOR = Path(__file__).with_name("vendor")
_AXE = (VENDOR / "axe.min.js").read_text(encoding="utf-8")
_ALL_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Of the rules only contrast depends on the theme.
_OF_THEME = {"type": "rule", "values": ["color-contrast"]}
# The rules whose answer depends on the width of the window.
_OF_WIDTH = {
    "type": "rule",
    "values": [
        "color-contrast",
        "target-size",
        "scrollable-region-focusable",
        "link-in-text-block",
        "region",
    ],
}
_CHECK = (
    "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations'], preload: false}).then("
    "found => found.violations.map("
    "each => [each.id, each.nodes[0].html.slice(0, 200), each.nodes[0].failureSummary].join(': ')))"
)
# Returns the elements that have moved since the page began to load.
SHIFT = (
    "() => new Promise(done => { const moved = []; new PerformanceObserver(list => {"
    " for (const entry of list.getEntries()) for (const {node} of entry.sources)"
    " moved.push((node?.outerHTML ?? node?.nodeValue ?? '').slice(0, 80)) })"
    ".observe({type: 'layout-shift', buffered: true});"
    " requestAnimationFrame(() => setTimeout(() => done(moved), 0)) })"
)
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
    """A tab that looks at one page after the other, and notes what its console says."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._said: list[str] = []
        page.on("console", lambda message: self._said.append(message.text))
        page.on("pageerror", lambda error: self._said.append(str(error)))

    def faults(self, show: Callable[[], Any], *, dark_first: bool = False) -> tuple[list[str], str]:
        """Return what is wrong with the page that `show` opens, and its text at 1280 pixels."""
        self._said.clear()
        page, found = self._page, list[str]()
        one, other = ("dark", "light") if dark_first else ("light", "dark")
        page.emulate_media(color_scheme=one)
        for width in (320, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            show()
            found += [f"moves at {width} while it loads: {moved}" for moved in page.evaluate(SHIFT)]
        text = page.locator("main").inner_text()
        found += self._size() + self._sideways(1280)
        # A page that another theme or width changes is not loaded anew: the checker is costly to load.
        page.evaluate(_AXE)
        found += page.evaluate(_CHECK, _ALL_RULES)
        page.emulate_media(color_scheme=other)
        found += page.evaluate(_CHECK, _OF_THEME)
        page.set_viewport_size({"width": 390, "height": 800})
        found += page.evaluate(_CHECK, _OF_WIDTH) + self._sideways(390)
        page.emulate_media(color_scheme=one)
        page.set_viewport_size({"width": 320, "height": 800})
        found += page.evaluate(_CHECK, _OF_WIDTH) + self._sideways(320)
        found += [f"cuts off spaced text: {cut}" for cut in page.evaluate(_SPACED)]
        found += self._sideways("320 with spaced text")
        return found + [said for said in self._said if "server responded with a status of" not in said], text

    def _size(self) -> list[str]:
        nodes, requests = self._page.evaluate(_SIZE)
        beyond = {f"{nodes:,} nodes": nodes > _NODES_MAX, f"{requests} requests": requests > _REQUESTS_MAX}
        return [said for said, is_beyond in beyond.items() if is_beyond]

    def _sideways(self, where: object) -> list[str]:
        return [f"scrolls sideways at {where}"] if self._page.evaluate(_SIDEWAYS) else []
