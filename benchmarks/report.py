"""What a section reports: rows of figures with goals, and how they are printed and stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.timing import slowness

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TIMES = {"s", "ms", "us"}


@dataclass(frozen=True, slots=True)
class Goal:
    """One condition on a row, as text, and whether this run satisfied it."""

    text: str
    met: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One measured item: our figure, the peers' figures in the same unit, and the goals on them.

    Lower is better in every row, so `peer / ours` says how many times better we are.
    """

    item: str
    ours: float
    unit: str
    peers: Mapping[str, float]
    goals: tuple[Goal, ...] = ()

    @property
    def met(self) -> bool:
        """Whether every goal holds; a row without goals is there for information."""
        return all(goal.met for goal in self.goals)

    def ratio(self, peer: str) -> float:
        """Return how many times our figure fits into the peer's."""
        return self.peers[peer] / self.ours


@dataclass(frozen=True, slots=True)
class Section:
    """The rows of one benchmark file, with notes on what was compared and how."""

    name: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def times_better(ours: float, peers: Mapping[str, float], factors: Mapping[str, float]) -> tuple[Goal, ...]:
    """Return one goal per peer: its figure is at least `factor` times ours. Absent peers set no goal."""
    return tuple(
        Goal(f">= {factor:g}x {peer}", peers[peer] >= factor * ours)
        for peer, factor in factors.items()
        if peer in peers
    )


def at_most(value: float, limit: float, unit: str) -> Goal:
    """Return the goal that `value` does not exceed `limit`; the unit may be "x something".

    A limit in seconds, or a part of one, is multiplied by how much slower than the reference machine
    this one runs the calibration loop, so that a verdict means the same everywhere.
    """
    if unit.split(maxsplit=1)[0] in TIMES:
        limit *= slowness()
    return Goal(f"<= {limit:.3g}{'' if unit.startswith('x') else ' '}{unit}", value <= limit)


def as_text(section: Section) -> str:
    """Return the section as a table, a peer's cell being its figure and its ratio to ours."""
    peers = list(dict.fromkeys(peer for row in section.rows for peer in row.peers))
    head = ["item", "ours", *peers, "goal", "verdict"]
    body = [_cells(row, peers) for row in section.rows]
    lines = [f"## {section.name}", "", *_table([head, *body])]
    lines += ["", *(f"- {note}" for note in section.notes)] if section.notes else []
    return "\n".join(lines)


def as_json(section: Section) -> dict[str, Any]:
    """Return the section as plain values, with ratios and verdicts spelled out."""
    rows = [
        asdict(row) | {"ratios": {peer: row.ratio(peer) for peer in row.peers}, "met": row.met}
        for row in section.rows
    ]
    return {"name": section.name, "notes": list(section.notes), "rows": rows}


def summary(sections: list[Section]) -> str:
    """Return the count of goals met and a line for each row that misses one."""
    goals = [goal for section in sections for row in section.rows for goal in row.goals]
    lines = [f"{sum(goal.met for goal in goals)} of {len(goals)} goals met"]
    lines += [
        f"NOT met: {section.name}: {row.item}: {_missed(row)}"
        for section in sections
        for row in section.rows
        if not row.met
    ]
    return "\n".join(lines)


def _cells(row: Row, peers: list[str]) -> list[str]:
    figures = [
        f"{_figure(row.peers[peer])} ({_figure(row.ratio(peer))}x)" if peer in row.peers else "-"
        for peer in peers
    ]
    goal = ", ".join(goal.text for goal in row.goals) or "-"
    return [row.item, f"{_figure(row.ours)} {row.unit}", *figures, goal, _verdict(row)]


def _verdict(row: Row) -> str:
    if not row.goals:
        return "-"
    return "met" if row.met else f"NOT met: {_missed(row)}"


def _missed(row: Row) -> str:
    return ", ".join(goal.text for goal in row.goals if not goal.met)


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _table(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ruled = [rows[0], ["-" * width for width in widths], *rows[1:]]
    for row in ruled:
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
