"""Waiting for the running fleet: for the end of a run, and for the end of its process."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 0.25
_ENDED = ("SUCCESS", "FAILED", "SKIPPED")


def wait_for_run(look: Callable[[], Any]) -> Any:
    """Return the run as soon as `look` returns it ended."""
    while True:
        found = look()
        if found is not None and found["status"] in _ENDED:
            return found
        asyncio.run(SystemClock().sleep(_SECONDS))


def wait_for_end(pid: int, seconds: float) -> bool:
    """Return whether a process has ended within so many seconds."""
    clock = SystemClock()
    until = clock.monotonic() + seconds
    while _lives(pid):
        if clock.monotonic() >= until:
            return False
        asyncio.run(clock.sleep(_SECONDS))
    return True


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A zombie has ended; only its parent has not asked for its exit code yet.
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return state.split()[0] != "Z"
