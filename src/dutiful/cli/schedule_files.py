"""Files of schedules for `dutiful plan` and `apply`: TOML or JSON, with the keys of an upsert."""

from __future__ import annotations

import tomllib
from codecs import BOM_UTF8
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from pydantic import ValidationError

from dutiful.core.errors import DutifulError, ScheduleFileError, quoted
from dutiful.httpd.errors import InvalidJsonError
from dutiful.httpd.problems import problems_of
from dutiful.httpd.strict_json import decode
from dutiful.service.declaration import Defaults, declared
from dutiful.web.requests import ScheduleRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class FiledSchedule(NamedTuple):
    """A schedule of a file, as the body of an upsert; `place` is its file and id, for messages."""

    schedule_id: str
    place: str
    body: dict[str, Any]


def read_schedules(paths: Sequence[str]) -> list[FiledSchedule]:
    """Return the schedules of all files, in order.

    Raises ScheduleFileError with everything that is wrong in the first file that cannot be used, also where
    it repeats an id of an earlier file.
    """
    found: dict[str, FiledSchedule] = {}
    for path in paths:
        reader = _Reader(path, found)
        for each in reader.schedules(_document(path)):
            found[each.schedule_id] = each
        if reader.problems:
            raise ScheduleFileError(path, reader.problems)
    return [*found.values()]


def _document(path: str) -> Any:
    """Return the value of a file: `-` is standard input, JSON; any other is TOML or JSON by its suffix."""
    suffix = ".json" if path == "-" else Path(path).suffix.lower()
    if suffix not in (".json", ".toml"):
        raise ScheduleFileError(path, ["name it with the suffix .toml or .json, by what it holds"])
    try:
        with click.open_file(path, "rb") as file:
            content = file.read().removeprefix(BOM_UTF8)
        return decode(content) if suffix == ".json" else tomllib.loads(content.decode("utf-8"))
    except InvalidJsonError as error:
        raise ScheduleFileError(path, [_json_problem(error, content)]) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ScheduleFileError(path, [getattr(error, "strerror", None) or str(error)]) from error


def _json_problem(error: InvalidJsonError, content: bytes) -> str:
    at = error.details.get("at")
    if at is None:
        return str(error.details["reason"])
    line = content.decode("utf-8", "replace").count("\n", 0, at) + 1
    return f"line {line}: {error.details['reason']}"


class _Reader:
    """Reads the schedules of one file and collects its problems."""

    def __init__(self, path: str, others: dict[str, FiledSchedule]) -> None:
        self.problems: list[str] = []
        self._path, self._seen = path, {id_: each.place for id_, each in others.items()}

    def schedules(self, document: Any) -> Iterator[FiledSchedule]:
        for number, given in enumerate(self._items(document)):
            place = f"schedules[{_name(given, number)}]"
            if isinstance(given, dict) and isinstance(given.get("schedule_id"), str):
                yield from self._schedule(place, {key: _as_json(value) for key, value in given.items()})
            elif isinstance(given, dict):
                why = "a file is applied again and again"
                if {"id", "cron"} <= given.keys():
                    why = "this is a file for `dutiful simulate`; here the keys are those of an upsert"
                self.problems.append(f"{place}.schedule_id: is missing; {why}")
            else:
                self.problems.append(f"{place}: {_shown(given)}: write an object with the keys of a schedule")

    def _items(self, document: Any) -> list[Any]:
        if isinstance(document, dict) and "schedules" not in document and "schedule_id" in document:
            return [document]
        items = document.get("schedules") if isinstance(document, dict) else document
        if isinstance(document, dict):
            others = sorted(document.keys() - {"schedules"})
            self.problems += [f"{quoted(key)}: there is no such key; there is schedules" for key in others]
        if isinstance(items, list) and items:
            return items
        self.problems.append("schedules: write at least one: [[schedules]] in TOML, a list in JSON")
        return []

    def _schedule(self, place: str, given: dict[str, Any]) -> Iterator[FiledSchedule]:
        schedule_id = given["schedule_id"]
        before = len(self.problems)
        if schedule_id in self._seen:
            self.problems.append(
                f"{place}.schedule_id: is used twice; it is also in {self._seen[schedule_id]}"
            )
        self._seen[schedule_id] = f"{self._path}: {place}"
        try:
            request = ScheduleRequest.model_validate(given)
            declared(request.as_input(), schedule_id, paused=False, defaults=Defaults())
        except ValidationError as error:
            for found in problems_of(error.errors(), ScheduleRequest):
                self._refuse(place, found["at"], found["problem"], given)
        except DutifulError as error:
            at = error.details.get("argument") or ("cron_expr" if "expression" in error.details else "")
            self._refuse(place, str(at), str(error), {})
        if len(self.problems) == before:
            yield FiledSchedule(schedule_id, f"{self._path}: {place}", given)

    def _refuse(self, place: str, at: str, problem: str, given: dict[str, Any]) -> None:
        value: Any = given
        for part in at.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        shown = "" if value is None else f"{_shown(value)}: "
        self.problems.append(f"{'.'.join(filter(None, (place, at)))}: {shown}{problem}")


def _name(given: Any, number: int) -> str:
    named = given.get("schedule_id") if isinstance(given, dict) else None
    return quoted(named) if isinstance(named, str) and named else str(number)


def _shown(value: Any) -> str:
    return quoted(repr(value))


def _as_json(value: Any) -> Any:
    """Return a value of TOML as JSON has it: times become texts, and a local one has no offset."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            return {key: _as_json(inner) for key, inner in value.items()}
        case list():
            return [_as_json(inner) for inner in value]
    return value
