"""The end of the HTTP server: at once where nothing is in progress, after the answer where something is."""

from __future__ import annotations

import asyncio
import threading

from fastapi import FastAPI

from dutiful.httpd.server import HttpServer, listen

REQUEST = b"GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def started(app):
    """Return a server that listens, the task that answers, and a connection to it."""
    listener, listening = listen("127.0.0.1", 0), asyncio.Event()
    server = HttpServer(app, listener, None, lambda _: listening.set())
    port = listener.getsockname()[1]
    answering = asyncio.create_task(server.answer())
    await listening.wait()
    return server, answering, await asyncio.open_connection("127.0.0.1", port)


def test_a_stop_from_another_thread_ends_a_server_with_an_idle_connection():
    async def story():
        server, answering, (reader, writer) = await started(FastAPI())
        thread = threading.Thread(target=server.stop)
        thread.start()
        await answering
        thread.join()
        assert await reader.read() == b""
        writer.close()
        # A second request to stop may come when all is over.
        server.stop()

    asyncio.run(story())


def test_a_request_in_progress_is_answered_before_the_server_ends():
    app, begun, may_end = FastAPI(), asyncio.Event(), asyncio.Event()

    @app.get("/slow")
    async def slow():
        begun.set()
        await may_end.wait()
        return "done"

    async def story():
        server, answering, (reader, writer) = await started(app)
        writer.write(REQUEST)
        await begun.wait()
        server.stop()
        await asyncio.sleep(0)
        assert not answering.done()
        may_end.set()
        await answering
        assert (await reader.read()).endswith(b'"done"')
        writer.close()

    asyncio.run(story())


def test_connections_that_wait_for_a_file_are_logged_once_and_other_errors_as_before(caplog):
    async def story():
        server, answering, (_, writer) = await started(FastAPI())
        loop = asyncio.get_running_loop()
        for _ in range(1000):
            loop.call_exception_handler({"message": "socket.accept() out of system resource"})
        loop.call_exception_handler({"message": "something else"})
        server.stop()
        await answering
        writer.close()

    asyncio.run(story())
    assert caplog.messages == [
        "connections wait: this process has as many open files as it may; see `ulimit -n`",
        "something else",
    ]
