"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

import click


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns, without trailing blanks."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())
