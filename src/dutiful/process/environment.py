"""What a command is told of the world: little, and the same wherever this process was started from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# One variable may be 128 KiB on Linux, its name included.
_VARIABLE_MAX = 100_000


def environment_of(told: Mapping[str, str | None], inherited: Iterable[str] = ()) -> dict[str, str]:
    """Return a fixed PATH and LANG, HOME, the `inherited` ones of this process, and what a command is `told`.

    What is None, or too long for a variable, is left out.
    """
    fixed = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/")}
    passed_on = {name: os.environ[name] for name in inherited if name in os.environ}
    return fixed | passed_on | dict(_fitting(told))


def _fitting(told: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    for name, value in told.items():
        if value is not None and len(value.encode("utf-8", "replace")) <= _VARIABLE_MAX:
            # A value may quote anybody; no variable can hold a NUL or half a character.
            yield name, value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
