"""The service: upserts over HTTP one by one and in bulk, what a due query costs, drift under load."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from http.client import HTTPConnection
from statistics import quantiles
from typing import Any

from benchmarks.engine_cases import puts
from benchmarks.report import Row, Section, at_most

UPSERTS, CONNECTIONS = 4_000, 16
BULK, BULK_SIZE = 100_000, 10_000
ASKERS = 16
QUESTIONS = (
    "/schedules/daily/explain?at=2100-01-01T00:30:00Z",
    "/schedules/leap/next?count=1000",
    "/schedules/busy-1/next?count=1000",
    "/schedules/busy-1/runs?limit=1000",
    "/schedules?limit=1000&label=team%3Dnone",
    "/runs?limit=1000",
    "/",
)
LARGE = bool(os.environ.get("DUTIFUL_BENCH_LARGE"))


def run() -> Section:
    """Measure a real server on loopback, and the store below it."""
    with tempfile.TemporaryDirectory() as folder, Server(folder) as server:
        server.ask("PUT", "/workflows/w/1", {"nodes": []})
        upserts, bulk, drift = _upserts(server, "one"), _bulk(server), _drift(server)
        beside = _upserts(server, "two")
    with tempfile.TemporaryDirectory() as folder, Server(folder) as server:
        idle, asked = _drift_beside_questions(server)
    sizes = (1_000, 100_000, *((1_000_000,) if LARGE else ()))
    queries = {n: _due_query(n) for n in sizes}
    growth = queries[100_000] / queries[1_000]
    rows = [
        Row("upserts over HTTP, one by one", upserts, "/s", {}, (at_most(1000 / upserts, 1, "ms each"),)),
        Row("100k upserts over HTTP in bulk", bulk, "s", {}, (at_most(bulk, 10, "s"),)),
        *(Row(f"due query, {n:,} schedules", took, "us", {}, ()) for n, took in queries.items()),
        Row("due query at 100k over 1k", growth, "x", {}, (at_most(growth, 2, "x"),)),
        Row(
            "upserts beside 200 launches a second", beside, "/s", {}, (at_most(1000 / beside, 1, "ms each"),)
        ),
        Row("drift p50, 200 launches a second", drift[0], "ms", {}, ()),
        Row("drift p99, 200 launches a second", drift[1], "ms", {}, (at_most(drift[1], 1000, "ms"),)),
        Row(f"drift p99, 20 launches a second, beside {ASKERS} askers", asked, "ms", {"idle": idle}, ()),
        Row("the same over idle", asked / idle, "x", {}, (at_most(asked / idle, 3, "x idle"),)),
    ]
    notes = (
        f"{CONNECTIONS} connections; one server with its worker process; SQLite, FULL",
        "drift: arrival at an executor in this process, over HTTP, minus the tick",
    )
    return Section("service", tuple(rows), notes)


class Server:
    """`dutiful serve` in a process of its own; `settings` are further variables of its environment."""

    def __init__(self, folder: str, **settings: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.arrivals: list[float] = []
        self._environ = {
            **os.environ,
            "DUTIFUL_STORE": f"sqlite:{folder}/service.db",
            "DUTIFUL_PORT": str(self.port),
            "DUTIFUL_EXECUTOR": f"http://127.0.0.1:{_start_executor(self.arrivals)}/",
            **settings,
        }

    def __enter__(self) -> Server:
        command, quiet = [sys.executable, "-m", "dutiful", "serve"], subprocess.DEVNULL
        self._process = subprocess.Popen(command, env=self._environ, stdout=quiet, stderr=quiet)
        while True:
            try:
                self.ask("GET", "/healthz")
            except OSError:
                time.sleep(0.05)
            else:
                return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    def ask(self, method: str, path: str, body: Any = None) -> None:
        """Send a request that must be answered with 200."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status == 200, (answer.status, content[:500])


class _Executor(asyncio.Protocol):
    """Takes every run at once, and notes how long after its tick it arrived."""

    def __init__(self, arrivals: list[float]) -> None:
        self._arrivals, self._read = arrivals, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self._read += data
        head, _, body = self._read.partition(b"\r\n\r\n")
        if len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0] or 1):
            return
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        tick = datetime.fromisoformat(json.loads(body)["meta"]["scheduled_for"])
        self._arrivals.append(now - tick.timestamp())
        self._read = b""


