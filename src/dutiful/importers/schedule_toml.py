"""Imported schedules as a file for `dutiful plan`: TOML, with what differs as comments."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import quoted
from dutiful.importers.imported import NotImportableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.importers.imported import Difference, Imported

_BARE = re.compile(r"[A-Za-z0-9_-]+")


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
