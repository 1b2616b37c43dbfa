"""Stopping a command in the foreground: the first signal requests a stop, the second ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds within which a second signal counts as the same request: `timeout` and terminals send one signal to
# every process of a group.
_MOMENT = 0.5
_SHOW_CURSOR = b"\x1b[?25h\n"


@contextmanager
def hear_signals(asked: asyncio.Event, last_words: Callable[[], str]) -> Iterator[None]:
    """Set `asked` at the first signal; end the process at the second, even if a task blocks the loop."""
    loop, clock, (heard, noted) = asyncio.get_running_loop(), SystemClock(), socket.socketpair()
    noted.setblocking(False)

    def listen() -> None:
        first: float | None = None
        for _ in _signals(heard):
            if first is None:
                first = clock.monotonic()
                loop.call_soon_threadsafe(asked.set)
            elif clock.monotonic() - first >= _MOMENT:
                end_at_once(last_words())

    # Listen in a thread: Python runs signal handlers between two steps of the main thread, so a task that
    # blocks in a system call would delay the second signal.
    threading.Thread(target=listen, name="dutiful-signals", daemon=True).start()
    # Under `nohup` a terminal that closes must not stop the command.
    wanted = [each for each in _SIGNALS if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: None) for number in wanted}
    told = signal.set_wakeup_fd(noted.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(told)
        noted.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals(heard: socket.socket) -> Iterator[int]:
    """Yield the signals that request a stop, until the other end of the socket is closed."""
    with heard:
        while number := heard.recv(1):
            if number[0] in _SIGNALS:
                yield number[0]


def end_at_once(last_words: str) -> None:
    """End the process as a crash would. Bypasses the output buffers, which interrupted code may be using."""
    if sys.stdout.isatty():
        os.write(1, _SHOW_CURSOR)
    os.write(2, f"{last_words}\n".encode())
    os._exit(1)
