"""The pixels of a screenshot, read without an image library."""

from __future__ import annotations

import struct
import zlib

_CHANNELS = {0: 1, 2: 3, 6: 4}


def rows(png: bytes) -> list[list[tuple[int, ...]]]:
    """Return the pixels of an 8-bit PNG, row by row."""
    width, _, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8, "Chromium writes screenshots with 8 bits a channel"
    size = _CHANNELS[kind]
    data, stride = zlib.decompress(_image_data(png)), width * size
    before, found = bytearray(stride), []
    for start in range(0, len(data), stride + 1):
        line = _unfiltered(data[start], data[start + 1 : start + 1 + stride], before, size)
        found.append([tuple(line[at : at + size]) for at in range(0, stride, size)])
        before = line
    return found


def _image_data(png: bytes) -> bytes:
    at, parts = 8, []
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        if name == b"IDAT":
            parts.append(png[at + 8 : at + 8 + length])
        at += length + 12
    return b"".join(parts)


def _unfiltered(kind: int, line: bytes, above: bytearray, size: int) -> bytearray:
    done = bytearray(line)
    for at in range(len(done)):
        left = done[at - size] if at >= size else 0
        corner = above[at - size] if at >= size else 0
        guess = (0, left, above[at], (left + above[at]) // 2, _paeth(left, above[at], corner))[kind]
        done[at] = (done[at] + guess) & 255
    return done


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))
