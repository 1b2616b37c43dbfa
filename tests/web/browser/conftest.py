"""One browser and one seeded service for all tests of a worker."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Playwright, sync_playwright
from tests.web.browser.seed import seeded

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Return the browser of this machine; without one the tests are skipped, except in CI."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        assert not os.environ.get("CI"), "install the package chromium: CI runs the tests of the pages"
        pytest.skip("no chromium on PATH: install the package chromium")
    return found


def launched(playwright: Playwright, executable: str) -> Browser:
    """Return a running browser that draws the text of the interface in one font on every machine."""
    fonts = {**os.environ, "FONTCONFIG_FILE": str(Path(__file__).with_name("fonts.conf"))}
    return playwright.chromium.launch(executable_path=executable, args=FLAGS, env=fonts)


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeded")
    kept = {
        "DUTIFUL_AUDIT_LOG": str(folder / "audit.jsonl"),
        "DUTIFUL_OUTPUT_DIR": str(folder / "outputs"),
    }
    with seeded(**kept) as it:
        yield it


# Not for the session: the event loop of Playwright would be in the way of other tests of this worker. Folders
# without an __init__.py are no packages, whose fixtures would live as long as the session.
@pytest.fixture(scope="module")
def browser():
    executable = chromium()
    with sync_playwright() as playwright:
        try:
            running = launched(playwright, executable)
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
        yield running
        running.close()