def _start_executor(arrivals: list[float]) -> int:
    """Return the port of an executor in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Executor(arrivals), sock=listener, backlog=1024)
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    return int(listener.getsockname()[1])


def given(schedule_id: str, **more: Any) -> dict[str, Any]:
    """Return the input of an upsert."""
    common = {"workflow_id": "w", "version": 1, "user_id": "u", "cron_expr": "0 4 * * *", "timezone": "UTC"}
    return {"schedule_id": schedule_id, **common, **more}


def _upserts(server: Server, prefix: str) -> float:
    """Return how many a second are stored, each asked for on one of the connections when it is free.

    What is sent is made before, and of what comes back only the status and the length are read: the
    sender shares the machine with the server, and what it costs would be measured too.
    """
    requests = [_request("/schedules/upsert", given(f"{prefix}-{n}")) for n in range(UPSERTS)]

    async def send(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for request in requests[first::CONNECTIONS]:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
        writer.close()

    async def send_all() -> float:
        begin = time.perf_counter()
        await asyncio.gather(*map(send, range(CONNECTIONS)))
        return UPSERTS / (time.perf_counter() - begin)

    return asyncio.run(send_all())


def _request(path: str, given: Any) -> bytes:
    body = json.dumps(given).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _bulk(server: Server) -> float:
    begin = time.perf_counter()
    for first in range(0, BULK, BULK_SIZE):
        many = [given(f"bulk-{n}") for n in range(first, first + BULK_SIZE)]
        server.ask("POST", "/schedules/bulk", many)
    return time.perf_counter() - begin


def _drift(server: Server) -> tuple[float, float]:
    every_second = {"cron_expr": "* * * * * *", "overlap_policy": "allow"}
    server.ask("POST", "/schedules/bulk", [given(f"busy-{n}", **every_second) for n in range(200)])
    time.sleep(3)
    server.arrivals.clear()
    time.sleep(10)
    cuts = quantiles(server.arrivals, n=100)
    return cuts[49] * 1000, cuts[98] * 1000


def _drift_beside_questions(server: Server) -> tuple[float, float]:
    """Return the p99 of the drift in ms, without clients and with clients that poll."""
    server.ask("PUT", "/workflows/w/1", {"nodes": []})
    server.ask(
        "POST", "/schedules/upsert", given("leap", cron_expr="0 0 29 2 *", timezone="Australia/Lord_Howe")
    )
    server.ask("POST", "/schedules/upsert", given("daily", cron_expr="30 1 * * *", timezone="Europe/Berlin"))
    every_second = {"cron_expr": "* * * * * *", "overlap_policy": "allow"}
    server.ask("POST", "/schedules/bulk", [given(f"busy-{n}", **every_second) for n in range(20)])
    idle = p99_ms(drifts(server, 20))
    command = [sys.executable, "-m", "benchmarks.service", "ask", str(server.port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as askers:
        asked = p99_ms(drifts(server, 20))
        assert askers.stdin is not None
        askers.stdin.close()
    return idle, asked


def drifts(server: Server, seconds: float) -> list[float]:
    """Return the drift of every run that arrives within these seconds."""
    time.sleep(3)
    server.arrivals.clear()
    time.sleep(seconds)
    return [*server.arrivals]


def p99_ms(drifts: list[float]) -> float:
    """Return the 99th percentile in milliseconds."""
    return quantiles(drifts, n=100)[98] * 1000


async def _ask_until_told(port: int) -> None:
    """Ask the dearest legal questions, on several connections at once, until the input ends."""
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

    async def ask(first: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        turn = first
        while not ended.done():
            path = QUESTIONS[turn % len(QUESTIONS)]
            turn += 1
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
        writer.close()

    await asyncio.gather(*map(ask, range(ASKERS)))


def _due_query(n: int) -> float:
    command = [sys.executable, "-m", "benchmarks.service", str(n)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def _time_due_query(n: int) -> float:
    """Return the microseconds of a look for what is due, with one schedule due of n."""
    from dutiful.core.changes import Changes
    from dutiful.stores.sqlite import SqliteStore

    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/state.db")
        await store.open()
        many = puts(n)
        await store.apply(Changes([many[0]._replace(wake_at=0), *many[1:]]))
        await store.lead("bench")
        looks = 2_000
        begin = time.perf_counter()
        for _ in range(looks):
            assert len((await store.load(1, 100)).batch.due) == 1
        took = (time.perf_counter() - begin) / looks
        await store.close()
    return took * 1e6


if __name__ == "__main__" and sys.argv[1] == "ask":
    asyncio.run(_ask_until_told(int(sys.argv[2])))
elif __name__ == "__main__":
    print(asyncio.run(_time_due_query(int(sys.argv[1]))))
