"""`dutiful schedules`: look at and change the schedules of a running service."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

import click

from dutiful.cli.api import Refused, ask, ask_about, with_near_names
from dutiful.cli.output import (
    Form,
    Group,
    as_json,
    counted,
    print_json,
    print_table,
    progress_bar,
    reading,
    show,
    write_file,
)
from dutiful.cli.schedule_text import (
    LINE_FIELDS,
    RUN_FIELDS,
    SCHEDULE_FIELDS,
    iso,
    moment,
    print_explanation,
    print_fire_times,
    print_found_runs,
    print_lines,
    print_runs,
    print_schedule,
)
from dutiful.core.errors import InvalidArgumentError
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from dutiful.web.drawing.simulation_picture import Theme

_NONE_YET = "There are no schedules yet; `dutiful schedules upsert FILE` adds some."
# The service answers with at most this many lines at once.
_LINES_MAX = 200
# A backfill that is waited for is looked at this often.
_LOOK_EVERY_S = 1.0
_OPEN = {"ENQUEUED", "STARTED"}
_id = click.argument("schedule_id", metavar="ID")
_limit = click.option("--limit", "-n", type=click.IntRange(1, 1000), default=100, show_default=True)


@click.group(cls=Group)
def schedules() -> None:
    """Look at and change the schedules of a running service.

    DUTIFUL_URL says where it is [default: http://127.0.0.1:8787], DUTIFUL_TOKEN is the
    token to send. DUTIFUL_CLIENT_CERT and DUTIFUL_CLIENT_KEY are the files of a client certificate, PEM;
    SSL_CERT_FILE names the authorities that the service is checked against.

    Example: dutiful schedules list --workflow billing
    """


@schedules.command("list")
@click.option("--workflow", "workflow_id", metavar="ID", help="Only those of this workflow.")
@click.option("--user", "user_id", metavar="ID", help="Only those of this user.")
@click.option("--label", metavar="NAME=VALUE", help="Only those with this label.")
@click.option("--paused/--active", default=None, help="Only those that are paused, or are not.")
@click.option("--soonest", is_flag=True, help="The next to fire first, at most 200.")
@_limit
@click.option("--cursor", help="Where the page before ended.")
@reading
def list_(form: Form, soonest: bool, **query: Any) -> None:
    """List schedules: how each went last, when it fires next, and what is wrong with it.

    Example: dutiful schedules list --workflow billing --active
    """
    if soonest and (query["cursor"] is not None or query["paused"]):
        raise InvalidArgumentError("--soonest", True, "has one page, of schedules that are not paused")
    as_lines = form == "text" or soonest
    answer = _lines(query, "next" if soonest else "all") if as_lines else ask("GET", "/schedules", query)
    lines, fields = answer["schedules"], LINE_FIELDS if as_lines else SCHEDULE_FIELDS
    is_narrowed = any(value is not None for name, value in query.items() if name != "limit")
    empty = "No schedule matches." if is_narrowed else _NONE_YET
    show(form, answer, lambda: print_lines(lines, answer["now"], empty), lines=lines, fields=fields)
    if form != "json":
        _tell_of_more(answer["next_cursor"])


def _lines(query: dict[str, Any], view: str) -> dict[str, Any]:
    """Return the lines of a view, asked for in pages that the service is willing to answer."""
    limit = query["limit"]
    found = ask("GET", "/summary/schedules", {**query, "view": view, "limit": min(limit, _LINES_MAX)})
    while (left := limit - len(found["schedules"])) > 0 and found["next_cursor"] is not None:
        further = {**query, "view": view, "limit": min(left, _LINES_MAX), "cursor": found["next_cursor"]}
        page = ask("GET", "/summary/schedules", further)
        found = {**page, "schedules": found["schedules"] + page["schedules"]}
    return dict(found)


@schedules.command("show")
@_id
@reading
def show_(schedule_id: str, form: Form) -> None:
    """Show one schedule, with its next five fire times.

    Example: dutiful schedules show nightly
    """
    view = ask_about("GET", schedule_id)
    show(form, view, lambda: print_schedule(view))


@schedules.command("next")
@_id
@click.option("--count", "-n", type=click.IntRange(1, 1000), default=5, show_default=True)
@reading
def next_(schedule_id: str, count: int, form: Form) -> None:
    """Print the next fire times, in the schedule's own zone.

    Example: dutiful schedules next nightly --count 10
    """
    answer = ask_about("GET", schedule_id, "next", query={"count": count})
    ticks = [{"schedule_id": schedule_id, "at": at} for at in answer["preview"]]
    show(form, answer, lambda: print_fire_times(answer["preview"]), lines=ticks)


@schedules.command()
@_id
@_limit
@click.option("--cursor", help="Where the page before ended.")
@reading
def runs(schedule_id: str, limit: int, cursor: str | None, form: Form) -> None:
    """List the runs of a schedule, the newest first.

    Example: dutiful schedules runs nightly --limit 20
    """
    answer = ask_about("GET", schedule_id, "runs", query={"limit": limit, "cursor": cursor})
    found = answer["runs"]
    show(form, answer, lambda: print_runs(found), lines=found, fields=RUN_FIELDS)
    if form != "json":
        _tell_of_more(answer["next_cursor"])


@schedules.command()
@_id
@click.argument("at", metavar="TIME")
@reading
def explain(schedule_id: str, at: str, form: Form) -> None:
    """Say why a tick ran, did not run, or will run, and which checks it passed.

    A TIME without offset is UTC. `dutiful explain` and `dutiful schedules explain` are one command.

    Example: dutiful explain nightly 2026-03-08T07:30, or dutiful schedules explain nightly 2026-03-08T07:30
    """
    answer = ask_about("GET", schedule_id, "explain", query={"at": iso("TIME", at)})
    show(form, answer, lambda: print_explanation(answer))


@schedules.command()
@_id
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--days", type=click.IntRange(1, 366), default=30, show_default=True, help="How far to look back."
)
@click.option("--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", show_default=True,
              help="Colours; auto follows the reader's system.")  # fmt: skip
def picture(schedule_id: str, file: Path, days: int, theme: Theme) -> None:
    """Draw what became of the latest ticks of a schedule, as SVG. At most 1,000 entries are drawn.

    Example: dutiful schedules picture nightly nightly.svg --days 7
    """
    from dutiful.cli.pictures import schedule_picture

    view, now = ask_about("GET", schedule_id), datetime.fromisoformat(ask("GET", "/summary")["now"])
    runs = ask_about("GET", schedule_id, "runs", query={"limit": 1000})["runs"]
    write_file("FILE", file, [schedule_picture(view, runs, now, timedelta(days=days), theme)])
    click.echo(f"Wrote {file}")


@schedules.command()
@_id
@click.option("--note", help="Why it is paused; shown in lists and on the pages.")
@click.option("--until", metavar="ISO", help="When it is resumed by itself [default: never].")
@as_json
def pause(schedule_id: str, note: str | None, until: str | None, as_json: bool) -> None:
    """Pause a schedule: its ticks are recorded as skipped until it is resumed.

    Example: dutiful schedules pause nightly --note "database moves, ask Ada" --until 2026-03-08T07:30Z
    """
    _pause(schedule_id, True, note, as_json, until=None if until is None else iso("--until", until))


@schedules.command()
@_id
@as_json
def resume(schedule_id: str, as_json: bool) -> None:
    """Resume a paused schedule.

    Example: dutiful schedules resume nightly
    """
    _pause(schedule_id, False, None, as_json)


def _pause(schedule_id: str, paused: bool, note: str | None, as_json: bool, until: str | None = None) -> None:
    body = {"schedule_id": schedule_id, "paused": paused, "note": note, "until": until}
    try:
        answer = ask("POST", "/schedules/pause", body=body)
    except Refused as error:
        raise with_near_names(error, schedule_id) from error
    state = "active" if not paused else "paused" if until is None else f"paused until {until}"
    print_json(answer) if as_json else click.echo(f"{schedule_id} is {state}")


@schedules.command()
@_id
@click.confirmation_option(prompt="Delete this schedule?", help="Do not ask.")
def delete(schedule_id: str) -> None:
    """Delete a schedule; runs that it has started go on.

    Example: dutiful schedules delete nightly --yes
    """
    ask_about("DELETE", schedule_id)
    click.echo(f"{schedule_id} is deleted")


@schedules.command()
@_id
@click.option("--input", "given", metavar="JSON", help="In place of the schedule's own input.")
@click.option("--key", metavar="TEXT", help="Run it once, however often it is asked for with this key.")
@as_json
def trigger(schedule_id: str, given: str | None, key: str | None, as_json: bool) -> None:
    """Run a schedule now, in addition to its ticks.

    Example: dutiful schedules trigger nightly --input '{"day": "2026-03-01"}'
    """
    body = None if given is None else {"input": _json("--input", given)}
    if key is not None and not re.fullmatch("[!-~]{1,256}", key):
        raise click.UsageError("Invalid --key: write 1 to 256 visible ASCII characters, without blanks")
    headers = {} if key is None else {"Idempotency-Key": key}
    answer = ask_about("POST", schedule_id, "trigger", body=body, headers=headers)
    print_json(answer) if as_json else click.echo(f"{schedule_id} runs as {answer['idempotency_key']}")


@schedules.command()
@_id
@click.option("--from", "-f", "start", metavar="ISO", required=True, help="The first instant.")
@click.option("--to", "end", metavar="ISO", required=True, help="The instant after the last one.")
@click.option(
    "--overlap", "overlap_policy", help="allow, skip or queue [default: all run, in turn if need be]."
)
@click.option(
    "--wait", is_flag=True, help="Wait until the runs have ended, with their progress on a terminal."
)
@as_json
def backfill(
    schedule_id: str, as_json: bool, start: str, end: str, overlap_policy: str | None, wait: bool
) -> None:
    """Run the past ticks of a range that were not run. Times without offset are UTC.

    Exit code 1 if it was waited for them and one of the runs failed.

    Example: dutiful schedules backfill nightly --from 2026-03-01 --to 2026-03-08 --overlap queue
    """
    body = {"start": iso("--from", start), "end": iso("--to", end), "overlap_policy": overlap_policy}
    answer = ask_about("POST", schedule_id, "backfill", body=body)
    already = answer["already_recorded"]
    answer_text = f"{counted(answer['accepted'], 'tick')} will run, {already} were recorded already"
    if answer.get("unknown"):
        answer_text += f", {answer['unknown']} are not known any more: their rows were pruned"
    print_json(answer) if as_json else click.echo(answer_text)
    if wait and answer["accepted"]:
        _await_backfill(schedule_id, body, answer["accepted"])


def _await_backfill(schedule_id: str, asked: dict[str, Any], accepted: int) -> None:
    """Wait until no run of a backfill is open, and tell how they ended; raise SystemExit(1) if any failed."""
    with progress_bar("backfilling") as progress:
        statuses = _backfilled(schedule_id, asked)
        while still_open := sum(status in _OPEN for status in statuses):
            if progress is not None:
                progress(max(0.0, 1 - still_open / accepted))
            asyncio.run(SystemClock().sleep(_LOOK_EVERY_S))
            statuses = _backfilled(schedule_id, asked)
    failed = statuses.count("FAILED")
    click.echo(f"{counted(len(statuses), 'backfilled tick')} ended, {failed} failed", err=True)
    if failed:
        raise SystemExit(1)


def _backfilled(schedule_id: str, asked: dict[str, Any]) -> list[str]:
    """Return the statuses of the backfilled ticks of a schedule in the range that was asked for."""
    query = {"schedule_id": schedule_id, "since": asked["start"], "until": asked["end"], "limit": 1000}
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = ask("GET", "/runs", {**query, "cursor": cursor})
        found += [run["status"] for run in page["runs"] if run["trigger"] == "backfill"]
        if (cursor := page["next_cursor"]) is None:
            return found


@schedules.command("find-runs")
@click.option("--status", type=click.Choice(["ENQUEUED", "STARTED", "SUCCESS", "FAILED", "SKIPPED"]))
@click.option("--reason", help="Only those with this reason.")
@click.option("--user", "user_id", metavar="ID", help="Only those of this user.")
@click.option("--since", metavar="ISO", help="Only ticks from this instant on.")
@click.option("--until", metavar="ISO", help="Only ticks before this instant.")
@_limit
@click.option("--cursor", help="Where the page before ended.")
@reading
def find_runs(form: Form, since: str | None, until: str | None, **query: Any) -> None:
    """List the runs of all schedules, the newest first. Times without offset are UTC.

    Example: dutiful schedules find-runs --status FAILED --since 2026-03-01
    """
    query["since"] = None if since is None else iso("--since", since)
    query["until"] = None if until is None else iso("--until", until)
    answer = ask("GET", "/runs", query)
    found = answer["runs"]
    show(form, answer, lambda: print_found_runs(found), lines=found, fields=RUN_FIELDS)
    if form != "json":
        _tell_of_more(answer["next_cursor"])


@schedules.command()
@click.argument("key", metavar="KEY")
@as_json
def cancel(key: str, as_json: bool) -> None:
    """Ask for a run to be ended, by its key; a run that has ended stays as it is.

    Example: dutiful schedules cancel 49ae5a1f652842faa23fcd43d153fae779fe13563f0781eabbb7c92524a7ba22
    """
    run = ask("POST", f"/runs/{quote(key, safe='', errors='surrogateescape')}/cancel")
    ended = run["status"] in ("SUCCESS", "FAILED", "SKIPPED")
    outcome = f"has ended already: {run['status']}" if ended else "will be ended"
    print_json(run) if as_json else click.echo(f"{run['schedule_id']} at {moment(run['run_at'])}Z {outcome}")


@schedules.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@reading
def preview(file: TextIO, form: Form) -> None:
    """Say what `upsert` of one schedule in a JSON file would change, and store nothing.

    Example: dutiful schedules preview nightly.json
    """
    answer = ask("POST", "/schedules/preview", body=_json("FILE", file.read(), file.name))
    show(form, answer, lambda: _print_preview(answer))


def _print_preview(answer: dict[str, Any]) -> None:
    click.echo(answer["meaning"])
    click.echo("new" if answer["created"] else f"changes {', '.join(answer['changed']) or 'nothing'}")
    for finding in answer["findings"]:
        click.echo(f"{finding['level']}: {finding['message']}")
    until = f" until {answer['compared_until']}" if answer["compared_until"] else ""
    counts = [f"{len(answer[name])} {name}" for name in ("added", "removed", "moved")]
    click.echo(f"fire times{until}: {', '.join(counts)}")
    print_fire_times(answer["preview"])


@schedules.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@as_json
def upsert(file: TextIO, as_json: bool) -> None:
    """Store the schedules of a JSON file (- for standard input): one object, or a list, all or none.

    Example: dutiful schedules upsert schedules.json
    """
    content = _json("FILE", file.read(), file.name)
    if isinstance(content, dict) and "schedules" not in content:
        answer = {"schedules": [ask("POST", "/schedules/upsert", body=content)]}
    else:
        with progress_bar("storing schedules"):
            answer = ask("POST", "/schedules/bulk", body=content)
    if as_json:
        print_json(answer)
        return
    rows = [[one["schedule_id"], one["next_run_at"] or "never"] for one in answer["schedules"]]
    print_table(["schedule", "next (UTC)"], rows)
    for one in answer["schedules"]:
        for warning in one["warnings"]:
            click.echo(f"warning: {one['schedule_id']}: {warning}", err=True)


def _json(argument: str, text: str, name: str | None = None) -> Any:
    """Return the value of a JSON text; an error names its file, or shows the text."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(argument, name or text, f"is not JSON: {error}") from error


def _tell_of_more(cursor: str | None) -> None:
    if cursor is not None:
        click.echo(f"There are more: --cursor {cursor}", err=True)
