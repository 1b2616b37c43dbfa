"""`dutiful config`: the settings of the service as they are in force, and where they come from."""

from __future__ import annotations

import click

from dutiful.cli.output import print_json, print_table
from dutiful.cli.serve import environment
from dutiful.service.settings import effective


@click.command()
@click.option("--config", "config_file", metavar="FILE", help="TOML file of settings; variables override it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(config_file: str | None, as_json: bool) -> None:
    """Print the settings of the service; exit 2 if it could not start with them.

    Secrets are shown as ***.

    Example: TICK_MS=500 dutiful config
    """
    settings = effective(environment(config_file))
    if as_json:
        print_json({each.variable: {"value": each.value, "source": each.source} for each in settings})
    else:
        rows = [[each.variable, each.value or "-", each.source] for each in settings]
        print_table(["variable", "value", "from"], rows)
