"""Standard output and standard error in an encoding that lacks letters, such as ASCII or Latin-1.

Without this module, click writes UTF-8 to a terminal in ASCII, and a letter that Latin-1 lacks ends the
command.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

from dutiful.cli.output import SHAPES

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = str.maketrans({unicode: plain for unicode, plain, _ in SHAPES.values()} | {"…": "~", "─": "-"})


class NarrowStream:
    """A text stream that writes every text: shapes as ASCII, and letters that it lacks in one of two ways.

    On a terminal such a letter is a question mark, so that columns stay aligned; into a file or a pipe it is
    an escape such as \\u0436, so that nothing is lost.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._errors = "replace" if stream.isatty() else "backslashreplace"

    def __getattr__(self, name: str) -> Any:
        # Hide `buffer`: click would write UTF-8 through it, past this encoding.
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text and return its length."""
        encoding = self._stream.encoding
        self._stream.write(text.translate(_PLAIN).encode(encoding, self._errors).decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)


def narrow_streams() -> None:
    """Let standard output and standard error write every text, unless they are in UTF-8."""
    sys.stdout, sys.stderr = _widest(sys.stdout), _widest(sys.stderr)


def _widest(stream: TextIO | None) -> Any:
    # A process without a terminal or a file has no stream.
    is_utf = stream is None or (stream.encoding or "").lower().startswith("utf")
    return stream if is_utf else cast("TextIO", NarrowStream(cast("TextIO", stream)))
