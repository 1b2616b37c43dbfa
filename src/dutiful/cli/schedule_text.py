"""Schedules and runs of a service as text, for `dutiful schedules`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from dutiful.cli.output import duration, print_table, state_cell
from dutiful.core.errors import InvalidArgumentError, quoted

# The groups of keys that `show` prints; other keys follow in the last group.
_GROUPS = {
    "what runs": ("schedule_id", "workflow_id", "version", "user_id", "labels", "input", "executor"),
    "when": (
        *("cron_expr", "dialect", "timezone", "gap", "fold", "calendar", "start_at", "end_at", "jitter_ms"),
        "next_run_at",
    ),
    "state": ("paused", "pause_note", "paused_at", "paused_by", "quarantine", "updated_at"),
    "when life interferes": (),
}


def iso(argument: str, text: str) -> str:
    """Return an ISO 8601 text as RFC 3339; without offset it is UTC. Raises InvalidArgumentError."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        advice = "write it as 2026-03-08T07:30 or 2026-03-08T02:30-05:00"
        raise InvalidArgumentError(argument, text, f"is no ISO 8601 time; {advice}") from error
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return aware.isoformat()


def schedule_row(view: dict[str, Any]) -> list[str]:
    """Return one line of the list of schedules."""
    fires = moment(view["next_run_at"]) if view["next_run_at"] and not view["paused"] else "-"
    return [view["schedule_id"], quoted(view["cron_expr"]), view["timezone"], fires, _state(view)]


def soonest_row(line: dict[str, Any], now: str) -> list[str]:
    """Return one line of the list by next tick, with the time until that tick."""
    last = moment(line["last_at"]) if line["last_at"] else "-"
    place = line["timezone"].rpartition("/")[2].replace("_", " ")
    due, present = datetime.fromisoformat(line["next_run_at"]), datetime.fromisoformat(now)
    away = duration(max(0, round((due - present).total_seconds())))
    return [
        line["schedule_id"],
        state_cell(line["state"]),
        f"{line['meaning']}, {place}",
        last,
        f"{moment(line['next_run_at'])} in {away}",
        quoted(line["note"]),
    ]


def _state(view: dict[str, Any]) -> str:
    if view["quarantine"]:
        return f"set aside: {quoted(view['quarantine'])}"
    if view["paused"]:
        return f"paused: {quoted(view['pause_note'])}" if view["pause_note"] else "paused"
    return "active"


def moment(text: str) -> str:
    """Return an RFC 3339 text as readable UTC."""
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def print_schedule(view: dict[str, Any]) -> None:
    """Print everything about one schedule, in groups, and its next fire times."""
    grouped = {name for names in _GROUPS.values() for name in names}
    others = sorted(name for name in view if name not in grouped | {"preview"})
    width = max(map(len, view))
    for title, names in _GROUPS.items():
        click.secho(title, bold=True)
        for name in names or others:
            if name in view:
                click.echo(f"  {name:{width}}  {_value(view[name])}".rstrip())
    click.secho("next fire times", bold=True)
    print_fire_times(view["preview"])


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}={quoted(text)}" for key, text in sorted(value.items())) or "-"
    return str(value).lower() if isinstance(value, bool) else quoted(value, limit=200)


def print_fire_times(preview: list[str]) -> None:
    """Print fire times with their offsets, one per line."""
    for text in preview:
        click.echo(f"  {_local(datetime.fromisoformat(text))}")
    if not preview:
        click.echo("  never")


def _local(instant: datetime) -> str:
    offset = instant.isoformat()[-6:]
    return f"{instant:%a %Y-%m-%d %H:%M:%S} {offset}"


def print_runs(runs: list[dict[str, Any]]) -> None:
    """Print runs, one per line."""
    head = ["tick (UTC)", "status", "reason", "attempt", "trigger", "detail"]
    print_table(head, [_run_row(run) for run in runs], empty="No runs yet.")


def _run_row(run: dict[str, Any]) -> list[str]:
    tick = moment(run["run_at"])
    if run["ticks"] > 1:
        tick = f"{tick} to {moment(run['run_until'])}, {run['ticks']} ticks"
    detail = quoted(run["detail"]) if run["detail"] else ""
    return [tick, run["status"], run["reason"] or "", str(run["attempt"]), run["trigger"], detail]
