"""The `beat_schedule` of Celery: in a Python module, which is not run, or as JSON."""

from __future__ import annotations

import ast
import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.dialect import DAY, HOUR, MINUTE, MONTH, MONTH_NAMES, WEEKDAY, WEEKDAY_NAMES
from dutiful.core.cron.zone import zone
from dutiful.importers.cron_text import (
    LOST_RUN,
    both_days,
    changes_clocks,
    interval_difference,
    interval_text,
    written,
    zone_difference,
)
from dutiful.importers.imported import Difference, Draft, Imported, NotImportableError, Refused
from dutiful.importers.literal import keywords, name_of, parsed, source, value, written_keywords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.core.cron.dialect import FieldRule
    from dutiful.importers.imported import Target

_SCHEDULES = {"beat_schedule", "CELERYBEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE"}
_ZONES = {"timezone", "CELERY_TIMEZONE"}
_FIELDS: dict[str, FieldRule] = {
    "minute": MINUTE,
    "hour": HOUR,
    "day_of_month": DAY,
    "month_of_year": MONTH,
    "day_of_week": WEEKDAY,
}
_NAMES = {MONTH: MONTH_NAMES, WEEKDAY: WEEKDAY_NAMES}
_WORK = Difference(
    *("work", "beat sends the task to its queue", "your executor gets its name and arguments as input"),
    "Let a celery+… executor call the task that input.task names",
)
_MISSED = Difference(
    *("missed ticks", "an entry that is due after downtime is sent once, if beat has kept its file"),
    'the latest missed tick runs (catchup_policy = "latest")',
    "Nothing to do",
)


def read_beat_schedule(text: str, target: Target, *, is_json: bool = False) -> Imported:
    """Return the schedules of a module that sets `beat_schedule`, or of such a mapping in JSON."""
    imported = Imported(target)
    try:
        entries, timezone = _json_entries(text) if is_json else _entries(text)
    except NotImportableError as error:
        imported.refused.append(Refused("the file", "", str(error)))
        return imported
    unnamed = [] if timezone else [zone_difference(target.timezone, "it is UTC, if no other module sets one")]
    for name, (place, entry) in entries.items():
        imported.take(name, place, partial(_draft, entry, str(timezone or target.timezone), unnamed))
    return imported


def _entries(text: str) -> tuple[dict[str, tuple[str, Any]], str | None]:
    """Return the entries by name, each with its line and node, and the zone of the app."""
    entries, timezone, found = dict[str, tuple[str, Any]](), None, False
    for name, node in _settings(parsed(text)):
        if name in _ZONES:
            timezone = str(value(node))
        elif not isinstance(node, ast.Dict) or None in node.keys:
            raise NotImportableError(f"line {node.lineno}: `{name}` is not written out as a dict")
        else:
            found = True
            keys = [key for key in node.keys if key is not None]
            for key, entry in zip(keys, node.values, strict=True):
                entries[str(value(key))] = f"line {entry.lineno}", entry
    if not found:
        raise NotImportableError("sets no beat_schedule; give the module that does")
    return entries, timezone


