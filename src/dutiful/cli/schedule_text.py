"""Schedules and runs of a service as text, for `dutiful schedules`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.output import duration, print_table, state_cell
from dutiful.core.cron.zone import read_instant
from dutiful.core.errors import quoted
from dutiful.web.drawing.marks import drawn_as

if TYPE_CHECKING:
    from collections.abc import Sequence

# The fields of the CSV, which are those of the JSON that have one value.
SCHEDULE_FIELDS = (
    "schedule_id", "workflow_id", "version", "user_id", "cron_expr", "timezone", "paused", "pause_note",
    "quarantine", "next_run_at", "overlap_policy", "catchup_policy", "labels", "updated_at", "pause_until",
)  # fmt: skip
LINE_FIELDS = (
    "schedule_id", "state", "meaning", "timezone", "last_at", "last_status", "next_run_at", "note",
)  # fmt: skip
RUN_FIELDS = (
    "schedule_id", "run_at", "status", "reason", "trigger", "attempt", "ticks", "run_until", "fire_at",
    "started_at", "ended_at", "idempotency_key", "run_id", "detail",
)  # fmt: skip
# The groups of keys that `show` prints; other keys follow in the last group.
_GROUPS = {
    "what runs": ("schedule_id", "workflow_id", "version", "user_id", "labels", "input", "executor"),
    "when": (
        *("cron_expr", "dialect", "timezone", "gap", "fold", "calendar", "start_at", "end_at", "jitter_ms"),
        "next_run_at",
    ),
    "state": ("paused", "pause_note", "paused_at", "paused_by", "pause_until", "quarantine", "updated_at"),
    "when life interferes": (),
}


def iso(argument: str, text: str) -> str:
    """Return an ISO 8601 text as RFC 3339; without offset it is UTC. Raises InvalidArgumentError."""
    return read_instant(argument, text).isoformat()


def print_lines(lines: Sequence[dict[str, Any]], now: str, empty: str) -> None:
    """Print schedules, one per line."""
    head = ["schedule", "state", "when", "last (UTC)", "next (UTC)", "reason"]
    present = datetime.fromisoformat(now)
    print_table(head, [_line_row(line, present) for line in lines], empty=empty, soft=head.index("when"))


def _line_row(line: dict[str, Any], now: datetime) -> list[str]:
    place = line["timezone"].rpartition("/")[2].replace("_", " ")
    return [
        line["schedule_id"],
        state_cell(line["state"], {"aside": "set aside"}.get(line["state"])),
        f"{line['meaning']}, {place}",
        near(line["last_at"], now),
        _with_distance(line["next_run_at"], now),
        quoted(line["note"]),
    ]


def near(text: str | None, now: datetime) -> str:
    """Return an instant in UTC, as briefly as it is clear today: without the date, or without the year."""
    if text is None:
        return "-"
    at, today = datetime.fromisoformat(text).astimezone(UTC), now.astimezone(UTC)
    if at.date() == today.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%m-%d %H:%M}" if at.year == today.year else f"{at:%Y-%m-%d}"


def _with_distance(text: str | None, now: datetime) -> str:
    if text is None:
        return "-"
    away = duration(max(0, round((datetime.fromisoformat(text) - now).total_seconds())))
    return f"{near(text, now)} in {' '.join(away.split()[:2])}"


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


def print_runs(runs: Sequence[dict[str, Any]]) -> None:
    """Print the runs of one schedule, one per line."""
    head = ["tick (UTC)", "state", "trigger", "attempt", "reason", "detail"]
    print_table(head, [_run_row(run) for run in runs], empty="No runs yet.")


def _run_row(run: dict[str, Any]) -> list[str]:
    detail = quoted(run["detail"]) if run["detail"] else ""
    return [tick(run), run_state(run), run["trigger"], str(run["attempt"]), run["reason"] or "", detail]


def tick(run: dict[str, Any]) -> str:
    """Return the tick of a run in UTC, or the range of skipped ticks."""
    if run["ticks"] < 2:
        return moment(run["run_at"])
    first, last = moment(run["run_at"]), moment(run["run_until"])
    until = last.partition(" ")[2] if first.partition(" ")[0] == last.partition(" ")[0] else last
    return f"{first} to {until}, {run['ticks']} ticks"


def run_state(run: dict[str, Any]) -> str:
    """Return the status of a run behind the shape that the pages draw for it."""
    return state_cell(drawn_as(run["status"], run["trigger"]), run["status"])


def print_found_runs(runs: Sequence[dict[str, Any]]) -> None:
    """Print runs of several schedules, one per line."""
    head = ["schedule", "state", "tick (UTC)", "reason", "key"]
    rows = [
        [run["schedule_id"], run_state(run), tick(run), run["reason"] or "", run["idempotency_key"]]
        for run in runs
    ]
    print_table(head, rows, empty="No run matches.")


def print_explanation(answer: dict[str, Any]) -> None:
    """Print what became of a tick, and each check of it: whether it was passed, and why."""
    click.echo(answer["text"])
    said = {True: "yes", False: "no", None: "open"}
    print_table(
        ["check", "passed", "fact"],
        [[step["name"], said[step["passed"]], step["fact"]] for step in answer["steps"]],
    )
