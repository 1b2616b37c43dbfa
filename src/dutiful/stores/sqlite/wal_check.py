"""Detects a damaged write-ahead log: SQLite silently drops all frames after the first bad one.

Every commit is synced before the next one begins. So all frames up to the last commit but one were safely on
disk, and a bad frame among them was damaged there. Later frames may be incomplete after any crash.
"""

from __future__ import annotations

import os
import struct
from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER, _FRAME_HEADER = 32, 24
# The lowest bit gives the byte order in which the checksum reads words.
_MAGIC = 0x377F0682
_PAGE_SIZE = 4096
# Frames that are summed side by side: more would not fit in a processor's cache.
_CHUNK = 512
# After this many steps a sum of 32-bit words may need 56 of its 64 bits, so carry bits are cut off then.
_STEPS = 16


class _Log(NamedTuple):
    file: int
    frame_size: int
    salts: bytes
    sums: bytes
    big_endian: bool


def lost_at(path: str) -> int | None:
    """Return the number of the first damaged frame at which SQLite would stop although commits follow it.

    None where there is no such frame, or no log; raises OSError where the log cannot be read. Other processes
    may write meanwhile: the frames checked here were complete before, unless the log is restarted, and then
    its header changes.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        header = os.pread(file, _HEADER, 0)
        found = _find(file, header)
        return found if os.pread(file, _HEADER, 0) == header else None
    finally:
        os.close(file)


def _find(file: int, header: bytes) -> int | None:
    log = _read_header(file, header)
    if log is not None:
        return _first_bad(log, _synced(log))
    # All frames written since the log was last restarted have the same salts.
    salts = os.pread(file, 8, _HEADER + 8)
    unknown = _Log(file, _FRAME_HEADER + _PAGE_SIZE, salts, b"", big_endian=False)
    return 0 if _synced(unknown) else None


def _read_header(file: int, header: bytes) -> _Log | None:
    if len(header) < _HEADER:
        return None
    magic, _, page_size = struct.unpack_from(">III", header)
    big_endian = magic == _MAGIC + 1
    words = array("Q", header[:24])
    ones = _ones(1)
    sums = _add_up([_lanes(words[n : n + 1], ones, swap=big_endian) for n in range(3)], (0, 0), ones)
    if magic not in (_MAGIC, _MAGIC + 1) or sums != _lanes(array("Q", header[24:]), ones, swap=True):
        return None
    return _Log(file, _FRAME_HEADER + page_size, header[16:24], header[24:], big_endian)


def _synced(log: _Log) -> int:
    """Return the number of frames up to the last commit but one."""
    count = (os.fstat(log.file).st_size - _HEADER) // log.frame_size
    earlier = latest = 0
    for number in range(count):
        header = os.pread(log.file, 16, _HEADER + number * log.frame_size)
        # Only the frame of a commit holds the size of the database.
        if header[8:] == log.salts and any(header[4:8]):
            earlier, latest = latest, number + 1
    return earlier


def _first_bad(log: _Log, count: int) -> int | None:
    sums = log.sums
    for first in range(0, count, _CHUNK):
        size = min(_CHUNK, count - first) * log.frame_size
        frames = os.pread(log.file, size, _HEADER + first * log.frame_size)
        if len(frames) < size:
            # The log was truncated by a process that restarts it.
            return None
        words = array("Q", frames)
        bad = _bad_frame(log, words, sums)
        if bad is not None:
            return first + bad
        sums = words[2 :: log.frame_size // 8][-1:].tobytes()
    return None


def _bad_frame(log: _Log, words: array[int], before: bytes) -> int | None:
    """Return the first frame whose salts or sums are wrong; each frame's sums continue those before it."""
    stride = log.frame_size // 8
    stored = words[2::stride]
    ones = _ones(len(stored))
    data = (_lanes(words[n::stride], ones, swap=log.big_endian) for n in (0, *range(3, stride)))
    one, other = _add_up(data, _lanes(array("Q", before) + stored[:-1], ones, swap=True), ones)
    expected = _lanes(stored, ones, swap=True)
    salts = int.from_bytes(words[1::stride].tobytes(), "little")
    wrong = (one ^ expected[0]) | (other ^ expected[1])
    wrong |= salts ^ int.from_bytes(log.salts * len(stored), "little")
    return None if wrong == 0 else ((wrong & -wrong).bit_length() - 1) // 64


# Big integers that hold one word of each frame, 64 bits apart. A log of 64 MiB has eight million pairs of
# words; summing them one at a time would take 1.5 s.

_Lanes = tuple[int, int]


def _ones(count: int) -> int:
    return int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")


def _lanes(pairs: array[int], ones: int, *, swap: bool) -> _Lanes:
    """Return the first words of all pairs, and the second words."""
    words = array("I", pairs.tobytes())
    if swap:
        words.byteswap()
    both = int.from_bytes(words.tobytes(), "little")
    return both & ones, (both >> 32) & ones


def _add_up(data: Iterable[_Lanes], sums: _Lanes, ones: int) -> _Lanes:
    """Return SQLite's checksums: each sum adds one word of every pair, and the other sum."""
    one, other = sums
    for step, (first, second) in enumerate(data, 1):
        one += first + other
        other += second + one
        if step % _STEPS == 0:
            one, other = one & ones, other & ones
    return one & ones, other & ones
