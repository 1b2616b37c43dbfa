"""Write docs/pictures/top.svg: one frame of `dutiful top`, of made-up schedules at a fixed time."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from dutiful.cli.top_frame import Row, Screen, Shown, frame

PATH = Path(__file__).resolve().parents[1] / "docs/pictures/top.svg"
NOW = datetime(2026, 11, 2, 14, 5, 12, tzinfo=UTC)
WHY = (
    "reports.hourly-emea at 2026-11-02T14:00:00Z was SKIPPED: overlap, because the run of 07:00 is still"
    " in flight; decided by overlap_policy=skip"
)


def row(name: str, state: str, when: str, past: str, last: float, following: float, note: str) -> Row:
    """Return a row; `past` has a letter for each tick, times are hours from now."""
    names = {"r": "ran", "f": "failed", "s": "skipped", ">": "running", "h": "hand", "b": "backfilled"}
    at, due = NOW - timedelta(hours=last), NOW + timedelta(hours=following)
    return Row(name, state, when, [names[letter] for letter in past], 3, at, due, note)


ROWS = [
    row("settlement.us-east", "failed", "At 01:30, New York", "rrfrrrrrsrrrrrrrrrrf", 7, 16, "task_failed"),
    row("billing.dunning", "failed", "At 09:30, New York", "rrrrrrrrrrrrrrfrrrbf", 0.6, 23, "launch_failed"),
    row("reports.hourly-emea", "skipped", "Hourly, UTC", "rrrrrrrrrrrrr>ssssss", 0.1, 0.9, "overlap, 7 x"),
    row("search.reindex", "skipped", "Every 10 minutes, UTC", "rrrrrrrrrrrrrhrrsss", 0.1, 0.1, "at_capacity"),
]
DAY = [
    {
        "at": (NOW + timedelta(minutes=minutes)).isoformat(),
        "ran": 0 if minutes > 0 else 200 + 900 * (minutes % 60 == 0),
        "failed": int(minutes in {-420, -40}),
        "to_come": 0 if minutes <= 0 else 200 + 900 * (minutes % 60 == 0) + 4000 * (minutes == 600),
    }
    for minutes in range(-720, 720, 20)
]
SHOWN = Shown(
    "127.0.0.1:8787",
    NOW,
    "working, pass 0.4 s ago",
    True,
    "12,480 schedules, 38 paused",
    ROWS,
    {"needs": 4, "running": 23, "all": 12_480},
    {
        "due": 41_208,
        "ran": 40_961,
        "failed": 12,
        "open": 0,
        "unaccounted": 0,
        "skipped": {"overlap": 143, "missed": 92},
        "drift_p50_s": 0.012,
        "drift_p99_s": 0.18,
    },
    DAY,
)


def picture() -> str:
    """Return the SVG of the frame."""
    console = Console(record=True, width=120, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    for line in frame(SHOWN, Screen(width=120, height=14, chosen=2, why=WHY)):
        console.print(line if line.plain else Text(" "), crop=True)
    # A picture loads nothing from elsewhere: without the fonts of the template, the reader's own are used.
    template = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="dutiful top", unique_id="top", code_format=template)


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(picture(), encoding="utf-8")
