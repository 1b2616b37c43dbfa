"""The audit file read back: changes newest first, by filters, in pages, without reading the whole file."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

READ_MAX = 4_194_304
"""The most bytes that one call reads; `Found.older` is the place from which the next call continues."""
_BLOCK = 65_536
# The head of a line as `AuditLog` writes it. Lines whose head does not match the filter are not parsed.
_HEAD = re.compile(
    rb'\{"at":"(?P<at>[^"]*)","who":(?P<who>"(?:[^"\\]|\\.)*"),"action":"(?P<action>[^"]*)",'
    rb'"phase":"(?P<phase>asked|done)","request":"(?P<request>[^"]*)"'
)


class Wanted(NamedTuple):
    """A filter of changes; fields that are empty or None match all."""

    who: str = ""
    action: str = ""
    schedule_id: str = ""
    request: str = ""
    since: datetime | None = None
    until: datetime | None = None


class Found(NamedTuple):
    """Changes, newest first, and the place in the file before which older ones may be."""

    lines: list[dict[str, Any]]
    older: int | None


def read_back(
    path: str | Path, wanted: Wanted, most: int, before: int | None = None, read_max: int = READ_MAX
) -> Found:
    """Return up to `most` changes before a place in the file, by default before its end.

    Each has its `place`, whether it is `done`, the `count` of lines of its request that it stands for, and
    whether the part that was read ends among them, so that there may be `more`. With a filter by request
    every line is returned.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            end = size if before is None else min(before, size)
            if wanted.until is not None:
                end = _end_of(file, end, wanted.until)
            done, sees_end = _done_after(file, end, size)
            found = _collected(file, wanted, most, (max(0, end - read_max), end), done)
    except OSError:
        return Found([], None)
    for entry in found.lines:
        entry["done"] = not sees_end or entry["request"].encode() in done
    return found


def line_at(path: str | Path, place: int) -> dict[str, Any] | None:
    """Return the change that is asked for at this place and whether it is `done`, None if there is none."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, min(place, size) - 1))
            begins = place == 0 or file.read(1) == b"\n"
            line = file.readline()
            done, sees_end = _done_after(file, file.tell(), size)
    except OSError:
        return None
    head = _HEAD.match(line)
    entry = _parsed(line) if begins and head is not None and head["phase"] == b"asked" else None
    return entry and {**entry, "done": not sees_end or entry["request"].encode() in done}


def _collected(file: IO[bytes], wanted: Wanted, most: int, part: tuple[int, int], done: set[bytes]) -> Found:
    """Return the changes in a part of the file, and add the requests that have a line `done` there."""
    found = list[dict[str, Any]]()
    named = json.dumps(wanted.schedule_id).encode() if wanted.schedule_id else b""
    least, place = part
    for place, line in _backward(file, part[1], least):
        head = _HEAD.match(line)
        if head is None:
            continue
        if head["phase"] == b"done":
            done.add(head["request"])
            continue
        if wanted.since is not None and _at(head) < wanted.since:
            return Found(found, None)
        entry = _parsed(line) if _may_match(head, wanted) and named in line else None
        if entry is None or (wanted.schedule_id and entry.get("schedule_id") != wanted.schedule_id):
            continue
        if found and not wanted.request and found[-1]["request"] == entry["request"]:
            found[-1]["count"] += 1
            continue
        if len(found) == most:
            return Found(found, place + len(line) + 1)
        found.append({**entry, "place": place, "count": 1, "more": False})
    if least and found:
        found[-1]["more"] = found[-1]["count"] > 1
    return Found(found, place if least else None)


def _may_match(head: re.Match[bytes], wanted: Wanted) -> bool:
    return (
        (not wanted.who or json.loads(head["who"]) == wanted.who)
        and (not wanted.action or head["action"] == wanted.action.encode())
        and (not wanted.request or head["request"] == wanted.request.encode())
        and (wanted.until is None or _at(head) <= wanted.until)
    )


def _done_after(file: IO[bytes], place: int, size: int) -> tuple[set[bytes], bool]:
    """Return the requests that have a line `done` after a place, and whether all such lines were read."""
    file.seek(place)
    heads = (_HEAD.match(line) for line in file.read(READ_MAX).split(b"\n"))
    done = {head["request"] for head in heads if head is not None and head["phase"] == b"done"}
    return done, size - place <= READ_MAX


def _backward(file: IO[bytes], end: int, least: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines between two places and where they begin, the last one first."""
    rest = b""
    while end > least:
        begin = max(least, end - _BLOCK)
        file.seek(begin)
        block = file.read(end - begin) + rest
        pieces, place = block.split(b"\n"), begin + len(block)
        # The first piece may be the end of a line that begins in the block before.
        rest = pieces[0]
        for piece in reversed(pieces[0 if begin == 0 else 1 :]):
            place -= len(piece)
            if piece:
                yield place, piece
            place -= 1
        end = begin


def _end_of(file: IO[bytes], end: int, until: datetime) -> int:
    """Return a place shortly after the last line of this time, by bisection: lines are in order of time."""
    low = 0
    while end - low > _BLOCK:
        middle = (low + end) // 2
        file.seek(middle)
        file.readline()
        place = file.tell()
        head = _HEAD.match(file.readline())
        if head is not None and _at(head) > until:
            end = middle
        else:
            low = place
    return end


def _at(head: re.Match[bytes]) -> datetime:
    return datetime.fromisoformat(head["at"].decode())


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return entry
