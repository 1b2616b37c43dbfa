"""One browser and one seeded service for all tests of a worker, and one tab for all tests of a module."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Playwright, sync_playwright
from tests.web.browser.inspection import Inspection
from tests.web.browser.seed import seeded

# Chromium has two pages of its own for the address bar of each window: half of what a window costs.
# The last list of features counts, so those that Playwright leaves out are named again.
_FEATURES = (
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,"
    "HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,MediaRouter,PaintHolding,OptimizationHints,AimEnabled"
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    f"--disable-features={_FEATURES}",
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


# Neither for the session, where the event loop of Playwright would be in the way of other tests of this
# worker, nor for each module, because a browser takes as long to start as ten pages to load.
_open = ExitStack()


@cache
def opened() -> Browser:
    """Return the browser of all tests of this folder that this worker runs in a row."""
    executable = chromium()
    _open.callback(opened.cache_clear)
    try:
        running = launched(_open.enter_context(sync_playwright()), executable)
    except Error as error:
        _open.close()
        if os.environ.get("CI"):
            raise
        pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
    _open.callback(running.close)
    return running


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem):
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _open.close()


@pytest.fixture(scope="module")
def browser():
    return opened()


@pytest.fixture(scope="module")
def tab(browser):
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def page(tab):
    """The tab of this module as if it were new; a new one would take as long as four pages."""
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.emulate_media(color_scheme="light", forced_colors="none")
    yield tab
    tab.unroute_all()
    tab.evaluate("localStorage.clear()")
    tab.context.clear_cookies()


@pytest.fixture(scope="module")
def inspection(browser):
    context = browser.new_context()
    yield Inspection(context)
    context.close()
