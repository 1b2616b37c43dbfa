"""`dutiful tasks`: shows and controls the tasks of a declarative scheduler, through its store."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dutiful.cli.output import (
    Form,
    Group,
    as_json,
    duration,
    print_json,
    print_table,
    reading,
    show,
    state_cell,
    zone_name,
)
from dutiful.cli.schedule_text import run_state
from dutiful.core.errors import quoted
from dutiful.declarative.inspection import Tasks, open_tasks
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dutiful.runtime.ports import Leader

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")

_TASK_FIELDS = (
    "name", "state", "cron", "next", "running_since", "retry_at", "error", "last_success_at",
    "last_failure_at", "quarantine", "cancelling", "asked_for",
)  # fmt: skip
_name = click.argument("name", metavar="TASK")


@click.group(cls=Group)
def tasks() -> None:
    """Look at and steer the tasks of a scheduler, through its store.

    Works beside the process that runs the tasks, which looks for requests about once a second.

    Example: dutiful tasks list --store sqlite:state.db
    """


def _with_store(command: F) -> F:
    """Add the options that name the store to a command."""
    for option in (
        click.option("--namespace", default="default", show_default=True),
        click.option("--store", default="sqlite:dutiful.db", show_default=True, help='"sqlite:FILE".'),
    ):
        command = option(command)
    return command


@tasks.command("list")
@_with_store
@reading
def list_(store: str, namespace: str, form: Form) -> None:
    """List all tasks: what they do now, how it went last, and when they run next.

    Example: dutiful tasks list --store sqlite:state.db
    """
    views, leader = ask_tasks(store, namespace, listed)
    document = {"tasks": views, "leader": _plain(leader)}
    show(form, document, lambda: _print_tasks(views, leader, namespace), lines=views, fields=_TASK_FIELDS)


def _print_tasks(views: list[dict[str, Any]], leader: Leader | None, namespace: str) -> None:
    head = ["task", "state", "cron", f"last ({_zone()})", f"next ({_zone()})", "now"]
    print_table(head, [_row(view) for view in views], empty=f"No tasks in the namespace {namespace!r}.")
    click.echo(_leader_in_words(leader))


@tasks.command("show")
@_name
@_with_store
@reading
def show_(name: str, store: str, namespace: str, form: Form) -> None:
    """Show everything about one task, with its next five ticks.

    Example: dutiful tasks show report --store sqlite:state.db
    """
    view = ask_tasks(store, namespace, lambda known: known.one(name))
    show(form, view, lambda: _print_task(view))


def _print_task(view: dict[str, Any]) -> None:
    width = max(map(len, view))
    for key, value in view.items():
        if key != "preview":
            click.echo(f"{key:{width}}  {_value(value)}")
    click.echo("next ticks")
    for tick in view["preview"] or ["never"]:
        click.echo(f"  {tick}")


@tasks.command()
@_name
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=20, show_default=True)
@_with_store
@reading
def history(name: str, limit: int, store: str, namespace: str, form: Form) -> None:
    """Print the newest runs and skipped ticks of a task that keeps a ledger.

    Example: dutiful tasks history report -n 50 --store sqlite:state.db
    """
    rows = ask_tasks(store, namespace, lambda known: known.history(name, limit))
    show(form, {"runs": rows}, lambda: _print_history(rows), lines=rows)


def _print_history(rows: list[dict[str, Any]]) -> None:
    head = [f"tick ({_zone()})", "state", "trigger", "attempt", "reason", "detail"]
    print_table(head, [_run_row(row) for row in rows], empty="No runs yet.")


@tasks.command("run-now")
@_name
@_with_store
@as_json
def run_now(name: str, store: str, namespace: str, as_json: bool) -> None:
    """Ask for a run of a task now, whatever its cron text says; it waits for a run in flight to end.

    Example: dutiful tasks run-now report --store sqlite:state.db
    """
    key, leader = ask_tasks(store, namespace, lambda known: _with_leader(known, known.run_now(name)))
    if as_json:
        print_json({"key": key, "leader": _plain(leader)})
    else:
        click.echo(f"Asked for a run of {name}. {_taken_up(leader)}")


@tasks.command()
@_name
@_with_store
@as_json
def cancel(name: str, store: str, namespace: str, as_json: bool) -> None:
    """Cancel what a task is doing: its run in flight, its waiting retry, and runs that were asked for.

    A cancelled run has failed and is not tried again; the task goes on with its next tick. Exit code 1 if
    there is nothing to cancel.

    Example: dutiful tasks cancel report --store sqlite:state.db
    """
    count, leader = ask_tasks(store, namespace, lambda known: _with_leader(known, known.cancel(name)))
    if as_json:
        print_json({"cancelled": count, "leader": _plain(leader)})
    elif count:
        click.echo(f"Asked {name} to stop: {count} open run{'s' * (count > 1)}. {_taken_up(leader)}")
    else:
        click.echo(f"{name} does nothing that could be cancelled.")
    click.get_current_context().exit(int(not count))


def ask_tasks(store: str, namespace: str, question: Callable[[Tasks], Awaitable[T]]) -> T:
    """Return the answer of the tasks in a store."""

    async def ask() -> T:
        async with open_tasks(store, namespace) as known:
            return await question(known)

    return asyncio.run(ask())


async def listed(known: Tasks) -> tuple[list[dict[str, Any]], Leader | None]:
    """Return all tasks, and the process that runs them."""
    return await known.all(), await known.leader()


async def _with_leader(known: Tasks, request: Awaitable[T]) -> tuple[T, Leader | None]:
    return await request, await known.leader()


def _plain(leader: Leader | None) -> dict[str, Any] | None:
    return None if leader is None else {"pid": leader.pid, "since": _when(leader.since)}


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, SystemClock().timezone).isoformat(timespec="seconds")


def _leader_in_words(leader: Leader | None) -> str:
    if leader is None:
        return "No scheduler is running on this store."
    return f"Run by process {leader.pid} since {_when(leader.since)}."


def _taken_up(leader: Leader | None) -> str:
    if leader is None:
        return "No scheduler is running on this store; it is done when one starts."
    return f"Process {leader.pid} does it within about a second."


def _row(view: dict[str, Any]) -> list[str]:
    if "damage" in view:
        return [view["name"], state_cell("aside", "set aside"), "", "", "", quoted(view["damage"])]
    last, ended = _last(view)
    state = "aside" if view["quarantine"] else "running" if view["running_since"] else ended
    shown = state_cell(state, {"aside": "set aside"}.get(state))
    return [view["name"], shown, view["cron"], last, _short(view["next"]), _now(view)]


def _last(view: dict[str, Any]) -> tuple[str, str]:
    """Return when the last run ended, and how it went."""
    ends = [(view["last_success_at"], "ran"), (view["last_failure_at"], "failed")]
    known = [(datetime.fromisoformat(at), at, how) for at, how in ends if at is not None]
    if not known:
        return "-", "to_come"
    _, at, how = max(known)
    return _short(at), how


def _zone() -> str:
    clock = SystemClock()
    return zone_name(clock.now(), clock.timezone)


def _short(iso: str | None) -> str:
    """Return an instant in the zone that the heads of the tables name, whatever the zone of its task is."""
    if iso is None:
        return "never"
    return f"{datetime.fromisoformat(iso).astimezone(SystemClock().timezone):%Y-%m-%d %H:%M:%S}"


def _now(view: dict[str, Any]) -> str:
    if view["quarantine"]:
        return quoted(view["quarantine"])
    parts = []
    if view["running_since"]:
        ran = SystemClock().now() - datetime.fromisoformat(view["running_since"])
        parts.append(f"running for {duration(ran.total_seconds())}")
    if view["retry_at"]:
        parts.append(f"retry at {_short(view['retry_at'])}: {quoted(view['error'] or '')}")
    parts += ["asked to stop"] if view["cancelling"] else []
    parts += [f"asked for {view['asked_for']} more"] if view["asked_for"] else []
    return ", ".join(parts) or "waiting"


def _value(value: object) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else quoted(value, limit=200)


def _run_row(row: dict[str, Any]) -> list[str]:
    tick = _short(row["run_at"])
    if row["ticks"] > 1:
        tick = f"{tick} to {_short(row['run_until'])}, {row['ticks']} ticks"
    detail = quoted(row["detail"]) if row["detail"] else ""
    return [tick, run_state(row), row["trigger"], str(row["attempt"]), row["reason"] or "", detail]
