"""A TCP proxy that stands before a real server and loses what a test tells it to lose."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator


class Proxy:
    """Passes bytes in both directions; the attributes may be changed at any time from any thread."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self.target_port = target_port
        self.drop_answers = False
        """Whether what the server says is thrown away, while requests still reach it."""
        self.hold_requests = False
        """Whether what clients say from now on is kept until `deliver`, even if they are gone by then."""
        self._delivered = asyncio.Event()
        self.delay_s = 0.0
        """How long each piece of data is kept, in both directions, as on a slow link."""
        self.refuse = False
        """Whether new connections are closed at once."""
        self.connections = 0
        self.requests: list[bytes] = []
        """What the clients have sent, chunk by chunk."""
        self._changed = threading.Condition()
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def cut(self) -> None:
        """Close all connections."""

        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def deliver(self) -> None:
        """Pass on what was held; what is held after this waits for the next call."""

        def release() -> None:
            held, self._delivered = self._delivered, asyncio.Event()
            held.set()

        assert self._loop is not None
        self._loop.call_soon_threadsafe(release)

    def wait_for_request(self, content: bytes) -> None:
        """Return once a client has sent something that contains these bytes."""
        with self._changed:
            assert self._changed.wait_for(lambda: content in b"".join(self.requests), 30)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        # Known from here on: `cut` and the end of the proxy close a connection at whatever step it is.
        writers = {writer}
        self._writers |= writers
        try:
            if self.refuse:
                writer.transport.abort()
                return
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target_port)
            writers.add(to_server)
            self._writers.add(to_server)
            # The end of the proxy cancels this task, which asyncio's streams would report as an error.
            with contextlib.suppress(asyncio.CancelledError):
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass(reader, to_server, is_request=True))
                    both.create_task(self._pass(from_server, writer, is_request=False))
        except OSError:
            writer.transport.abort()
        finally:
            self._writers -= writers
            for each in writers:
                each.close()

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_request: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if is_request:
                    held = self.hold_requests
                    self._note(data)
                    if held:
                        await asyncio.wait_for(self._delivered.wait(), 60)
                elif self.drop_answers:
                    continue
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                target.write(data)
                await target.drain()
        target.close()

    def _note(self, data: bytes) -> None:
        with self._changed:
            self.requests.append(data)
            self._changed.notify_all()


@contextlib.contextmanager
def proxy_to(target_port: int, tls: ssl.SSLContext | None = None) -> Iterator[Proxy]:
    """Run a proxy on a free port of the loopback; with a context it speaks TLS to its clients."""
    proxy, ready, done = Proxy(target_port), threading.Event(), None

    async def run() -> None:
        nonlocal done
        done = asyncio.Event()
        proxy._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0, ssl=tls)
        proxy.port = server.sockets[0].getsockname()[1]
        ready.set()
        await done.wait()
        # Stop listening first: asyncio leaves open what it accepts just before its server closes.
        for listener in server.sockets:
            proxy._loop.remove_reader(listener.fileno())
        # A task that is cancelled before its first step would leave the connection it was made for open.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            proxy._abort()
            await asyncio.wait(others, timeout=0.01)
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield proxy
    finally:
        proxy.deliver()
        assert proxy._loop is not None
        assert done is not None
        proxy._loop.call_soon_threadsafe(done.set)
        thread.join(30)
