"""The root of the command line. Groups are imported when they are used, so that it starts fast."""

from __future__ import annotations

import importlib
from typing import Any

import click

from dutiful.core.errors import DutifulError

# Command group -> module and attribute that hold it.
_GROUPS = {
    "audit": "dutiful.cli.audit:audit",
    "config": "dutiful.cli.config:config",
    "cron": "dutiful.cli.cron:cron",
    "fleet": "dutiful.cli.fleet:fleet",
    "monitor": "dutiful.cli.monitor:monitor",
    "run": "dutiful.cli.run:run",
    "schedules": "dutiful.cli.schedules:schedules",
    "serve": "dutiful.cli.serve:serve",
    "simulate": "dutiful.cli.simulate:simulate",
    "worker": "dutiful.cli.serve:worker",
    "token": "dutiful.cli.token:token",
}


class LazyGroup(click.Group):
    """A group whose members are imported on first use; errors of dutiful become exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all groups."""
        return sorted(_GROUPS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one group."""
        if cmd_name not in _GROUPS:
            return None
        module, _, attribute = _GROUPS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; what dutiful refuses is the user's to mend, without a traceback."""
        try:
            return super().invoke(ctx)
        except DutifulError as error:
            raise click.UsageError(str(error), ctx=None) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dutiful", prog_name="dutiful")
def cli() -> None:
    """A scheduler that keeps its obligations.

    Exit codes: 0 ok, 1 something wrong was found, 2 bad usage.
    """
