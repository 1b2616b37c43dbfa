"""The `beat_schedule` of Celery: in a Python module, which is not run, or as JSON."""

from __future__ import annotations

import ast
import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

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
from dutiful.importers.literal import (
    is_written_out,
    keywords,
    name_of,
    parsed,
    source,
    value,
    value_of_setting,
    written_keywords,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
_UNNAMED_ZONE = "it is UTC, if no other module sets one, and the host's with enable_utc = False"
# A name, its place, and its settings: a node of a module, or an object of JSON.
_Entry: TypeAlias = tuple[str, str, Any]
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
        entries, timezone = _json_entries(text) if is_json else _entries(parsed(text), imported.refused)
    except NotImportableError as error:
        imported.refused.append(Refused("the file", "", str(error)))
        return imported
    unnamed = [] if timezone else [zone_difference(target.timezone, _UNNAMED_ZONE)]
    for name, place, entry in entries:
        imported.take(name, place, partial(_draft, entry, str(timezone or target.timezone), unnamed))
    return imported


def _entries(tree: ast.Module, refused: list[Refused]) -> tuple[list[_Entry], str | None]:
    """Return the entries, and the zone of the app; entries without one clear name are refused."""
    timezone, found = None, dict[tuple[ast.expr, ast.expr], None]()
    dicts, added = 0, [*_added(tree)]
    for name, node in _settings(tree):
        if name in _ZONES:
            timezone = str(value_of_setting(node))
        elif not isinstance(node, ast.Dict) or None in node.keys:
            raise NotImportableError(f"line {node.lineno}: `{name}` is not written out as a dict")
        else:
            dicts += 1
            # One dict may be found under two names, as one is assigned to the other.
            found |= {(key, each): None for key, each in zip(node.keys, node.values, strict=True) if key}
    if not dicts and not added:
        raise NotImportableError("sets no beat_schedule; give the module that does")
    refused += added
    return [*_named(found, refused)], timezone


def _named(found: Iterable[tuple[ast.expr, ast.expr]], refused: list[Refused]) -> Iterator[_Entry]:
    lines: dict[str, list[int]] = {}
    for key, entry in found:
        lines.setdefault(ast.unparse(key), []).append(entry.lineno)
    for key, entry in found:
        name, line, places = source(key), f"line {entry.lineno}", lines[ast.unparse(key)]
        if not is_written_out(key):
            refused.append(Refused(name, line, "its name is not written out, and code is not run; write it"))
        elif len(places) > 1:
            why = f"is set in the lines {' and '.join(map(str, places))}; keep one of them"
            refused.append(Refused(str(value(key)), line, why))
        else:
            yield str(value(key)), line, entry


def _added(tree: ast.Module) -> Iterator[Refused]:
    """Yield what the module adds to the schedule while it runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) == "add_periodic_task":
            why = "its task has its name at run time; write it as an entry of beat_schedule"
            yield Refused("add_periodic_task", f"line {node.lineno}", why)


def _settings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield each setting of beat: assigned, an argument of a call such as `conf.update`, or in a dict."""
    wanted = _SCHEDULES | _ZONES
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets, assigned):
                for each in targets:
                    yield from _assigned(each, assigned, wanted)
            case ast.AnnAssign(target=each, value=ast.expr() as assigned) | ast.AugAssign(each, _, assigned):
                yield from _assigned(each, assigned, wanted)
            case ast.Call(ast.Attribute(inner, "update"), arguments) if name_of(inner) in _SCHEDULES:
                yield from ((name_of(inner), each) for each in arguments)
            case ast.Call(func) if name_of(func) in ("update", "Celery", "config_from_object"):
                yield from ((each.arg, each.value) for each in node.keywords if each.arg in wanted)
                for argument in node.args:
                    if isinstance(argument, ast.Dict):
                        yield from _in_dict(argument, wanted)


def _assigned(target: ast.expr, assigned: ast.expr, wanted: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield a setting that is assigned by its name, under its name, or entry by entry."""
    if name_of(target) in wanted:
        yield name_of(target), assigned
    elif isinstance(target, ast.Subscript):
        entry = ast.Dict([target.slice], [assigned], lineno=target.lineno)
        if name_of(target.value) in _SCHEDULES:
            yield name_of(target.value), entry
        else:
            yield from _in_dict(entry, wanted)


def _in_dict(node: ast.Dict, wanted: set[str]) -> Iterator[tuple[str, ast.expr]]:
    for key, each in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and key.value in wanted:
            yield key.value, each


def _json_entries(text: str) -> tuple[list[_Entry], str | None]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotImportableError(f"is not JSON: {error}") from None
    timezone = found.get("timezone") if isinstance(found, dict) else None
    entries = found.get("beat_schedule", found) if isinstance(found, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(each, dict) for each in entries.values()):
        raise NotImportableError("write the entries as an object: each name with its task and schedule")
    return [(name, "", entry) for name, entry in entries.items()], timezone


def _draft(entry: Any, timezone: str, unnamed: list[Difference]) -> Draft:
    parts = _parts(entry)
    if not isinstance(parts.get("task"), str):
        raise NotImportableError("has no task")
    text, timezone, differences = _cadence(parts.get("schedule"), timezone, unnamed)
    work = {"task": parts["task"], "args": parts.get("args") or [], "kwargs": parts.get("kwargs") or {}}
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
    if isinstance(given, ast.Call) and name_of(given.func) == "from_string" and given.args:
        given = value(given.args[0])
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
    if slash and not dash and span != "*":
        raise NotImportableError(f"{item!r} has a step after one value; write a range")
    return sum({1 << number for number in numbers[:: int(step) if slash else 1]})


def _number(rule: FieldRule, text: str) -> int:
    named = _NAMES.get(rule, {}).get(text.lower()[:3], text)
    if not str(named).isdecimal() or not rule.low <= int(named) <= rule.high:
        raise NotImportableError(f"{text!r} is no {rule.name}")
    return int(named)
