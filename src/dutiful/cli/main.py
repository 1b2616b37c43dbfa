"""The root of the command line. Each command's module is imported on its first use."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dutiful.cli.output import Group
from dutiful.core.errors import DutifulError

if TYPE_CHECKING:
    from types import TracebackType


class Entry(NamedTuple):
    """One command: its location, the extra that installs its imports, and its summary."""

    home: str
    extra: str
    summary: str


# The summaries are repeated here, so that the help imports no command: a command's module may need packages
# that are not installed. A test compares the two.
COMMANDS = {
    "apply": Entry(
        "dutiful.cli.plan:apply",
        "service",
        "Store the schedules of files, all or none, after showing the plan and asking.",
    ),
    "audit": Entry(
        "dutiful.cli.audit:audit",
        "service",
        "Verify an audit log: each line has the hash of the one before.",
    ),
    "cluster": Entry(
        "dutiful.cli.cluster:cluster",
        "service",
        "Look at the workers that share one database, and move their shards.",
    ),
    "config": Entry(
        "dutiful.cli.doctor:config",
        "service",
        "Print the settings of the service; exit 2 if it could not start with them.",
    ),
    "cron": Entry(
        "dutiful.cli.cron:cron",
        "cli",
        "Ask a cron text when it fires, what it means and what is odd about it.",
    ),
    "doctor": Entry(
        "dutiful.cli.doctor:doctor",
        "service",
        "Check settings, store, clock and executor; exit 1 if the service could not do its work.",
    ),
    "explain": Entry(
        "dutiful.cli.schedules:explain",
        "service",
        "Say why a tick ran, did not run, or will run, and which checks it passed.",
    ),
    "fleet": Entry(
        "dutiful.cli.fleet:fleet", "fleet", "Run a fleet of agents from a YAML file, ask it and tell it."
    ),
    "import": Entry(
        "dutiful.cli.imports:import_",
        "cli",
        "Make a schedule file from what another scheduler runs, and list what differs.",
    ),
    "load": Entry(
        "dutiful.cli.load:load",
        "cli",
        "Show how many ticks each minute of a day has, and suggest a stagger.",
    ),
    "monitor": Entry(
        "dutiful.cli.monitor:monitor", "cli", "Check a recorded trace; exit 1 if it breaks an axiom."
    ),
    "plan": Entry(
        "dutiful.cli.plan:plan",
        "service",
        "Say what schedules in files would change, and which fire times; store nothing.",
    ),
    "receiver": Entry(
        "dutiful.cli.receiver:receiver", "receivers", "Take runs from a queue, without a line of Python."
    ),
    "run": Entry(
        "dutiful.cli.run:run", "cli", "Run the tasks that a Python module registers, until SIGINT or SIGTERM."
    ),
    "schedules": Entry(
        "dutiful.cli.schedules:schedules",
        "service",
        "Look at and change the schedules of a running service.",
    ),
    "serve": Entry(
        "dutiful.cli.serve:serve",
        "service",
        "Run the service, HTTP and a worker in a process of its own, until SIGINT or SIGTERM.",
    ),
    "simulate": Entry(
        "dutiful.cli.simulate:simulate",
        "cli",
        "Run the real engine over a schedule file on a virtual clock.",
    ),
    "store": Entry(
        "dutiful.cli.store:store", "cli", "Make a store ready, look it over, or copy it to another one."
    ),
    "tasks": Entry(
        "dutiful.cli.tasks:tasks", "cli", "Look at and steer the tasks of a scheduler, through its store."
    ),
    "token": Entry("dutiful.cli.token:token", "service", "Print a token for development."),
    "top": Entry(
        "dutiful.cli.top:top",
        "service",
        "Watch schedules on a terminal: what needs you, what runs, what is next, and why.",
    ),
    "worker": Entry(
        "dutiful.cli.serve:worker",
        "service",
        "Run a worker without HTTP, in the same environment as the service, until SIGINT or SIGTERM.",
    ),
}


class LazyGroup(Group):
    """The group of all commands, each imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].home.partition(":")
        try:
            command: click.Command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            # Shell completion would print a refusal, with its traceback, into the line that is being
            # completed.
            if ctx.resilient_parsing:
                return click.Command(cmd_name)
            _refuse_without_extra(cmd_name, error)
            raise
        return command

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:  # noqa: ARG002
        """Return names and summaries from the table, without importing a command."""
        return [(name, COMMANDS[name].summary) for name in sorted(COMMANDS)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; errors of dutiful are shown without a traceback."""
        try:
            return super().invoke(ctx)
        except DutifulError as error:
            raise click.UsageError(str(error), ctx=None) from error
        except ModuleNotFoundError as error:
            _refuse_without_extra(ctx.invoked_subcommand or "", error)
            raise


def _refuse_without_extra(command: str, error: ModuleNotFoundError) -> None:
    """Raise a ClickException that names the extra to install, if dutiful's own import failed."""
    if command in COMMANDS and _is_import_of_dutiful(error.__traceback__):
        advice = f'pip install "dutiful[{_extras(COMMANDS[command].extra, error.name or "")}]"'
        message = f"dutiful {command} needs {error.name}, which is not installed: {advice}"
        raise click.ClickException(message) from error


def _extras(own: str, package: str) -> str:
    """Return the extra of a command, and the extra that brings this package if that is another one."""
    # Imported here, because it loads much that no other start of the command needs.
    from importlib.metadata import requires

    named = re.compile(rf"{re.escape(package)}\b.*\bextra == ['\"](\w+)['\"]", re.IGNORECASE)
    brought = [found[1] for text in requires("dutiful") or () if (found := named.match(text))]
    return own if own in brought or not brought else f"{own},{brought[0]}"


def _is_import_of_dutiful(traceback: TracebackType | None) -> bool:
    """Return whether the import that failed is written in dutiful, not in a user's module."""
    name = ""
    while traceback is not None:
        name = traceback.tb_frame.f_globals.get("__name__", "")
        traceback = traceback.tb_next
    return name.startswith("dutiful.")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dutiful", prog_name="dutiful")
def cli() -> None:
    """A scheduler that keeps its obligations.

    Exit codes: 0 ok, 1 something wrong was found, 2 bad usage.

    Example: dutiful cron next "0 9 * * 1-5"
    """
