"""`dutiful fleet`: run the fleet of a file, and ask and command the running fleet."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dutiful.cli.fleet_client import (
    agent_or_named,
    ask_to_stop,
    asked,
    instant,
    named,
    run_in_foreground,
    wait_for_end,
    wait_for_run,
)
from dutiful.cli.fleet_display import Tables, show_logs, terminal_width, watch_status
from dutiful.cli.output import Form, Group, as_json, counted, is_coloured, print_json, reading, show
from dutiful.fleet.control.socket import running_fleet
from dutiful.fleet.errors import ScheduleNotFoundError
from dutiful.fleet.types import ScheduleSkipReason
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

C = TypeVar("C", bound="Callable[..., Any]")

# Ctrl-C ends `asyncio.run` with the second of these if it comes before the first step of the task.
_INTERRUPTS = KeyboardInterrupt, asyncio.CancelledError


def _there(_: click.Context, __: click.Parameter, path: Path) -> Path:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        advice = "write one with `dutiful fleet init`, or name yours with --file"
        raise click.UsageError(f"there is no fleet file {path}; {advice}") from None
    except OSError as error:
        advice = "check its path, and the permissions of its directory"
        raise click.UsageError(f"{path} cannot be reached ({error.strerror}); {advice}") from None
    return path


_EXAMPLE = Path(__file__).with_name("fleet_example.yaml")
_PATH = click.Path(path_type=Path)
_file = click.option(
    "--file", "-f", "path", type=_PATH, default="fleet.yaml", show_default=True, callback=_there,
    help="The fleet file.",
)  # fmt: skip
_PROBLEM_FIELDS = ("file", "line", "path", "message", "text")
_AGENT_FIELDS = ("name", "running", "max_concurrent", "schedules", "failing", "done", "failed")


def _joined(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> str | None:
    """Return AGENT/SCHEDULE, also where it is written as two words; None where nothing is named."""
    if len(words) > 2 or (len(words) == 2 and "/" in words[0]):
        raise click.UsageError(f"{' '.join(words)!r} names more than one schedule; write one AGENT/SCHEDULE")
    return "/".join(words) if words else None


def _names(metavar: str, *, required: bool = True) -> Callable[[C], C]:
    return click.argument("name", metavar=metavar, nargs=-1, required=required, callback=_joined)


_name = _names("AGENT/SCHEDULE")
_target = _names("AGENT[/SCHEDULE]")
_any_target = _names("[AGENT[/SCHEDULE]]", required=False)


class _Seconds(click.FloatRange):
    """A number of seconds; a range takes `nan` and `inf`, which no clock can wait for."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail("write a number of seconds", param, ctx)
        return seconds


