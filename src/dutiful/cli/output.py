"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import click

_GAP = "  "
# Below this a column says nothing.
_NARROWEST = 8


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns, without trailing blanks; on a terminal, no wider than it is."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    if sys.stdout.isatty():
        widths = fitted(widths, shutil.get_terminal_size().columns)
    for row in (head, *rows):
        cells = [_cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo(_GAP.join(cells).rstrip())


def fitted(widths: list[int], room: int) -> list[int]:
    """Return the widths of columns, the widest made narrower until all have room, if they can."""
    widths, left = [*widths], room - len(_GAP) * (len(widths) - 1)
    while sum(widths) > left and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"
