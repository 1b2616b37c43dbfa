"""YAML as a tree of texts: no types are guessed, no nodes are shared, no code is run.

`12:30`, `no` and `010` stay as written. The tree is built from libyaml's events without recursion, so that
deep nesting and aliases are refused at their first occurrence.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import yaml
from yaml import events
from yaml.resolver import Resolver

from dutiful.core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from yaml import MarkedYAMLError

Path: TypeAlias = tuple[str | int, ...]

DEPTH_MAX = 32
# Reading stops after this many mistakes; the next run shows the others.
_FLAWS_MAX = 100
_NULLS = frozenset(("null", "Null", "NULL", "~"))
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# Only its resolver of plain scalars is used.
_RESOLVER: Any = Resolver()
_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Node(NamedTuple):
    """One value and its line, which is the line of its key if it has one.

    `value` is a text, None, a dict or a list of Nodes. `plain` means written without quotes; a None that is
    not plain was not written at all.
    """

    value: Any
    line: int = 0
    plain: bool = False


class BareKey(str):
    """A key such as `on` or `5`, written without quotes, which other YAML readers do not read as a text."""

    __slots__ = ()


class Flaw(NamedTuple):
    """A reason why a text is not a valid tree: where, and what to write instead."""

    line: int
    path: Path
    message: str


class Composed(NamedTuple):
    """A tree, or the flaws that prevent one. An empty document has neither."""

    root: Node | None
    flaws: tuple[Flaw, ...] = ()


def compose(text: str, values_max: int) -> Composed:
    """Return the tree of the only document in `text`, or all its flaws."""
    composer = _Composer(values_max)
    odd = _UNPRINTABLE.search(text)
    if odd is not None:
        flaw = f"has the control character U+{ord(odd[0]):04X}; remove it, or write it as an escape in quotes"
        return Composed(None, (Flaw(text.count("\n", 0, odd.start()) + 1, (), flaw),))
    try:
        composer.read(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        composer.refuse(*_refusal(error, text))
    except _CannotReadOn:
        pass
    flaws = tuple(composer.flaws)
    return Composed(None if flaws else composer.root, flaws)


class _CannotReadOn(Exception):  # noqa: N818
    """Stop reading the document: what follows the last recorded flaw would only repeat it."""


class _Composer:
    """Turns events into a tree; open mappings and lists are on a stack."""

    def __init__(self, values_max: int) -> None:
        self.root: Node | None = None
        self.flaws: list[Flaw] = []
        self._left = values_max
        # Each open mapping or list, with its key in its parent, and the key for which it awaits a value.
        self._open: list[_Collection] = []
        self._documents = 0

    def read(self, parsed: Iterator[Any]) -> None:
        acts: dict[type, Callable[[Any], None]] = {
            events.ScalarEvent: self._scalar,
            events.MappingStartEvent: self._begin,
            events.SequenceStartEvent: self._begin,
            events.MappingEndEvent: self._end,
            events.SequenceEndEvent: self._end,
            events.AliasEvent: self._alias,
            events.DocumentStartEvent: self._document,
        }
        for event in parsed:
            act = acts.get(type(event))
            if act is not None:
                act(event)

    def refuse(self, line: int, message: str, *path: str | int) -> None:
        """Record a flaw at the current path, on a line counted from 0."""
        self.flaws.append(Flaw(line + 1, (*self._path(), *path), message))
        if len(self.flaws) >= _FLAWS_MAX:
            raise _CannotReadOn

    def _path(self) -> Path:
        return tuple(key for c in self._open if (key := c.place()) is not None)

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            self.refuse(event.start_mark.line, "a second document begins; write one document in a file")
            raise _CannotReadOn

    def _scalar(self, event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_extras(event)
        line, plain = event.start_mark.line, event.style is None or event.style == ""
        text = event.value
        parent = self._open[-1] if self._open else None
        if parent is not None and parent.awaits_key:
            self._key(parent, text, line, plain)
        elif plain and (text == "" or text in _NULLS):
            self._put(Node(None, line + 1, plain=text != ""))
        else:
            self._put(Node(text, line + 1, plain))

    def _key(self, parent: _Collection, text: str, line: int, plain: bool) -> None:
        if plain and text == "<<":
            self.refuse(line, "is a merge key; write the keys out, or use `defaults`", text)
        elif plain and text == "":
            self.refuse(line, "a key is empty; write its name before the colon")
        elif text in parent.items:
            first = parent.items[text].line
            self.refuse(line, f"is there twice, first on line {first}; keep one", text)
        key = BareKey(text) if plain and not _reads_as_text(text) else text
        parent.key, parent.key_line, parent.awaits_key = key, line + 1, False

    def _put(self, node: Node) -> None:
        self._left -= 1
        if self._left < 0:
            self.refuse(node.line - 1, "has too many values; split the file")
            raise _CannotReadOn
        if self._open:
            self._open[-1].add(node)
        elif node.value is not None:
            self.root = node

    def _begin(self, event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_extras(event)
        line = event.start_mark.line
        if self._open and self._open[-1].awaits_key:
            self.refuse(
                line, "a key is a list or a mapping; write a text, in quotes if it begins with [ or {"
            )
            raise _CannotReadOn
        if len(self._open) >= DEPTH_MAX:
            self.refuse(line, f"is nested more than {DEPTH_MAX} deep; flatten it")
            raise _CannotReadOn
        self._open.append(_Collection(type(event) is events.MappingStartEvent, line + 1))

    def _end(self, _event: Any) -> None:
        done = self._open.pop()
        self._put(Node(done.items if done.is_mapping else done.values, done.line))

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line
        message = f"*{quoted(event.anchor)} refers to an anchor; write the value out, or {_QUOTE_STAR}"
        if self._open and self._open[-1].awaits_key:
            self.refuse(line, message)
            raise _CannotReadOn
        self.refuse(line, message)
        self._put(Node(None, line + 1))

    def _refuse_extras(self, event: Any) -> None:
        line = event.start_mark.line
        if event.anchor is not None:
            self.refuse(
                line, f"has the anchor &{quoted(event.anchor)}; remove it, or quote a text that begins with &"
            )
        if event.tag is not None:
            self.refuse(
                line, f"has the tag {quoted(event.tag)}; remove it, or quote a text that begins with !"
            )


class _Collection:
    """A mapping or a list that is being read."""

    __slots__ = ("awaits_key", "is_mapping", "items", "key", "key_line", "line", "values")

    def __init__(self, is_mapping: bool, line: int) -> None:
        self.is_mapping, self.line = is_mapping, line
        self.items: dict[str, Node] = {}
        self.values: list[Node] = []
        self.key, self.key_line, self.awaits_key = "", line, is_mapping

    def place(self) -> str | int | None:
        """Return the key or position that is being filled, or None between two keys."""
        if not self.is_mapping:
            return len(self.values)
        return None if self.awaits_key else self.key

    def add(self, node: Node) -> None:
        if self.is_mapping:
            # Keep the first of two equal keys; the second has been refused.
            self.items.setdefault(self.key, node._replace(line=self.key_line))
            self.awaits_key = True
        else:
            self.values.append(node)


def to_yaml(root: Node) -> str:
    """Return the text of a tree; `compose` returns the same tree for it, except for line numbers."""
    written: str = yaml.emit(_events(root), Dumper=_DUMPER, allow_unicode=True, width=2**16)
    return written


def _events(root: Node) -> Iterator[Any]:
    yield events.StreamStartEvent(encoding=None)
    yield events.DocumentStartEvent(explicit=False)
    yield from _events_of(root)
    yield events.DocumentEndEvent(explicit=False)
    yield events.StreamEndEvent()


def _events_of(node: Node) -> Iterator[Any]:
    value = node.value
    if isinstance(value, dict):
        yield events.MappingStartEvent(None, None, implicit=True, flow_style=not value)
        for key, below in value.items():
            bare = isinstance(key, BareKey) or _reads_as_text(key)
            # The emitter does not accept subclasses of str.
            yield events.ScalarEvent(None, None, (bare, True), str(key))
            yield from _events_of(below)
        yield events.MappingEndEvent()
    elif isinstance(value, list):
        yield events.SequenceStartEvent(None, None, implicit=True, flow_style=not value)
        for item in value:
            yield from _events_of(item)
        yield events.SequenceEndEvent()
    elif value is None:
        yield events.ScalarEvent(None, None, (True, False), "null")
    else:
        yield events.ScalarEvent(None, None, (node.plain or _reads_as_text(value), True), value)


@lru_cache(maxsize=65_536)
def _reads_as_text(text: str) -> bool:
    """Return whether every YAML reader reads this text as a text when it is written without quotes."""
    return bool(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str")


_QUOTE_STAR = 'put a text that begins with * in quotes, such as "*/5 * * * *"'


class _Hint(NamedTuple):
    # A regular expression for the parser's message.
    said: str
    advice: str
    # Whether the mistake is where the construct begins, not where the parser gave up.
    at_begin: bool = False


_HINTS = [
    _Hint("scanning an alias", _QUOTE_STAR),
    _Hint("scanning an anchor", "put a text that begins with & in quotes"),
    _Hint("a tag|a %TAG|tag handle", "put a text that begins with ! in quotes"),
    _Hint("directive|%YAML", "put a text that begins with % in quotes"),
    _Hint("escape", "write \\\\ for a backslash, or use single quotes"),
    _Hint("quoted scalar", "close the quotes, and write nothing behind them", at_begin=True),
    _Hint("flow ", "close the bracket, or put a text with brackets or commas in quotes", at_begin=True),
    _Hint(
        "mapping values are not allowed", 'put a text with ": " in quotes; line up keys that belong together'
    ),
    _Hint("expected ':'", "write a colon and a blank after each key", at_begin=True),
    _Hint("block mapping", "line up keys that belong together; put quotes around all of a text"),
    _Hint("block collection|block sequence", "line up the items of a list, each with its dash"),
    _Hint("block scalar", "write nothing behind | or >, and indent the text with blanks"),
]
# By the character at which the parser gave up.
_STARTS = {
    "\t": "indent with blanks, not with tabs",
    "@": 'put a text that begins with @ in quotes, such as "@daily"',
    "*": _QUOTE_STAR,
}
_OTHERWISE = "check the quotes and the indentation; put a text with special characters in quotes"


def _refusal(error: MarkedYAMLError, text: str) -> tuple[int, str]:
    """Return the line of the mistake, counted from 0, and a message with advice."""
    said = f"{error.context or ''} {error.problem or ''}".strip()
    hint = next((hint for hint in _HINTS if re.search(hint.said, said)), None)
    mark = error.problem_mark or error.context_mark
    if hint is not None and hint.at_begin and error.context_mark is not None:
        mark = error.context_mark
    line, column = (0, 0) if mark is None else (mark.line, mark.column)
    if hint is not None:
        return line, f"is not YAML ({said}); {hint.advice}"
    advice = _STARTS.get(_character(text, line, column), _OTHERWISE)
    return line, f"is not YAML ({said}); {advice}"


def _character(text: str, line: int, column: int) -> str:
    lines = text.split("\n", line + 1)
    return lines[line][column : column + 1] if line < len(lines) else ""
