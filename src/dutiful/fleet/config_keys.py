"""The reader of settings: a mapping from a fleet file, read by a table of keys into values and problems.

Each key has a reader, which returns the value or raises ValueError with the problem and the correct form.
Numbers and flags may be texts, because a fleet file is read as texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.cron.duration import parse_duration
from dutiful.core.cron.zone import zone
from dutiful.core.errors import DutifulError, InvalidArgumentError
from dutiful.fleet.errors import near_name
from dutiful.fleet.types import Problem
from dutiful.outbound import Allowed, ForbiddenTargetError, parse_target

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dutiful.fleet.types import Config

Reader: TypeAlias = Callable[[Any], Any]

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADERVARIABLE = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# The request sets these headers itself; a second one could be read differently by a proxy.
_OWN_HEADERS = {
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "accept-encoding",
}
# Most unknown keys for which a suggestion is searched, because the search costs time.
_UNKNOWN_MAX = 100
_TRUTH = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}


class Key(NamedTuple):
    """How one key is read; the value of a secret key is never shown in a problem."""

    read: Reader
    default: object = None
    required: bool = False
    secret: bool = False


Keys: TypeAlias = Mapping[str, Key]


def read_keys(document: Mapping[Any, Any], keys: Keys) -> tuple[dict[str, Any], list[Problem]]:
    """Return the value of every key, and every problem. A value of None counts as left out."""
    unknown = (name for name in document if name not in keys)
    problems = [unknown_key(name, keys) for name in islice(unknown, _UNKNOWN_MAX)]
    values = {name: key.default for name, key in keys.items()}
    for name, key in keys.items():
        given = document.get(name)
        try:
            if given is not None:
                values[name] = key.read(given)
            elif key.required:
                problems.append(Problem((name,), f"is missing; write `{name}: …`"))
        except ValueError as error:
            problems.append(Problem((name,), str(error), None if key.secret else given))
    return values, problems


def unknown_key(name: object, known: Collection[str]) -> Problem:
    """Return the problem of a key that is not among the known ones."""
    said = f"is unknown{near_name(str(name), known)}; write one of {', '.join(known)}"
    return Problem((str(name),), said)


def problems_of(config: object, kinds: Mapping[str, Keys]) -> Iterator[Problem]:
    """Yield every problem of `config`; its `type` selects the table of keys."""
    known = ", ".join(kinds)
    if not isinstance(config, Mapping):
        yield Problem((), f"must be a mapping with a `type`: one of {known}", config)
        return
    kind = config.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        problem = "is missing" if kind is None else "is unknown" + near_name(str(kind), kinds)
        yield Problem(("type",), f"{problem}; write one of {known}", kind)
        return
    yield from _read(config, kinds[kind])[1]


def settings_of(config: Config, kinds: Mapping[str, Keys], argument: str) -> dict[str, Any]:
    """Return the values of `config`, defaults filled in, or raise InvalidArgumentError with its problems."""
    problems = [
        f"{'.'.join(map(str, problem.path)) or argument} {problem.message}"
        for problem in problems_of(config, kinds)
    ]
    if problems:
        raise InvalidArgumentError(argument, config.get("type"), "; ".join(problems))
    return _read(config, kinds[config["type"]])[0]


def _read(config: Config, keys: Keys) -> tuple[dict[str, Any], list[Problem]]:
    return read_keys({name: value for name, value in config.items() if name != "type"}, keys)


def text(value: object) -> str:
    """Read a text that is not blank."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError("must be a text that is not blank")
    return value


def texts(value: object) -> list[str]:
    """Read a list of texts."""
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError("must be a list of texts")
    return [text(entry) for entry in value]


def argv(value: object) -> list[str]:
    """Read a program and its arguments."""
    advice = "must be a list, the program first, e.g. [python3, report.py]; no shell reads it"
    if not isinstance(value, list) or not value:
        raise ValueError(advice)
    words = [str(word) if isinstance(word, int | float) else word for word in value]
    if not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0]:
        raise ValueError(advice)
    return words


def flag(value: object) -> bool:
    """Read true or false."""
    found = _TRUTH.get(str(value).lower()) if isinstance(value, bool | str) else None
    if found is None:
        raise ValueError("must be true or false")
    return found


def whole_number(lowest: int, highest: int) -> Reader:
    """Return a reader of whole numbers in this range."""

    def read(value: object) -> int:
        shown = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
        if not re.fullmatch(r"[0-9]{1,12}", shown) or not lowest <= int(shown) <= highest:
            raise ValueError(f"must be a whole number from {lowest} to {highest}")
        return int(shown)

    return read


def seconds(value: object) -> float:
    """Read a duration such as 10m."""
    return parse_duration(value).total_seconds()  # type: ignore[arg-type]  # it refuses other types itself


def time_zone(value: object) -> str:
    """Read the IANA name of a time zone."""
    advice = "must be the name of a time zone, such as Europe/Berlin or UTC"
    if not isinstance(value, str):
        raise ValueError(advice)  # noqa: TRY004 - problems are ValueErrors
    try:
        zone(value)
    except DutifulError as error:
        raise ValueError(advice) from error
    return value


def name(value: object) -> str:
    """Read the name of an environment variable or of a table."""
    if not isinstance(value, str) or not VARIABLE.fullmatch(value) or len(value) > 63:
        raise ValueError("must be a name: letters, digits and `_`, at most 63, no digit first")
    return value


def url(value: object) -> str:
    """Read an http or https URL."""
    try:
        parse_target(text(value))
    except ForbiddenTargetError as error:
        raise ValueError(str(error)) from None
    return str(value)


def headers(value: object) -> dict[str, str]:
    """Read a mapping of header names to values; errors never quote the values."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of header names to texts")  # noqa: TRY004 - problems are ValueErrors
    for name, content in value.items():
        if not isinstance(name, str) or not _HEADERVARIABLE.fullmatch(name):
            raise ValueError("has a header whose name cannot be sent")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"must leave {name} to the request itself")
        if not isinstance(content, str) or not re.fullmatch(r"[ -~]*", content):
            raise ValueError(f"has a value for {name} that is no plain line of ASCII text")
    return {**value}


def allowed(value: object) -> Allowed:
    """Read hosts, addresses and networks that may be reached although they are not public."""
    return Allowed.parse(texts(value))
