"""`dutiful config`: the settings of the service as they are in force, and where they come from."""

from __future__ import annotations

import os

import click

from dutiful.cli.output import print_json, print_table
from dutiful.service.settings import effective


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(as_json: bool) -> None:
    """Print the settings of the service; exit 2 if it could not start with them.

    Secrets are shown as ***.

    Example: TICK_MS=500 dutiful config
    """
    settings = effective(os.environ)
    if as_json:
        print_json({each.variable: {"value": each.value, "source": each.source} for each in settings})
    else:
        rows = [[each.variable, each.value or "-", each.source] for each in settings]
        print_table(["variable", "value", "from"], rows)
