"""Write the pictures of the README and the docs: `make pictures`.

The pages are those of the browser tests, at their fixed clock and without script: the same each time.
They are WebP, because a page takes a third of the bytes that it takes as PNG, and its text stays sharp.
The digests of the drawn pages are written beside them, so that a test can say when a page has changed since.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import chdir, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, sync_playwright  # noqa: E402
from scripts.fleet_picture import fleet  # noqa: E402
from scripts.top_picture import picture  # noqa: E402
from tests.web.browser.conftest import chromium, launched  # noqa: E402
from tests.web.browser.pages import SETTLEMENT  # noqa: E402
from tests.web.browser.seed import NOW, seeded  # noqa: E402
from tests.web.pages.test_forms import csrf, post  # noqa: E402
from tests.web.running import running  # noqa: E402

from dutiful.core.schedule import tick_key  # noqa: E402
from dutiful.process.output_log import OutputFolder  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.web.running import Running

FOLDER = ROOT / "docs" / "pictures"
# The drawings that commands make: the name of the picture, and what follows `dutiful`.
DRAWINGS = {
    "simulate": "simulate examples/four_days.toml --from 2026-03-07T12:00Z --for 4d --lines 0",
    "scheduler": "simulate examples/library_day.toml --from 2026-03-02T06:00Z --for 1d --lines 0",
    "dst": "simulate examples/clock_change.toml --from 2026-03-27T12:00Z --for 4d --lines 0",
    "load": "load examples/crowded_hours.toml --from 2026-03-02 --spread 30m",
}
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


# The run that failed on the morning of the pictures, and what its command printed.
FAILED = tick_key(
    SETTLEMENT.rpartition("/")[2], int(datetime(2026, 11, 2, 6, 30, tzinfo=UTC).timestamp()) * 1000
)
PRINTED = b"""settling us-east for 2026-11-01
read 18,204 entries from the exchange
posting to ledger-db.internal:5432
ConnectionRefusedError: ledger-db.internal:5432
"""


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
    Shot("run", f"/ui/runs/{FAILED}", 700),
    Shot("pause", f"{SETTLEMENT}/pause", 560),
    Shot("cron", "/ui/cron?e=30+2+*+*+*&tz=America/New_York", 800),
    Shot("audit", "/ui/audit", 640),
    Shot("system", "/ui/system", 864),
]
FLEET = Shot("fleet", "/", 860)
LOGIN = Shot("login", "/ui/login", 410)
# Side by side in one picture, so that it is no taller than the others.
PHONES = [("/", "light"), (SETTLEMENT, "dark"), ("/ui/calendar", "light")]
THEMES = ("light", "dark")
# Scripts, what the service draws by chance, and what a new version changes everywhere.
_UNSEEN = "|".join(
    [
        "<script .*?</script>",
        r'data-revision="\w+"',
        r'name="csrf" value="\w+"',
        "[0-9a-f]{8}…[0-9a-f]{4}",
        '="[0-9a-f]{64}"',
        r"\?v=\w+",
        r"dutiful [\d.]+",
    ]
)


@contextmanager
def pictured() -> Iterator[Running]:
    """Run the service of the browser tests with an audit log and the output of one run."""
    # The pages name these files, so their paths are relative: the same on every machine.
    kept = {"DUTIFUL_AUDIT_LOG": "audit.jsonl", "DUTIFUL_OUTPUT_DIR": "output"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder), seeded(**kept) as service:
        log = OutputFolder(Path("output")).open(FAILED)
        assert log is not None
        log.write(PRINTED)
        log.close()
        yield service


@contextmanager
def guarded() -> Iterator[Running]:
    """Run a service that takes tokens, whose pages begin with a login."""
    key = {"alg": "HS256", "key": base64.urlsafe_b64encode(bytes(32)).decode().rstrip("=")}
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys.json"
        keys.write_text(json.dumps({"keys": {"2026-11": key}}), encoding="utf-8")
        tokens = {"DUTIFUL_JWT_ISSUER": "https://login.example.com", "DUTIFUL_JWT_AUDIENCE": "dutiful"}
        with running(None, start=NOW, DUTIFUL_JWT_KEYS=str(keys), **tokens) as service:
            yield service


def main() -> None:
    """Write the drawings of commands as SVG, each page in both themes, and the phones."""
    FOLDER.mkdir(exist_ok=True)
    for name, words in DRAWINGS.items():
        command = [sys.executable, "-m", "dutiful", *words.split(), "--picture", str(FOLDER / f"{name}.svg")]
        subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own command
    with fleet() as fleet_page, guarded() as login, pictured() as service:
        drawn_pages = digests(service, fleet_page, login)
        with sync_playwright() as playwright:
            _draw_pages(launched(playwright, chromium()), service, fleet_page, login)
        # Last, because it moves the clock.
        os.environ |= {"DUTIFUL_URL": service.url, "DUTIFUL_TOKEN": ""}
        (FOLDER / "top.svg").write_text(picture(service), encoding="utf-8")
    # Written after the pictures: where one cannot be drawn, the test must still say so.
    (FOLDER / "pages.sha256").write_text(drawn_pages, encoding="utf-8")


def _pages(service: Running, fleet_page: Any, login: Running) -> list[tuple[Shot, Any]]:
    return [*((shot, service) for shot in SHOTS), (FLEET, fleet_page), (LOGIN, login)]


def _draw_pages(browser: Browser, service: Running, fleet_page: Any, login: Running) -> None:
    for shot, place in _pages(service, fleet_page, login):
        for theme in THEMES:
            png = taken(browser, place.url, shot, theme)
            (FOLDER / f"{shot.name}-{theme}.webp").write_bytes(as_webp(browser, png))
    (FOLDER / "phone.webp").write_bytes(as_webp(browser, phones(browser, service.url)))
    browser.close()


def digests(service: Running, fleet_page: Any, login: Running) -> str:
    """Return a line for each drawn page and for their style, in the format of `sha256sum`."""
    pages = _pages(service, fleet_page, login)
    lines = [f"{_digest(_drawn(place, shot))}  {shot.name}" for shot, place in pages]
    style = (ROOT / "src/dutiful/web/static/dutiful.css").read_text(encoding="utf-8")
    return "\n".join([*lines, f"{_digest(style)}  style", ""])


def _drawn(service: Running, shot: Shot) -> str:
    """Return the HTML of a page without what differs from run to run, or is not seen in a picture."""
    if shot.typed:
        answer = post(service, shot.path, csrf(service, shot.path), do="preview", cron_expr=shot.typed)
    else:
        answer = service.client.get(shot.path)
    assert answer.status_code == 200, answer.text
    return re.sub(_UNSEEN, "", answer.text.replace(service.url, ""))


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
