"""Ports that no other program gets while a test needs them."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def port_without_listener() -> Iterator[int]:
    """Yield a port of 127.0.0.1 without a listener.

    A bound socket reserves the port: the system gives it to no other program, but the test may listen on it.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
