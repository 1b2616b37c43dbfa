"""A command group whose help shows every summary whole."""

from __future__ import annotations

import click

# Longer than any summary: click cuts a summary that does not fit on one line, and this keeps it from cutting.
_WHOLE = 1000


class Group(click.Group):
    """A click group whose help wraps long summaries instead of cutting them."""

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return the name and the summary of each command that is not hidden."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in commands
            if command is not None and not command.hidden
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))
