"""A pooler in transaction mode, as PostgreSQL clients notice it: each transaction has another session."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator

_ASKS_FOR_TLS = (80877103).to_bytes(4)
# The server is ready for the next statement, and in no transaction.
_IDLE = b"Z\0\0\0\x05I"
_SYNC = b"S\0\0\0\x04"


@contextlib.asynccontextmanager
async def pooler_to(
    port: int, *, keeps_statements: bool = False, refused: bytes | None = None
) -> AsyncIterator[int]:
    """Yield the port of a pooler on the loopback that serves each connection by two sessions in turn.

    A newer pooler `keeps_statements`: each is prepared in both sessions. PgBouncer refuses a connection that
    sets a parameter which it does not know, such as `refused`.
    """
    served = set[asyncio.Task[None]]()

    def serve(client: StreamReader, to_client: StreamWriter) -> None:
        served.add(asyncio.ensure_future(_serve(client, to_client, port, keeps_statements, refused)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)
        await server.wait_closed()


async def _serve(
    client: StreamReader, to_client: StreamWriter, port: int, keeps_statements: bool, refused: bytes | None
) -> None:
    writers = [to_client]
    try:
        startup = await _startup(client, to_client)
        if refused is not None and b"\0" + refused + b"\0" in startup:
            to_client.write(_refusal(refused))
            await to_client.drain()
            return
        sessions = []
        for _ in range(2):
            from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
            writers.append(to_server)
            sessions.append((from_server, to_server))
            to_server.write(startup)
        greetings = [await _greeting(from_server) for from_server, _ in sessions]
        to_client.write(greetings[0])
        await _take_turns(client, to_client, sessions, keeps_statements)
    except (asyncio.IncompleteReadError, OSError):
        # One side has gone.
        pass
    finally:
        await _end(writers)


async def _end(writers: list[StreamWriter]) -> None:
    # Not aborted: the client must read what it was told last.
    writers[0].close()
    for writer in writers[1:]:
        writer.transport.abort()
    for writer in writers:
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _startup(client: StreamReader, to_client: StreamWriter) -> bytes:
    """Return the first message of a client; TLS is declined."""
    while True:
        size = await client.readexactly(4)
        body = await client.readexactly(int.from_bytes(size) - 4)
        if body != _ASKS_FOR_TLS:
            return size + body
        to_client.write(b"N")


def _refusal(parameter: bytes) -> bytes:
    """Return what PgBouncer answers to a startup parameter that it does not know."""
    said = b"SFATAL\0C08P01\0Munsupported startup parameter: " + parameter + b"\0\0"
    return b"E" + (len(said) + 4).to_bytes(4) + said


async def _greeting(from_server: StreamReader) -> bytes:
    """Return everything that a new session says until it is ready."""
    said = b""
    while not said.endswith(_IDLE):
        said += await _message(from_server)
    return said


async def _message(reader: StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


async def _take_turns(
    client: StreamReader,
    to_client: StreamWriter,
    sessions: list[tuple[StreamReader, StreamWriter]],
    keeps_statements: bool,
) -> None:
    """Pass messages until one side ends; the other session has its turn when a transaction has ended."""
    turn, mirrored = 0, [0, 0]

    async def answer(session: int) -> None:
        nonlocal turn
        while True:
            message = await _message(sessions[session][0])
            if mirrored[session]:
                mirrored[session] -= message.startswith(b"Z")
                continue
            if message == _IDLE:
                turn = 1 - session
            to_client.write(message)

    answers = [asyncio.ensure_future(answer(session)) for session in range(2)]
    try:
        while True:
            message = await _message(client)
            if keeps_statements and message.startswith(b"P"):
                mirrored[1 - turn] += 1
                sessions[1 - turn][1].write(message + _SYNC)
            sessions[turn][1].write(message)
    finally:
        for task in answers:
            task.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
