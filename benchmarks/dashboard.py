"""The pages at 100,000 schedules and a million entries, beside a worker that fires 200 times a second."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from statistics import median, quantiles
from typing import BinaryIO

from benchmarks.report import Row, Section, at_most
from benchmarks.service import Server, drifts, given, p99_ms

SCHEDULES = int(os.environ.get("DUTIFUL_BENCH_SCHEDULES", "100000"))
ENTRIES = 10 * SCHEDULES
BUSY, VIEWERS, ASKED = 200, 20, 100
_BULK = 10_000
# The drift is measured so many times without and with viewers, for so many seconds each.
_TURNS, _TURN_S = 6, 10
_SETTLE_S = 5
# A page, and the milliseconds within which 95 of 100 answers come.
BUDGET = {
    "overview": ("/", 25),
    "list": ("/ui/schedules", 40),
    "find": ("/ui/schedules?q=job-9999", 40),
    "a label": ("/ui/schedules?q=team%3Dteam-7", 40),
    "one schedule": ("/ui/schedules/team-7.job-7", 15),
    # The preview of an edit: the fire times of two texts that fire every second or two are compared.
    "editor": ("/ui/schedules/busy-1/edit?e=%2A%2F2+%2A+%2A+%2A+%2A+%2A", 20),
    "calendar": ("/ui/calendar", 30),
}


def run() -> Section:
    """Measure a real server on loopback."""
    # A run ends when the executor answers; runs that nobody reports on would pile up in flight.
    ends = {"DUTIFUL_EXECUTOR_MODE": "webhook"}
    with tempfile.TemporaryDirectory() as folder, Server(folder, **ends) as server:
        _fill(server, f"{folder}/service.db")
        # The disk is still busy with a million entries.
        time.sleep(_SETTLE_S)
        every_second = {"cron_expr": "* * * * * *", "overlap_policy": "allow"}
        server.ask("POST", "/schedules/bulk", [given(f"busy-{n}", **every_second) for n in range(BUSY)])
        pages = {name: _p95(server, path) for name, (path, _) in BUDGET.items()}
        unchanged = _p95(server, "/", unchanged=True)
        alone, watched = _drifts(server)
    rows = [
        *(
            Row(f"{name}, p95", pages[name], "ms", {}, (at_most(pages[name], limit, "ms"),))
            for name, (_, limit) in BUDGET.items()
        ),
        Row("refresh without change, p95", unchanged, "ms", {}, (at_most(unchanged, 2, "ms"),)),
        Row(f"drift p99, {BUSY} launches a second", alone, "ms", {}, ()),
        Row(f"drift p99, {VIEWERS} viewers beside", watched, "ms", {"alone": alone}, ()),
        Row("the same over alone", watched / alone, "x", {}, (at_most(watched / alone, 1.1, "x alone"),)),
    ]
    notes = (
        f"{SCHEDULES:,} schedules, {ENTRIES:,} entries of ten days; a server, its worker process; SQLite",
        "each answer is timed right after one to /healthz, so that no time to wake up is measured",
        "a viewer asks for a page every five seconds, half a second after ticks are due, as the script does",
    )
    return Section("dashboard", tuple(rows), notes)


def _fill(server: Server, path: str) -> None:
    server.ask("PUT", "/workflows/w/1", {"nodes": []})
    for first in range(0, SCHEDULES, _BULK):
        many = range(first, min(first + _BULK, SCHEDULES))
        server.ask("POST", "/schedules/bulk", [_schedule(number) for number in many])
    _write_entries(path)


def _schedule(number: int) -> dict[str, object]:
    team = f"team-{number % 50}"
    cron = f"{number % 60} {number // 60 % 24} * * *"
    return given(f"{team}.job-{number}", cron_expr=cron, labels={"team": team})


def _write_entries(path: str) -> None:
    """Write ten entries for each schedule, one a day, of which one in a hundred has failed."""
    now = int(time.time()) // 60 * 60_000
    with sqlite3.connect(path, timeout=60) as connection:
        connection.execute(
            "WITH days(day) AS (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10))"
            " INSERT INTO runs (schedule, run_at, kind, status, phase, fire_at, reason, attempt, epoch,"
            " started_at, ended_at, ticks, detail, updated_at, key, created_at)"
            " SELECT number, at, 'schedule', iif(bad, 'FAILED', 'SUCCESS'), 'ended', at,"
            " iif(bad, 'task_failed', NULL), 1, 1, at + 5, at + 905, 1, iif(bad, 'disk full', NULL),"
            " at + 905, randomblob(32), at"
            " FROM (SELECT number, ? - day * 86400000 + (number % 1440) * 60000 AS at,"
            " (number + day) % 100 = 0 AS bad FROM declarations, days)",
            (now,),
        )
    connection.close()


def _p95(server: Server, path: str, *, unchanged: bool = False) -> float:
    """Return the milliseconds within which 95 of 100 answers come, asked from a process of its own.

    The executor is in this process, and what it is busy with would be measured too.
    """
    command = [sys.executable, "-m", "benchmarks.dashboard", str(server.port), path, *["204"] * unchanged]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _time_answers(port: int, path: str, expected: str = "200") -> float:
    """Return the p95 of the answers to one path, after one answer that fills the caches."""
    times, revision = list[float](), ""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
        connection.makefile("rb") as file,
    ):
        for turn in range(ASKED + 1):
            # The budget is for the time of the server. An idle machine takes up to a millisecond to run
            # its processes again, so a request that is not timed wakes them.
            connection.sendall(_request("/healthz"))
            _read_answer(file)
            begin = time.perf_counter()
            connection.sendall(_request(path, revision))
            status, body = _read_answer(file)
            took = time.perf_counter() - begin
            if expected == "204" and status == "200":
                # The first answer, or schedules have fired meanwhile: from now on, ask about this revision.
                known = body.partition('data-revision="')[2].partition('"')[0]
                revision = f"Dutiful-Revision: {known}\r\n"
            elif turn:
                times.append(took)
                assert status == expected, (path, status)
            time.sleep(0.05)
    return quantiles(times, n=20)[18] * 1000


def _request(path: str, header: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}\r\n".encode()


def _read_answer(file: BinaryIO) -> tuple[str, str]:
    status, length = file.readline().split()[1].decode(), 0
    while (line := file.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        length = int(value) if name == b"content-length" else length
    return status, file.read(length).decode()


def _drifts(server: Server) -> tuple[float, float]:
    """Return the p99 of the drift in ms without and with viewers.

    The two take turns, and the median turn counts: all runs of a second arrive together, so one slow second
    of the machine decides the p99 of a turn, and would decide that of a whole minute.
    """
    alone, watched = list[float](), list[float]()
    for _ in range(_TURNS):
        alone.append(p99_ms(drifts(server, _TURN_S)))
        command = [sys.executable, "-m", "benchmarks.dashboard", str(server.port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as viewers:
            watched.append(p99_ms(drifts(server, _TURN_S)))
            assert viewers.stdin is not None
            viewers.stdin.close()
    return median(alone), median(watched)


async def _view_until_told(port: int) -> None:
    """Ask for pages as open tabs do, until the input ends."""
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    paths = [path for path, _ in BUDGET.values()]

    async def view(number: int) -> None:
        every = number % 5 + 1
        while not ended.done():
            # In the middle of a second, as the script does.
            await asyncio.wait([ended], timeout=every + 0.5 - time.time() % 1)
            every = 5
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_request(paths[number % len(paths)]))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
            writer.close()

    await asyncio.gather(*map(view, range(VIEWERS)))


if __name__ == "__main__":
    port, *asked = sys.argv[1:]
    if asked:
        print(_time_answers(int(port), *asked))
    else:
        asyncio.run(_view_until_told(int(port)))