@click.group(cls=Group)
def fleet() -> None:
    """Run a fleet of agents from a YAML file, ask it and tell it.

    Reads work without a running fleet too, as far as its files tell. Exit code 1 if the fleet does not
    run, refuses, or had to be stopped with jobs running; 2 for a name or a file that is not there.
    AGENT/SCHEDULE may also be written as two words.

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
            opened.write(_EXAMPLE.read_text(encoding="utf-8"))
    except FileExistsError:
        raise click.ClickException(f"{path} is there already; name another one with --file") from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written ({error.strerror})") from error
    click.echo(f"Wrote {path}. Next: dutiful fleet start{_option(path)}")


def _option(path: Path) -> str:
    return "" if str(path) == "fleet.yaml" else f" --file {path}"


@fleet.command()
@_file
@reading
@click.option("--offline", is_flag=True, help="Check the text only, not whether the jobs can run here.")
def validate(path: Path, form: Form, offline: bool) -> None:
    """Print every problem of a fleet file; exit 1 if there is one.

    Included files are read too. Every job is checked: its program is on the path, its directory and its
    inbox exist, its module can be imported. No job is run.

    Example: dutiful fleet validate --file fleet.yaml
    """
    from dutiful.fleet.errors import FleetConfigError
    from dutiful.fleet.file.config import read_fleet

    if not offline:
        # Jobs run in the directory of the file, and modules are imported from there.
        sys.path.insert(0, str(path.absolute().parent))
    found, files = read_fleet(path, check_jobs=not offline)
    problems = found.problems if isinstance(found, FleetConfigError) else ()
    agents = () if isinstance(found, FleetConfigError) else found.agents
    schedules = sum(len(agent.schedules) for agent in agents)
    rows = [
        {"file": p.file, "line": p.line, "path": p.path, "message": p.message, "text": str(p)}
        for p in problems
    ]
    counts = {"files": [str(file) for file in files], "agents": len(agents), "schedules": schedules}
    said = f"{counted(len(agents), 'agent')} with {counted(schedules, 'schedule')}"
    text = "\n".join(map(str, problems)) or f"ok: {said} in {counted(len(files), 'file')}"
    document = {**counts, "problems": rows}
    show(form, document, lambda: click.echo(text), lines=rows, fields=_PROBLEM_FIELDS)
    sys.exit(1 if problems else 0)


@fleet.command()
@_file
@click.option("--timeout", type=_Seconds(min=0), default=30.0, show_default=True, metavar="SECONDS",
              help="How long to wait for running jobs when stopped.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings.")
@click.option("--listen", metavar="HOST:PORT", help="Also answer HTTP requests here, such as 127.0.0.1:8788.")
@click.option(
    "--page",
    metavar="HOST:PORT",
    help="Also show the fleet to browsers of this machine, e.g. 127.0.0.1:8789.",
)
def start(path: Path, timeout: float, quiet: bool, listen: str | None, page: str | None) -> None:
    """Run the fleet in the foreground, until SIGINT or SIGTERM.

    The first signal lets running jobs end, for --timeout seconds: exit code 0. After that, or at a second
    signal, they are killed: exit code 1. Jobs run in the directory of the file.

    With --listen, schedules can be triggered over HTTP by the token in DUTIFUL_FLEET_TOKEN, or by webhooks
    that are signed with DUTIFUL_FLEET_WEBHOOK_SECRET. With --page, a browser of this machine sees the
    agents, why a schedule does not run now, and the output of jobs; the page has no login.

    Example: dutiful fleet start --timeout 60
    """
    run_in_foreground(path, timeout, quiet=quiet, address=listen, page=page)


@fleet.command()
@_file
@reading
@click.option("--watch", "-w", is_flag=True, help="Keep looking, once a second.")
def status(path: Path, form: Form, watch: bool) -> None:
    """Print the agents of the fleet and its running jobs.

    Each job is shown with the latest line of its output; counts are since the start. Exit code 1 if the
    fleet is stalled.

    Example: dutiful fleet status --watch
    """
    ask = {"ask": "status"}
    if not watch:
        found = asked(path, ask)
        show(
            form,
            found,
            lambda: click.echo(_tables().status(found)),
            lines=found["agents"],
            fields=_AGENT_FIELDS,
        )
        sys.exit(0 if found["stall"] is None else 1)
    if form == "csv":
        raise click.UsageError("--csv prints one answer, so not together with --watch; use --json")

    def draw() -> str:
        found = asked(path, ask)
        return json.dumps(found) if form == "json" else _tables().status(found)

    with suppress(*_INTERRUPTS):
        watch_status(draw, live=sys.stdout.isatty() and form == "text")


@fleet.command()
@_any_target
@_file
@reading
@click.option("--failed", is_flag=True, help="Only schedules with an error or a problem.")
@click.option("--reason", metavar="REASON", help="Only schedules with this skip reason, such as at_capacity.")
def schedules(name: str | None, path: Path, form: Form, failed: bool, reason: str | None) -> None:
    """Print all schedules, or those named: why each does not run now, its last and next run.

    The last errors are in a table of their own. Exit code 1 if the fleet is stalled.

    Example: dutiful fleet schedules watcher --failed
    """
    known = [name for each in ScheduleSkipReason for name in _names_of(each.value) if name]
    if reason not in (None, *known):
        raise click.BadParameter(
            f"{reason!r} is none of {', '.join(sorted({*known}))}", param_hint="--reason"
        )
    target = agent_or_named(name)
    found = asked(path, {"ask": "schedules", "agent": target["agent"]})
    if target["schedule"] is not None:
        found = _only(found, target["schedule"], target["agent"] or "")
    found = [
        each
        for each in found
        if (not failed or each["last_error"] or each["problem"]) and reason in _names_of(each["skip_reason"])
    ]
    show(form, found, lambda: click.echo(_tables().schedules(found)), lines=found)
    _exit_if_stalled(path)


def _only(found: list[dict[str, Any]], schedule: str, agent: str) -> list[dict[str, Any]]:
    """Return the one of an agent's schedules that has this name. Raises ScheduleNotFoundError."""
    only = [each for each in found if each["schedule"] == schedule]
    if not only:
        raise ScheduleNotFoundError(agent, schedule, [each["schedule"] for each in found])
    return only


def _names_of(reason: str | None) -> set[str | None]:
    """Return the values of --reason that find a schedule with this skip reason."""
    return {None} if reason is None else {None, reason, ScheduleSkipReason(reason).for_people}


def _exit_if_stalled(path: Path) -> None:
    if running_fleet(path) is None:
        # A stopped fleet has no passes that could fail, and its files have just been read.
        return
    stall = asked(path, {"ask": "status"})["stall"]
    if stall is not None:
        raise click.ClickException(f"the fleet triggers nothing, because its passes fail: {stall}")


@fleet.command()
@_target
@_file
@as_json
def enable(name: str, path: Path, as_json: bool) -> None:
    """Put a schedule, or all schedules of an agent, back into service.

    Exit code 1 if the file itself has one disabled.

    Example: dutiful fleet enable watcher/disk
    """
    found = asked(path, {"ask": "enable", **agent_or_named(name)})
    _show(found[0] if "/" in name else found, as_json, _statuses(found))
    for each in found:
        if each["status"] == "disabled":
            name = f"{each['agent']}/{each['schedule']}"
            advice = f"{path} says `enabled: false`; change it there"
            raise click.ClickException(f"{name} stays disabled: {advice}")


