"""`dutiful fleet`: run the fleet of a file, ask it and tell it."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.fleet_ask import asked, instant, named
from dutiful.cli.fleet_example import FLEET
from dutiful.cli.fleet_tables import Tables, terminal_width
from dutiful.cli.group import Group
from dutiful.cli.output import print_json
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable


def _there(_: click.Context, __: click.Parameter, path: Path) -> Path:
    if not path.exists():
        advice = "write one with `dutiful fleet init`, or name yours with --file"
        raise click.UsageError(f"there is no fleet file {path}; {advice}")
    return path


_PATH = click.Path(path_type=Path)
_file = click.option(
    "--file", "-f", "path", type=_PATH, default="fleet.yaml", show_default=True, callback=_there,
    help="The fleet file.",
)  # fmt: skip
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_name = click.argument("name", metavar="AGENT/SCHEDULE")


@click.group(cls=Group)
def fleet() -> None:
    """Run a fleet of agents from a YAML file, ask it and tell it.

    Reads work without a running fleet too, as far as its files tell. Exit code 1 if the fleet does not
    run, refuses, or had to be stopped with jobs running; 2 for a name or a file that is not there.

    Example: dutiful fleet init && dutiful fleet start
    """


@fleet.command()
@click.option(
    "--file", "-f", "path", type=click.Path(path_type=Path), default="fleet.yaml", show_default=True
)
def init(path: Path) -> None:
    """Write an example fleet, with comments, that runs as it is.

    Nothing is overwritten.

    Example: dutiful fleet init
    """
    try:
        with path.open("x", encoding="utf-8") as opened:
            opened.write(FLEET)
    except FileExistsError:
        raise click.ClickException(f"{path} is there already; name another one with --file") from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written ({error.strerror})") from error
    click.echo(f"Wrote {path}. Next: dutiful fleet start{_option(path)}")


def _option(path: Path) -> str:
    return "" if str(path) == "fleet.yaml" else f" --file {path}"


@fleet.command()
@_file
@_json
def validate(path: Path, as_json: bool) -> None:
    """Print every problem of a fleet file; exit 1 if there is one.

    The files that it includes are read too. Nothing is run.

    Example: dutiful fleet validate --file fleet.yaml
    """
    from dutiful.fleet.errors import FleetConfigError
    from dutiful.fleet.file.config import read_fleet

    found, files = read_fleet(path)
    problems = found.problems if isinstance(found, FleetConfigError) else ()
    agents = () if isinstance(found, FleetConfigError) else found.agents
    schedules = sum(len(agent.schedules) for agent in agents)
    if as_json:
        rows = [
            {"file": p.file, "line": p.line, "path": p.path, "message": p.message, "text": str(p)}
            for p in problems
        ]
        counts = {"files": [str(file) for file in files], "agents": len(agents), "schedules": schedules}
        print_json({**counts, "problems": rows})
    elif not problems:
        click.echo(f"ok: {len(agents)} agents with {schedules} schedules in {len(files)} file(s)")
    for problem in () if as_json else problems:
        click.echo(str(problem))
    sys.exit(1 if problems else 0)


@fleet.command()
@_file
@click.option("--timeout", type=click.FloatRange(min=0), default=30.0, show_default=True, metavar="SECONDS",
              help="How long to wait for running jobs when stopped.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings.")
def start(path: Path, timeout: float, quiet: bool) -> None:
    """Run the fleet in the foreground, until SIGINT or SIGTERM.

    The first signal lets running jobs end, for --timeout seconds: exit code 0. After that, or at a second
    signal, they are killed: exit code 1. Jobs run in the directory of the file.

    Example: dutiful fleet start --timeout 60
    """
    from dutiful.cli.fleet_start import run_in_foreground

    run_in_foreground(path, timeout, quiet=quiet)


@fleet.command()
@_file
@_json
@click.option("--watch", "-w", is_flag=True, help="Keep looking, once a second.")
def status(path: Path, as_json: bool, watch: bool) -> None:
    """Print what the fleet does now.

    Its agents, and its jobs with the latest line of their output.

    Example: dutiful fleet status --watch
    """
    ask = {"ask": "status"}
    if not watch:
        _show(asked(path, ask), as_json, lambda tables, found: tables.status(found))
        return
    from dutiful.cli.fleet_watch import watch_status

    def draw() -> str:
        found = asked(path, ask)
        return json.dumps(found) if as_json else _tables().status(found)

    with suppress(KeyboardInterrupt):
        watch_status(draw, live=sys.stdout.isatty() and not as_json)


@fleet.command()
@_file
@_json
def schedules(path: Path, as_json: bool) -> None:
    """Print every schedule: why it does not run now, its last and next run.

    What went wrong last is in a table of its own.

    Example: dutiful fleet schedules --json
    """
    _show(asked(path, {"ask": "schedules"}), as_json, lambda tables, found: tables.schedules(found))


@fleet.command()
@_name
@_file
@_json
def enable(name: str, path: Path, as_json: bool) -> None:
    """Put a schedule back into service.

    Exit code 1 if the file itself has it disabled.

    Example: dutiful fleet enable watcher/disk
    """
    found = asked(path, {"ask": "enable", **named(name)})
    _show(found, as_json, lambda *_: f"{name} is {found['status']}")
    if found["status"] == "disabled":
        raise click.ClickException(f"{name} stays disabled: {path} says `enabled: false`; change it there")


@fleet.command()
@_name
@_file
@_json
def disable(name: str, path: Path, as_json: bool) -> None:
    """Take a schedule out of service.

    It stays so after a restart. A job that runs is left to end.

    Example: dutiful fleet disable watcher/disk
    """
    found = asked(path, {"ask": "disable", **named(name)})
    _show(found, as_json, lambda *_: f"{name} is {found['status']}")


@fleet.command()
@_name
@_file
@_json
@click.option("--prompt", "-p", help="What to tell the agent this once.")
def run(name: str, path: Path, as_json: bool, prompt: str | None) -> None:
    """Have a schedule run now.

    Whatever its type, and whether it is disabled. Exit code 1 if the fleet does not run or the agent has
    no place left.

    Example: dutiful fleet run reporter/on-demand --prompt "Write about disks."
    """
    found = asked(path, {"ask": "run", **named(name), "prompt": prompt})
    _show(found, as_json, lambda *_: f"{name} begins with the next check")


@fleet.command()
@_name
@_file
@_json
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=20, show_default=True)
def history(name: str, path: Path, as_json: bool, limit: int) -> None:
    """Print what became of the last occurrences, newest first.

    Example: dutiful fleet history watcher/disk --limit 5
    """
    found = asked(path, {"ask": "history", **named(name), "limit": limit})
    _show(found, as_json, lambda tables, runs: tables.history(runs) if runs else f"{name} has no history yet")


@fleet.command()
@_name
@_file
@_json
@click.option("--at", metavar="ISO", help="Instant, or local time of this machine [default: now].")
def explain(name: str, path: Path, as_json: bool, at: str | None) -> None:
    """Say why a schedule ran at a time, did not, or will.

    Example: dutiful fleet explain watcher/disk --at 2026-03-08T09:00
    """
    found = asked(path, {"ask": "explain", **named(name), "at": instant(at).isoformat()})
    _show(found, as_json, lambda tables, verdict: tables.explanation(verdict))


def _tables() -> Tables:
    clock = SystemClock()
    return Tables(clock.now(), clock.timezone, terminal_width())


def _show(found: Any, as_json: bool, draw: Callable[[Tables, Any], str]) -> None:
    if as_json:
        print_json(found)
    else:
        click.echo(draw(_tables(), found))
