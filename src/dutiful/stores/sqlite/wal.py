"""A log that lost its middle: SQLite reads it up to the damage and forgets what follows, without a word.

Every commit is synced before the next one begins. So all frames up to the last commit but one were safe on
the disk, and one of them that is not whole was damaged there. After them, a crash may leave anything.
"""

from __future__ import annotations

import os
import struct
from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER, _FRAME_HEADER = 32, 24
# The lowest bit says in which order the checksum takes the bytes of a word.
_MAGIC = 0x377F0682
_PAGE_SIZE = 4096
# Frames that are summed up side by side: more no longer fit in the cache of a processor.
_CHUNK = 512
# After so many steps the sums of two words may need 56 bits of the 64 that each has.
_STEPS = 16


class _Log(NamedTuple):
    file: int
    frame_size: int
    salts: bytes
    sums: bytes
    big_endian: bool


def lost_at(path: str) -> int | None:
    """Return the number of the first damaged frame that SQLite would stop at, though commits follow it.

    None where there is none, and where there is no log; raises OSError where it cannot be read. Others may
    write meanwhile: the frames that are looked at were whole before, unless the log is begun anew, and then
    its header is another one.
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
    # The frames of one generation have the same salts.
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
    """Return how many frames there are up to the last commit but one."""
    count = (os.fstat(log.file).st_size - _HEADER) // log.frame_size
    earlier = latest = 0
    for number in range(count):
        header = os.pread(log.file, 16, _HEADER + number * log.frame_size)
        # Only a commit says how many pages the database has.
        if header[8:] == log.salts and any(header[4:8]):
            earlier, latest = latest, number + 1
    return earlier


def _first_bad(log: _Log, count: int) -> int | None:
    sums = log.sums
    for first in range(0, count, _CHUNK):
        size = min(_CHUNK, count - first) * log.frame_size
        frames = os.pread(log.file, size, _HEADER + first * log.frame_size)
        if len(frames) < size:
            # Cut off by somebody who begins it anew.
            return None
        words = array("Q", frames)
        bad = _bad_frame(log, words, sums)
        if bad is not None:
            return first + bad
        sums = words[2 :: log.frame_size // 8][-1:].tobytes()
    return None


def _bad_frame(log: _Log, words: array[int], before: bytes) -> int | None:
    """Return the first frame whose salts or sums are wrong; the sums of each go on from those before it."""
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


# Numbers that hold one word of each frame, 64 bits apart: a log of 64 MiB has eight million pairs of
# words, and one at a time would take a second and a half.

_Lanes = tuple[int, int]


def _ones(count: int) -> int:
    return int.from_bytes(b"\xff\xff\xff\xff\0\0\0\0" * count, "little")


def _lanes(pairs: array[int], ones: int, *, swap: bool) -> _Lanes:
    """Return the first words of all pairs, and the second ones."""
    words = array("I", pairs.tobytes())
    if swap:
        words.byteswap()
    both = int.from_bytes(words.tobytes(), "little")
    return both & ones, (both >> 32) & ones


def _add_up(data: Iterable[_Lanes], sums: _Lanes, ones: int) -> _Lanes:
    """Return SQLite's checksums: of each pair, one word and the other sum are added to each sum."""
    one, other = sums
    for step, (first, second) in enumerate(data, 1):
        one += first + other
        other += second + one
        if step % _STEPS == 0:
            one, other = one & ones, other & ones
    return one & ones, other & ones
