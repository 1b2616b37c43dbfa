"""`dutiful monitor`: reads a recorded trace and reports each broken axiom."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from dutiful.cli.output import Form, print_table, reading, show
from dutiful.core.cron.zone import read_instant
from dutiful.core.errors import InvalidArgumentError
from dutiful.monitor import Violation, check, from_events
from dutiful.monitor.obligation import instant_of, iso

_Line = tuple[int, dict[str, Any]]


@click.command()
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--lag", type=click.FloatRange(min=0), default=60, show_default=True, help="Seconds a start may take."
)
@click.option("--end", metavar="ISO", help="Until when nothing more happened [default: the last event].")
@reading
def monitor(trace: Path, lag: float, end: str | None, form: Form) -> None:
    """Check a recorded trace; exit 1 if it breaks an axiom.

    A trace is JSON lines. The first may hold "registrations" (list name to [name, cron, delay in
    seconds]) and "timezone", so may later ones with more lists; the others are events of a scheduler
    or of the model. `dutiful run --trace FILE` writes one.

    Example: dutiful monitor trace.jsonl --lag 5
    """
    if not math.isfinite(lag):
        raise InvalidArgumentError("--lag", lag, "write a number of seconds")
    header, events = _split(_read(trace))
    until = None if end is None else read_instant("--end", end, None)
    steps = _steps(header["registrations"], events)
    violations = check(
        steps,
        registrations=header["registrations"],
        timezone=header["timezone"],
        dialect=header["dialect"],
        lag=lag,
        end=until,
    )
    _tell([_located(violation, steps) for violation in violations], len(events), form)
    click.get_current_context().exit(int(bool(violations)))


def _located(violation: Violation, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the violation with its line in the file; None for an event that never came."""
    line = None if violation.position is None else steps[violation.position]["line"]
    return {"axiom": violation.axiom, "line": line, "message": violation.message}


def _tell(violations: list[dict[str, Any]], events: int, form: Form) -> None:
    document = {"events": events, "violations": violations}
    fields = ("axiom", "line", "message")
    show(form, document, lambda: _print(violations, events), lines=violations, fields=fields)


def _print(violations: list[dict[str, Any]], events: int) -> None:
    if violations:
        rows = [[each["axiom"], str(each["line"] or ""), each["message"]] for each in violations]
        print_table(["axiom", "line", "what"], rows)
    else:
        click.echo(f"ok: {events} events break no axiom")


def _read(path: Path) -> list[_Line]:
    try:
        texts = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError("trace", str(path), str(error)) from None
    return [(number, _object(number, text)) for number, text in enumerate(texts, 1) if text.strip()]


def _object(number: int, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"line {number}", text, f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"line {number}", text, "is not a JSON object")
    return value


def _split(lines: list[_Line]) -> tuple[dict[str, Any], list[_Line]]:
    """Return the merged headers with defaults, and the lines with events."""
    header: dict[str, Any] = {"registrations": {}, "timezone": "UTC", "dialect": "posix"}
    events: list[_Line] = []
    for place, (number, line) in enumerate(lines):
        if "name" in line or (place and "registrations" not in line):
            events.append((number, line))
            continue
        for name, usual in (("timezone", "UTC"), ("dialect", "posix")):
            said = line.get(name, usual)
            if place and said != header[name]:
                raise InvalidArgumentError(f"line {number}", said, f"is another {name} than that of line 1")
            header[name] = said
        header["registrations"] |= _lists(line.get("registrations", {}))
    return header, events


def _lists(lists: Any) -> dict[str, Any]:
    if not isinstance(lists, dict) or not all(map(_is_list, lists.values())):
        reason = "write an object of lists of [name, cron, delay in seconds]"
        raise InvalidArgumentError("registrations", lists, reason)
    return lists


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, list)
        and (len(entry) == 3 or (len(entry) == 4 and _are_options(entry[3])))
        and isinstance(entry[0], str)
        and isinstance(entry[1], str)
        and isinstance(entry[2], int | float)
        for entry in value
    )


def _are_options(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= {"retry_limit", "retry_backoff"}:
        return False
    limit, backoff = value.get("retry_limit"), value.get("retry_backoff", 1)
    return (limit is None or type(limit) is int) and type(backoff) is int


def _steps(lists: dict[str, Any], lines: list[_Line]) -> list[dict[str, Any]]:
    """Return the events as events of the model, converted from a scheduler's events where necessary."""
    events = [_event(number, event) for number, event in lines]
    if any(event["name"].startswith("Scheduler") for event in events):
        events = from_events(events, [*lists])
    for event in events:
        if event["name"].startswith("Init") and event.get("list") not in lists:
            reason = "is not among the registrations of the first line"
            raise InvalidArgumentError("list", event.get("list"), reason)
        if event["name"].startswith("Run") and not isinstance(event.get("task"), str):
            raise InvalidArgumentError("event", event, "has no task")
    return events


def _event(number: int, event: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(event.get("name"), str):
        raise InvalidArgumentError(f"line {number}", event, "has no name")
    at = event.get("at")
    if isinstance(at, bool) or not isinstance(at, int | float | str):
        raise InvalidArgumentError(f"line {number}", event, "has no time under 'at'")
    if isinstance(at, str):
        return event | {"line": number, "at": read_instant(f"line {number}", at, None)}
    try:
        # Violations name the instant as a text.
        iso(instant_of(at))
    except (ValueError, OverflowError):
        raise InvalidArgumentError(f"line {number}", at, "lies outside the years 1 to 9999") from None
    return event | {"line": number, "at": at}
