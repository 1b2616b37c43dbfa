"""The options for the output of commands: --json and --csv for programs, --color for people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from dutiful.cli.output import print_csv, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Form = Literal["text", "json", "csv"]
C = TypeVar("C", bound="Callable[..., Any]")

_COLOR = {"always": True, "never": False}


def _set_color(context: click.Context, _option: click.Parameter, value: str) -> None:
    is_refused = value == "auto" and bool(os.environ.get("NO_COLOR"))
    context.color = False if is_refused else _COLOR.get(value)


color = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    metavar="WHEN",
    expose_value=False,
    callback=_set_color,
    help="Colour the output: auto, always or never.",
)


# For a command that changes something: its answer is one document.
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def reading(command: C) -> C:
    """Add --json, --csv and --color to a command; it gets the chosen `form`."""
    for option in (
        color,
        click.option("--csv", "form", flag_value="csv", help="Print CSV; its first line has the names."),
        click.option("--json", "form", flag_value="json", default="text", help="Print JSON."),
    ):
        command = option(command)
    return command


def show(
    form: Form,
    document: Any,
    text: Callable[[], object],
    *,
    lines: Sequence[dict[str, Any]] | None = None,
    fields: Sequence[str] | None = None,
) -> None:
    """Print a document as JSON, its lines as CSV, or call `text`. Without `lines` the document is one line.

    `fields` are the names of the CSV, by default those of its first line.
    """
    if form == "json":
        print_json(document)
    elif form == "csv":
        rows = [document] if lines is None else lines
        print_csv(rows, fields or [*(rows[0] if rows else ())])
    else:
        text()
