"""Write the pictures of the README and the docs: `make pictures`.

The pages are those of the browser tests, at their fixed clock and without script: the same each time.
They are WebP, because a page takes a third of the bytes that it takes as PNG, and its text stays sharp.
The digests of the drawn pages are written beside them, so that a test can say when a page has changed since.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, sync_playwright  # noqa: E402
from scripts.top_picture import picture  # noqa: E402
from tests.web.browser.conftest import chromium, launched  # noqa: E402
from tests.web.browser.pages import SETTLEMENT  # noqa: E402
from tests.web.browser.seed import seeded  # noqa: E402

if TYPE_CHECKING:
    from tests.web.running import Running

FOLDER = ROOT / "docs" / "pictures"
SIMULATED = ["examples/four_days.toml", "--from", "2026-03-07T12:00Z", "--for", "4d"]
PHONE_STYLE = """<style>
body { display: flex; justify-content: space-evenly; align-items: center; height: 100vh; margin: 0 }
body { background: #87909c }
img { width: 390px; border-radius: 24px }
</style>"""
ENCODE = """async (source) => {
  const image = Object.assign(new Image(), { src: source });
  await image.decode();
  const { width, height } = image;
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", 0.8);
}"""


class Shot(NamedTuple):
    """A page, the height that is shown of it, and the cron text that is typed into its form."""

    name: str
    path: str
    height: int = 800
    typed: str = ""


SHOTS = [
    Shot("overview", "/"),
    Shot("schedules", "/ui/schedules"),
    Shot("schedule", SETTLEMENT, 880),
    Shot("why", "/ui/why?schedule=reports.hourly-emea&at=2026-11-02+14:00", 500),
    Shot("editor", f"{SETTLEMENT}/edit", 860, "15 2 * * 0-5"),
    Shot("calendar", "/ui/calendar"),
    Shot("runs", "/ui/runs", 690),
]
# Side by side in one picture, so that it is no taller than the others.
PHONES = [("/", "light"), (SETTLEMENT, "dark"), ("/ui/calendar", "light")]
THEMES = ("light", "dark")
_UNSEEN = r'<script .*?</script>|data-revision="\d+"|name="csrf" value="\w+"|\?v=\w+|dutiful [\d.]+'


def main() -> None:
    """Write the simulation as SVG, each page in both themes, and the phones."""
    FOLDER.mkdir(exist_ok=True)
    drawn = ["--picture", str(FOLDER / "simulate.svg"), "--lines", "0"]
    command = [sys.executable, "-m", "dutiful", "simulate", *SIMULATED, *drawn]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own command
    with seeded() as service:
        drawn_pages = digests(service)
        with sync_playwright() as playwright:
            _draw_pages(launched(playwright, chromium()), service.url)
        # Last, because it moves the clock.
        os.environ |= {"DUTIFUL_URL": service.url, "DUTIFUL_TOKEN": ""}
        (FOLDER / "top.svg").write_text(picture(service), encoding="utf-8")
    # Written after the pictures: where one cannot be drawn, the test must still say so.
    (FOLDER / "pages.sha256").write_text(drawn_pages, encoding="utf-8")


def _draw_pages(browser: Browser, url: str) -> None:
    for shot in SHOTS:
        for theme in THEMES:
            png = taken(browser, url, shot, theme)
            (FOLDER / f"{shot.name}-{theme}.webp").write_bytes(as_webp(browser, png))
    (FOLDER / "phone.webp").write_bytes(as_webp(browser, phones(browser, url)))
    browser.close()


def digests(service: Running) -> str:
    """Return a line for each drawn page and for their style, in the format of `sha256sum`."""
    lines = [f"{_digest(_drawn(service, shot.path))}  {shot.name}" for shot in SHOTS]
    style = (ROOT / "src/dutiful/web/static/dutiful.css").read_text(encoding="utf-8")
    return "\n".join([*lines, f"{_digest(style)}  style", ""])


def _drawn(service: Running, path: str) -> str:
    """Return the HTML of a page without what differs from run to run, or is not seen in a picture."""
    html = service.client.get(path).text.replace(service.url, "")
    return re.sub(_UNSEEN, "", html)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def taken(browser: Browser, url: str, shot: Shot, theme: str, width: int = 1280) -> bytes:
    """Return a PNG of the page as a reader without script sees it."""
    context = browser.new_context(
        viewport={"width": width, "height": shot.height},
        device_scale_factor=1.5,
        color_scheme=theme,
        java_script_enabled=False,
    )
    page = context.new_page()
    page.goto(url + shot.path)
    if shot.typed:
        page.fill("[name=cron_expr]", shot.typed)
        # A page that is still loading cannot be drawn.
        with page.expect_navigation():
            page.get_by_role("button", name="Preview").click()
    png = page.screenshot()
    context.close()
    return png


def phones(browser: Browser, url: str) -> bytes:
    """Return a PNG of pages as a phone shows them, on a ground that suits both themes."""
    pngs = [taken(browser, url, Shot("phone", path, 844), theme, width=390) for path, theme in PHONES]
    page = browser.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=1.5)
    page.set_content(PHONE_STYLE + "".join(f'<img src="{data_url(png)}">' for png in pngs))
    png = page.screenshot()
    page.close()
    return png


def as_webp(browser: Browser, png: bytes) -> bytes:
    """Return the picture as WebP, encoded by the browser."""
    page = browser.new_page()
    encoded = page.evaluate(ENCODE, data_url(png))
    page.close()
    return base64.b64decode(encoded.partition(",")[2])


def data_url(png: bytes) -> str:
    """Return the picture as an address that holds all of it."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


if __name__ == "__main__":
    main()
