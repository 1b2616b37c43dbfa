"""The result of an import: schedules as the bodies of upserts, differences, and what cannot be imported.

The result becomes a file for `dutiful plan`: TOML, with the differences as comments.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import DutifulError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The limits of an upsert: its ids with room for a number, its input, and its durations.
_ID_MAX, _INPUT_MAX, SECONDS_MAX = 120, 16_384, 366 * 86_400
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
# A key that TOML takes without quotes.
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Target(NamedTuple):
    """What a source does not say: the workflow that runs, its user, and the zone of texts without one."""

    workflow_id: str
    user_id: str
    timezone: str = "UTC"


class Difference(NamedTuple):
    """What is different about one thing: there, here, and what to do about it."""

    about: str
    there: str
    here: str
    advice: str

    def __str__(self) -> str:
        return f"{self.about}: there, {self.there}; here, {self.here}. {self.advice}."


class Draft(NamedTuple):
    """One schedule that was read: its settings beside the ids, and what differs."""

    settings: dict[str, Any]
    differences: list[Difference]


class NotImportableError(ValueError):
    """A part of a source has no counterpart; the text says why, and what to do instead."""


class Refused(NamedTuple):
    """A part of a source that cannot be imported: its name, where it is, and why."""

    name: str
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """All that was read of one source. `differences` are by schedule id."""

    target: Target
    schedules: list[dict[str, Any]] = field(default_factory=list)
    differences: dict[str, list[Difference]] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    _last_numbers: dict[str, int] = field(default_factory=dict)

    def take(self, name: str, place: str, read: Callable[[], Draft]) -> None:
        """Add the schedule that `read` returns, or refuse it where its reading raises."""
        try:
            draft = read()
            _check(draft.settings)
        except (NotImportableError, DutifulError) as error:
            self.refused.append(Refused(name, place, str(error)))
            return
        schedule_id = self._free_id(name)
        ids = {"schedule_id": schedule_id, "workflow_id": self.target.workflow_id}
        self.schedules.append({**ids, "version": 1, "user_id": self.target.user_id, **draft.settings})
        self.differences[schedule_id] = draft.differences

    def _free_id(self, name: str) -> str:
        """Return an id that resembles the name and is not in use."""
        wanted = _UNFIT.sub("-", name).strip("-.")[:_ID_MAX] or "schedule"
        # Hundreds of lines of a crontab may begin with cd, so the search goes on where it ended.
        number = self._last_numbers.get(wanted, 0) + 1
        while (free := wanted if number == 1 else f"{wanted}-{number}") in self.differences:
            number += 1
        self._last_numbers[wanted] = number
        return free


def _check(settings: dict[str, Any]) -> None:
    """Raise unless the service takes the cron and the input of a schedule."""
    names = ("dialect", "timezone", "gap", "fold", "dst")
    chosen = {name: settings[name] for name in names if name in settings}
    Cron.parse(settings["cron_expr"], **{"dialect": "standard", **chosen})
    try:
        size = len(json.dumps(settings.get("input"), ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise NotImportableError(f"its work cannot be written as JSON: {error}") from None
    if size > _INPUT_MAX:
        message = (
            f"its work takes {size:,} bytes as `input`, which holds {_INPUT_MAX:,}; store it in a workflow"
        )
        raise NotImportableError(message)


def common(imported: Imported) -> list[Difference]:
    """Return the differences that every schedule has, where there are several schedules."""
    first, *others = imported.differences.values() or [[]]
    return [each for each in first if others and all(each in other for other in others)]


def to_toml(imported: Imported) -> str:
    """Return the text of the file; raises NotImportableError for a null, which TOML lacks."""
    shared = common(imported)
    parts = ["".join(f"# All of them: {_line(each)}\n" for each in shared)] if shared else []
    for schedule in imported.schedules:
        own = [each for each in imported.differences[schedule["schedule_id"]] if each not in shared]
        try:
            parts.append("".join([*(f"# {_line(each)}\n" for each in own), *_table(schedule)]))
        except NotImportableError as error:
            raise NotImportableError(f"{schedule['schedule_id']}: {error}") from None
    parts += [f"# Not imported: {_line(each.name)}: {_line(each.reason)}\n" for each in imported.refused]
    return "\n".join(parts)


def _table(schedule: dict[str, Any]) -> Iterator[str]:
    yield "[[schedules]]\n"
    for name, value in schedule.items():
        yield f"{name} = {_value(value)}\n"


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            # A TOML text is a JSON text, but DEL needs an escape.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            inner = ", ".join(f"{_key(str(name))} = {_value(each)}" for name, each in value.items())
            return f"{{{inner}}}"
    raise NotImportableError("its input has a null, which TOML lacks; write JSON: --output FILE.json")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _line(text: object) -> str:
    return quoted(" ".join(str(text).split()), limit=1000)
