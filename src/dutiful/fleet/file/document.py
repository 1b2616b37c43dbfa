"""One file of a fleet: read with limits, and with the line of every value for error messages."""

from __future__ import annotations

import re
import stat
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.errors import quoted
from dutiful.fleet.errors import ConfigProblem, FleetConfigError
from dutiful.fleet.yaml_tree import Path, compose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path as FilePath

    from dutiful.fleet.types import Problem
    from dutiful.fleet.yaml_tree import Node

SIZE_MAX = 1_000_000
# More than any reasonable file of that size has (15 bytes per value); a hostile file is stopped here.
_VALUES_MAX = 65_000
# `$` without a brace is a plain dollar. `$${` is written for a literal `${`.
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
# A reference within a default would end at its own brace, and leave the other one behind as text.
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{).)*))?", re.DOTALL)
# Shorter values are not masked: a mask could hide ordinary words of the message around them.
_SECRET_LENGTH = 4


class Spot(NamedTuple):
    """The position of a value, and how its values from the environment were written.

    `base` is the path of the part with which it was read.
    """

    file: str
    line: int
    base: Path
    references: Mapping[str, str] = MappingProxyType({})


# Path of a value -> its position. Merged values keep the positions of their origin.
Spots: TypeAlias = dict[Path, Spot]


def read_document(file: FilePath) -> Node:
    """Return the tree in a YAML file, or raise FleetConfigError with every problem."""
    composed = compose(_read(file), _VALUES_MAX)
    if composed.flaws:
        problems = [ConfigProblem(str(file), line, dotted(path), said) for line, path, said in composed.flaws]
        raise FleetConfigError(str(file), problems)
    if composed.root is None:
        raise _refused(
            file, "is empty; write a fleet (`version: 1` and `agents`) or an agent (`name`) into it"
        )
    return composed.root


def _read(file: FilePath) -> str:
    try:
        # Opening a pipe would block until a writer comes.
        if not stat.S_ISREG(file.stat().st_mode):
            raise _refused(file, "is not a regular file; give the path of a YAML file")
        with file.open("rb") as opened:
            content = opened.read(SIZE_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(file, f"cannot be read ({reason}); check the path and its permissions") from error
    if len(content) > SIZE_MAX:
        raise _refused(file, f"is larger than {SIZE_MAX:,} bytes; split it into one file per agent")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        said = f"has the byte 0x{content[error.start]:02X}, which is not UTF-8; save the file as UTF-8"
        raise FleetConfigError(str(file), [ConfigProblem(str(file), line, "", said)]) from error


def _refused(file: FilePath, message: str) -> FleetConfigError:
    return FleetConfigError(str(file), [ConfigProblem(str(file), None, "", message)])


def dotted(path: Path) -> str:
    """Return a path as people write it: `agents[0].schedules.daily`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{quoted(step)}" for step in path)
    return "".join(steps).removeprefix(".")


class Part:
    """A value from one or more files, with variables filled in and the positions of all its parts."""

    def __init__(self, value: Any, spots: Spots) -> None:
        self.value, self.spots = value, spots

    def under(self, over: Part) -> Part:
        """Return this part as the default of another: mappings are merged, other values are replaced."""
        if not self.value:
            return over
        return Part(_merged(self.value, over.value), {**self.spots, **over.spots})

    def located(self, problem: Problem) -> ConfigProblem:
        """Return a problem with its file and line; its path is relative to this part."""
        path = problem.path
        known = next(path[:n] for n in range(len(path), -1, -1) if path[:n] in self.spots)
        spot = self.spots[known]
        place = dotted((*spot.base, *path))
        # Values from the environment may be secrets; a missing value reveals none.
        references = dict(self._references(path)) if known == path else {}
        value = _redacted(problem.value, references) if isinstance(problem.value, str) else problem.value
        return ConfigProblem(spot.file, spot.line, place, _redacted(problem.message, references), value)

    def _references(self, path: Path) -> Iterator[tuple[str, str]]:
        """Yield (value, reference) of everything that came from the environment at `path` or below."""
        pending = [(path, reduce(lambda above, step: above[step], path, self.value))]
        while pending:
            at, value = pending.pop()
            yield from self.spots[at].references.items()
            items = (
                value.items()
                if isinstance(value, dict)
                else enumerate(value)
                if isinstance(value, list)
                else ()
            )
            pending += [((*at, step), below) for step, below in items]


def _redacted(text: str, references: Mapping[str, str]) -> str:
    for value in sorted(references, key=len, reverse=True):
        for shown in (value, quoted(value)) if len(value) >= _SECRET_LENGTH else ():
            text = text.replace(shown, references[value])
    return text


def part_of(
    node: Node, file: str, environ: Mapping[str, str], at: Path = ()
) -> tuple[Part, list[ConfigProblem]]:
    """Return the value of a node with its variables filled in, and the problems of the variables.

    `at` is the path of the node in its file; paths within the part begin at the node.
    """
    spots: Spots = {}
    problems: list[ConfigProblem] = []

    def walk(node: Node, path: Path) -> Any:
        value = node.value
        spots[path] = spot = Spot(file, node.line, at)
        if isinstance(value, dict):
            return {key: walk(below, (*path, key)) for key, below in value.items()}
        if isinstance(value, list):
            return [walk(below, (*path, n)) for n, below in enumerate(value)]
        if value is None and not node.plain:
            said = "has no value; write one, or null for none, or remove it"
            problems.append(ConfigProblem(file, node.line, dotted((*at, *path)), said))
        if value is None or "${" not in value:
            return value
        try:
            filled = fill_in(value, environ)
        except ValueError as error:
            problems.append(ConfigProblem(file, node.line, dotted((*at, *path)), str(error), value))
            return value
        spots[path] = spot._replace(references=filled.references)
        return filled.text

    return Part(walk(node, ()), spots), problems


def _merged(under: Any, over: Any) -> Any:
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    both = {key: _merged(under[key], over[key]) for key in under if key in over}
    return {**under, **over, **both}


class Filled(NamedTuple):
    """A text with its variables filled in, and the references by the values that replaced them."""

    text: str
    references: dict[str, str]


def fill_in(text: str, environ: Mapping[str, str]) -> Filled:
    """Return `text` with its variables filled in; filled-in values are not searched for variables again.

    A default is used where the variable is not set or empty. Raises ValueError with advice.
    """
    references: dict[str, str] = {}

    def value_of(reference: re.Match[str]) -> str:
        if reference[0] == "$${":
            return "${"
        inside = _INSIDE.fullmatch(reference[1]) if reference[2] else None
        if inside is None:
            shown = quoted(reference[0])
            raise ValueError(
                f"has the reference {shown}; write ${{NAME}} or ${{NAME:-default}}, or $${{ for ${{ itself"
            )
        name, default = inside.groups()
        if default is None and name not in environ:
            raise ValueError(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
        value = environ.get(name) or default or ""
        references[value] = reference[0]
        return value

    return Filled(_REFERENCE.sub(value_of, text), references)
