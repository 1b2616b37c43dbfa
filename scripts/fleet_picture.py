"""The made-up fleet of the pictures: two agents work, and one has failed."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.web.test_fleet_page import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = """
version: 1
check_interval: 1m
defaults:
  job: {type: python, call: "scripts.fleet_picture:answer"}
agents:
  - name: reviewer
    default_prompt: Review the open pull requests.
    instances: {max_concurrent: 2}
    schedules:
      pull-requests:
        type: interval
        interval: 10m
        job: {type: python, call: "scripts.fleet_picture:work", timeout: 8h}
      stale-issues: {type: cron, expression: "0 7 * * mon-fri"}
      on-push: {type: webhook}
  - name: reporter
    default_prompt: Write the report.
    instances: {max_concurrent: 1}
    schedules:
      weekly:
        type: interval
        interval: 2h
        job: {type: python, call: "scripts.fleet_picture:work", timeout: 8h}
      every-hour: {type: cron, expression: "0 * * * *"}
  - name: watcher
    default_prompt: Look at the disks.
    instances: {max_concurrent: 3}
    schedules:
      disk: {type: interval, interval: 15m}
      backup-age:
        type: interval
        interval: 30m
        job: {type: python, call: "scripts.fleet_picture:fail"}
"""

_WORKING: list[asyncio.Event] = []


async def answer(request: Any) -> str:
    """Do the prompt at once."""
    return f"{request.prompt} Done: 3 found, 1 mended."


async def work(_request: Any) -> None:
    """Work until the pictures are drawn."""
    _WORKING.append(done := asyncio.Event())
    await done.wait()


async def fail(_request: Any) -> None:
    """Fail."""
    raise RuntimeError("the newest backup is 31 hours old")


@contextmanager
def fleet() -> Iterator[Any]:
    """Serve the page of the fleet, 65 minutes after its start."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.yaml"
        path.write_text(FILE, encoding="utf-8")
        with serving(path, runs=2) as running:
            running.advance(3900)
            # The page shows the path of its file, which a picture should not have from this machine.
            running.daemon.watched.path = Path("/srv/fleet/fleet.yaml")
            yield running
            for done in _WORKING:
                running.loop.call_soon_threadsafe(done.set)
