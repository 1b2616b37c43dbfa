"""How a command in the foreground is stopped: the first signal asks, the second does not wait."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = b"\x1b[?25h\n"


@contextmanager
def hear_signals(asked: asyncio.Event, last_words: Callable[[], str]) -> Iterator[None]:
    """Set `asked` at the first signal; end the process at the second, even if a task blocks the loop."""
    loop, heard = asyncio.get_running_loop(), list[int]()

    def hear(number: int, _: object) -> None:
        if heard:
            end_at_once(last_words())
        heard.append(number)
        loop.call_soon_threadsafe(asked.set)

    before = {number: signal.signal(number, hear) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_at_once(last_words: str) -> None:
    """End as a crash would. Written past the buffers, which the interrupted code may be using."""
    if sys.stdout.isatty():
        os.write(1, _SHOW_CURSOR)
    os.write(2, f"{last_words}\n".encode())
    os._exit(1)
