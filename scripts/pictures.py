"""Write the pictures of the README and the docs: `make pictures`.

The overview is that of the browser tests, at their fixed clock and without script: the same each time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402
from tests.web.browser.conftest import chromium, launched  # noqa: E402
from tests.web.browser.seed import seeded  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SIMULATED = ["examples/four_days.toml", "--from", "2026-03-07T12:00Z", "--for", "4d"]


def main() -> None:
    """Write the simulation as SVG, and the overview as PNG in both themes."""
    PICTURES.mkdir(exist_ok=True)
    drawn = ["--picture", str(PICTURES / "simulate.svg"), "--lines", "0"]
    command = [sys.executable, "-m", "dutiful", "simulate", *SIMULATED, *drawn]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603 - our own command
    with seeded() as service, sync_playwright() as playwright:
        browser = launched(playwright, chromium())
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": 1280, "height": 800},
                device_scale_factor=2,
                color_scheme=theme,
                java_script_enabled=False,
            )
            page = context.new_page()
            page.goto(service.url)
            page.screenshot(path=PICTURES / f"overview-{theme}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