@fleet.command()
@_target
@_file
@as_json
def disable(name: str, path: Path, as_json: bool) -> None:
    """Take a schedule, or all schedules of an agent, out of service.

    It stays so after a restart. A running job is left to end.

    Example: dutiful fleet disable watcher
    """
    found = asked(path, {"ask": "disable", **agent_or_named(name)})
    _show(found[0] if "/" in name else found, as_json, _statuses(found))


def _statuses(found: list[dict[str, Any]]) -> str:
    return "\n".join(f"{each['agent']}/{each['schedule']} is {each['status']}" for each in found)


@fleet.command()
@_name
@_file
@as_json
@click.option("--prompt", "-p", help="The prompt of this run, instead of the schedule's own.")
@click.option("--wait", "-w", is_flag=True, help="Wait for the end of the run, and tell how it went.")
def run(name: str, path: Path, as_json: bool, prompt: str | None, wait: bool) -> None:
    """Have a schedule run now, whatever its type, and also if it is disabled.

    Exit code 1 if the fleet does not run, the agent has no free slot, or, with --wait, the run failed.

    Example: dutiful fleet run reporter/on-demand --prompt "Write about disks."
    """
    found = asked(path, {"ask": "run", **named(name), "prompt": prompt})
    if not wait:
        _show(found, as_json, f"{name} begins with the next check")
        return
    ended = wait_for_run(lambda: asked(path, {"ask": "outcome", **named(name), "run_at": found["run_at"]}))
    _show(ended, as_json, _told_end(name, ended))
    sys.exit(1 if ended["status"] == "FAILED" else 0)


def _told_end(name: str, run: dict[str, Any]) -> str:
    how = "found no work" if run["reason"] == "no_work" else run["status"]
    return f"{name}: {how}{': ' + run['detail'] if run['detail'] else ''}"


@fleet.command()
@_name
@_file
@as_json
def cancel(name: str, path: Path, as_json: bool) -> None:
    """Cancel the running job of a schedule; the schedule goes on with its next time.

    Exit code 1 if it has no running job.

    Example: dutiful fleet cancel reporter/weekdays
    """
    found = asked(path, {"ask": "cancel", **named(name)})
    _show(found, as_json, f"{name}: {found['cancelled']} job(s) cancelled")
    sys.exit(0 if found["cancelled"] else 1)


@fleet.command()
@_file
@click.option("--timeout", type=_Seconds(min=0), default=60.0, show_default=True, metavar="SECONDS",
              help="How long to wait until the process has ended.")  # fmt: skip
def stop(path: Path, timeout: float) -> None:
    """Stop the running fleet as a signal would: its jobs are waited for.

    Exit code 1 if it does not run, or has not ended in time.

    Example: dutiful fleet stop
    """
    pid = ask_to_stop(path)
    if not wait_for_end(pid, timeout):
        raise click.ClickException(f"process {pid} still waits for jobs after {timeout:g} s")
    click.echo("stopped")


@fleet.command()
@_target
@_file
@reading
@click.option("--run", "number", type=click.IntRange(min=1), help="The number of the run, as in `history`.")
@click.option("--follow", is_flag=True, help="Go on with new output, until Ctrl-C.")
def logs(name: str, path: Path, form: Form, number: int | None, follow: bool) -> None:
    """Print the output of a run: the latest one, or that with a number.

    With an agent alone it is the latest run of any of its schedules.

    Example: dutiful fleet logs watcher/disk --run 3
    """
    if follow and form != "text":
        raise click.UsageError(f"--{form} prints one answer, so not together with --follow")
    target = agent_or_named(name)
    with suppress(*_INTERRUPTS):
        show_logs(path, target["agent"] or "", target["schedule"], number, follow=follow, form=form)


@fleet.command()
@_any_target
@_file
@reading
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--failed", is_flag=True, help="Only runs that failed.")
def history(name: str | None, path: Path, form: Form, limit: int, failed: bool) -> None:
    """Print the last runs and skipped occurrences, newest first: of a schedule, an agent or all.

    Example: dutiful fleet history --failed
    """
    found = asked(path, {"ask": "history", **agent_or_named(name), "limit": limit, "failed": failed})
    empty = f"{name or 'the fleet'} has no {'failed runs' if failed else 'history yet'}"
    show(form, found, lambda: click.echo(_tables().history(found) if found else empty), lines=found)


@fleet.command()
@_name
@_file
@reading
@click.option("--at", metavar="ISO", help="Instant, or local time of this machine [default: now].")
def explain(name: str, path: Path, form: Form, at: str | None) -> None:
    """Say why a schedule ran at a time, did not, or will.

    Exit code 1 if the fleet is stalled.

    Example: dutiful fleet explain watcher/disk --at 2026-03-08T09:00
    """
    found = asked(path, {"ask": "explain", **named(name), "at": instant(at).isoformat()})
    show(form, found, lambda: click.echo(_tables().explanation(found)))
    _exit_if_stalled(path)


def _tables() -> Tables:
    clock = SystemClock()
    return Tables(clock.now(), clock.timezone, terminal_width(), colour=is_coloured())


def _show(found: Any, as_json: bool, text: str) -> None:
    if as_json:
        print_json(found)
    else:
        click.echo(text)
