"""A picture of a run: what was done to whom, and how late each tick was called."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.excuses import Deed
    from tests.cluster.judge import Evidence

WIDTH, LEFT, ROW, SCALE = 1200, 110, 16, 60.0
# A label is left out where the one before it in its lane needs the space; the tooltip has it.
LABEL = 50


def timeline(evidence: Evidence, deeds: list[Deed]) -> str:
    """Return an SVG: a lane of deeds for each target, and a dot for each call, higher the later it came."""
    first, last = evidence.first, evidence.last
    per_second = (WIDTH - LEFT - 20) / max(1, last - first)
    lanes = sorted({_lane(deed.target) for deed in deeds})
    parts = [_text(5, 20 + ROW * row, lane) for row, lane in enumerate(lanes)]
    free = dict.fromkeys(lanes, 0.0)
    for deed in deeds:
        lane = _lane(deed.target)
        x, y = LEFT + (deed.at - first) * per_second, 20 + ROW * lanes.index(lane)
        width = max(1, (deed.until - deed.at) * per_second)
        tip = f"<title>{escape(deed.kind)} {escape(deed.target)}</title>"
        parts.append(
            f'<rect x="{x:.1f}" y="{y - 8}" width="{width:.1f}" height="10" fill="#fbb">{tip}</rect>'
        )
        if x >= free[lane]:
            parts.append(_text(x + 2, y, deed.kind))
            free[lane] = x + LABEL
    ground = 40 + ROW * len(lanes) + 2 * SCALE
    parts += [_text(5, ground - _height(late), f"{late:g} s late") for late in (0, 1, 4)]
    for seen in evidence.log:
        # Runs by hand and of the past are late by nature.
        if seen.source != "schedule" or seen.tick < first:
            continue
        x, late = LEFT + (seen.tick - first) * per_second, max(0.0, seen.at - seen.tick)
        colour = "#06c" if seen.attempt == 1 else "#e80"
        y = ground - _height(late)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.5" fill="{colour}"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ground + 20:.0f}">'
    return f'{head}<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'


def _lane(target: str) -> str:
    """Return the lane of a target: one for all schedules, and one for each node and the database."""
    return target if target.startswith(("worker", "api", "database")) else "schedules"


def _height(late: float) -> float:
    """Return how high a call is drawn: by the root, so that tenths of a second and seconds both show."""
    return SCALE * min(2.0, late**0.5)


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="9" font-family="sans-serif">{escape(text)}</text>'
