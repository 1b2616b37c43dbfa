"""A TOML file of settings: one key per variable, in lower case and without the prefix DUTIFUL_."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import quoted
from dutiful.service.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE_MAX = 1_048_576
# The file cannot name another file.
_KEYS = {variable.field: variable.name for variable in VARIABLES if variable.name != "DUTIFUL_CONFIG"}
_FORM = "write a text, a number, true or false, or a list of texts"


class ConfigFile(NamedTuple):
    """The settings that a file has, by variable, and (key, what to write) for everything wrong with it."""

    values: Mapping[str, str]
    problems: list[tuple[str, str]]


def read_config(path: str) -> ConfigFile:
    """Return the settings in a file; a file that cannot be read is one problem with an empty key."""
    try:
        with open(path, "rb") as file:
            content = tomllib.loads(file.read(_FILE_MAX).decode())
    except OSError as error:
        return ConfigFile({}, [("", f"cannot be read: {error.strerror}")])
    except ValueError as error:
        return ConfigFile({}, [("", f"is not TOML: {quoted(str(error))}")])
    values, problems = dict[str, str](), list[tuple[str, str]]()
    for key, value in content.items():
        text = _as_text(value)
        if key not in _KEYS:
            problems.append((key, _advice(key)))
        elif text is None:
            problems.append((key, _FORM))
        else:
            values[_KEYS[key]] = text
    return ConfigFile(values, problems)


def _as_text(value: Any) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
    return None


def _advice(key: str) -> str:
    near = get_close_matches(key.lower().removeprefix("dutiful_"), _KEYS, n=1)
    return f"there is no such setting; did you mean {near[0]}?" if near else "there is no such setting"