def _settings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each setting of beat: assigned, an argument of a call such as `conf.update`, or in a dict."""
    wanted = _SCHEDULES | _ZONES
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((name_of(each), node.value) for each in node.targets if name_of(each) in wanted)
        elif isinstance(node, ast.Call) and name_of(node.func) in ("update", "Celery", "config_from_object"):
            yield from ((each.arg, each.value) for each in node.keywords if each.arg in wanted)
            for argument in node.args:
                if isinstance(argument, ast.Dict):
                    yield from _in_dict(argument, wanted)


def _in_dict(node: ast.Dict, wanted: set[str]) -> Iterator[tuple[str, ast.expr]]:
    for key, each in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and key.value in wanted:
            yield key.value, each


def _json_entries(text: str) -> tuple[dict[str, tuple[str, Any]], str | None]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotImportableError(f"is not JSON: {error}") from None
    timezone = found.get("timezone") if isinstance(found, dict) else None
    entries = found.get("beat_schedule", found) if isinstance(found, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(each, dict) for each in entries.values()):
        raise NotImportableError("write the entries as an object: each name with its task and schedule")
    return {name: ("", entry) for name, entry in entries.items()}, timezone


def _draft(entry: Any, timezone: str, unnamed: list[Difference]) -> Draft:
    parts = _parts(entry)
    if not isinstance(parts.get("task"), str):
        raise NotImportableError("has no task")
    text, timezone, differences = _cadence(parts.get("schedule"), timezone, unnamed)
    work = {"task": parts["task"], "args": parts.get("args", []), "kwargs": parts.get("kwargs", {})}
    settings = {
        "cron_expr": text,
        **({"dialect": "seconds"} if len(text.split()) == 6 else {}),
        "timezone": timezone,
        "dst": "vixie",
        "overlap_policy": "allow",
        "catchup_policy": "latest",
        "input": work,
    }
    differences += [_WORK, _MISSED, LOST_RUN]
    if isinstance(parts.get("options"), dict) and parts["options"]:
        options = ", ".join(sorted(map(str, parts["options"])))
        here = "no executor applies them"
        differences.append(
            Difference("options", f"{options} hold for the message", here, "Set them in the task")
        )
    return Draft(settings, differences)


def _parts(entry: Any) -> dict[str, Any]:
    """Return the values of an entry; the schedule of a module stays a node."""
    if isinstance(entry, dict):
        return entry
    if not isinstance(entry, ast.Dict) or None in entry.keys:
        raise NotImportableError(f"`{source(entry)}` is not written out as a dict")
    nodes = {str(value(key)): each for key, each in zip(entry.keys, entry.values, strict=True) if key}
    return {name: node if name == "schedule" else value(node) for name, node in nodes.items()}


def _cadence(given: Any, timezone: str, unnamed: list[Difference]) -> tuple[str, str, list[Difference]]:
    """Return the cron text, its zone, and its differences; `unnamed` are those of an app without a zone."""
    fields = _fields(given)
    if fields is None:
        text = interval_text(_seconds(given))
        return text, "UTC", [interval_difference(text, "when beat started")]
    texts = {name: _field(rule, fields.get(name, "*")) for name, rule in _FIELDS.items()}
    minute, hour, day, month, weekday = texts.values()
    day, weekday = both_days(day, weekday)
    zone(timezone)
    differences = [*unnamed]
    if changes_clocks(timezone):
        there = "nothing runs in the hour that comes again, and a skipped time moves (measured with 5.7)"
        here = 'dst = "vixie": a fixed time runs once on each day, and others follow real time'
        differences.append(Difference("changing clocks", there, here, "Set gap and fold for another rule"))
    return f"{minute} {hour} {day} {month} {weekday}", timezone, differences


def _fields(given: Any) -> dict[str, Any] | None:
    """Return the fields of a crontab; None for anything else."""
    if isinstance(given, ast.Call) and name_of(given.func) == "crontab":
        named = dict(
            zip(
                ("minute", "hour", "day_of_week", "day_of_month", "month_of_year"),
                map(value, given.args),
                strict=False,
            )
        )
        fields = {**named, **keywords(given)}
    elif isinstance(given, str) and len(given.split()) == 5:
        return dict(zip(_FIELDS, given.split(), strict=True))
    elif isinstance(given, dict):
        fields = given
    else:
        return None
    if unknown := sorted(fields.keys() - _FIELDS.keys()):
        raise NotImportableError(f"a crontab with {', '.join(unknown)} has no counterpart; write a cron text")
    return fields


def _seconds(given: Any) -> float:
    if isinstance(given, ast.Call) and name_of(given.func) == "solar":
        raise NotImportableError("solar events have no cron text")
    if isinstance(given, ast.Call) and name_of(given.func) == "schedule":
        written_there = written_keywords(given)
        given = written_there.get("run_every") or (given.args[0] if given.args else None)
    found = value(given) if isinstance(given, ast.expr) else given
    if isinstance(found, timedelta):
        return found.total_seconds()
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise NotImportableError("has no schedule that is a crontab or an interval")
    return found


def _field(rule: FieldRule, given: Any) -> str:
    """Return a field of a crontab: a number, a text, or a list of them."""
    items = given if isinstance(given, list | set | tuple) else str(given).split(",")
    bits = 0
    for item in items:
        bits |= _item(rule, str(item).strip())
    return written(rule, bits)


def _item(rule: FieldRule, item: str) -> int:
    """Return the values of one item; a range may go over the end, from fri to mon."""
    span, slash, step = item.partition("/")
    low, dash, high = ("", "", "") if span == "*" else span.partition("-")
    first = rule.low if span == "*" else _number(rule, low)
    last = rule.high if span == "*" else _number(rule, high) if dash else first
    numbers = [*range(first, last + 1)] if first <= last else []
    numbers = numbers or [*range(first, rule.high + 1), *range(rule.low, last + 1)]
    if slash and (not step.isdecimal() or int(step) < 1):
        raise NotImportableError(f"{item!r} has no step after its slash")
    return sum({1 << number for number in numbers[:: int(step) if slash else 1]})


def _number(rule: FieldRule, text: str) -> int:
    named = _NAMES.get(rule, {}).get(text.lower()[:3], text)
    if not str(named).isdecimal() or not rule.low <= int(named) <= rule.high:
        raise NotImportableError(f"{text!r} is no {rule.name}")
    return int(named)
