"""How many runs a worker launches at a time: never more than there are open files for."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import pytest

from dutiful.launchers.executor import LAUNCHES_MAX, launches_that_fit
from dutiful.service.declaration import ScheduleInput
from dutiful.service.settings import settings_from
from dutiful.service.wiring import Service
from dutiful.testing import VirtualClock


@pytest.fixture
def few_files():
    """Let this process open 100 files beyond those that it has open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Needs:
    """An executor that needs so many open files for a run."""

    def __init__(self, descriptors):
        self.descriptors = descriptors


@pytest.mark.parametrize(
    ("each", "files", "most"),
    [(6, 128, 10), (1, 128, 64), (6, 1024, 85), (1, 1024, LAUNCHES_MAX), (0, 1024, LAUNCHES_MAX), (6, 8, 1)],
)
def test_launches_take_at_most_half_of_the_files(each, files, most):
    assert launches_that_fit(Needs(each), files) == most


def test_an_executor_that_says_nothing_needs_one_file():
    assert launches_that_fit(object(), 128) == 64


# A web service with open files of its own: it accepts every run.
ACCEPTING = """
import asyncio

async def accept(reader, writer):
    while head := await reader.readuntil(b"\\r\\n\\r\\n"):
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\\r")[0]))
        writer.write(b"HTTP/1.1 202 Accepted\\r\\nContent-Length: 0\\r\\n\\r\\n")

async def main():
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def accepting_process():
    """Yield the URL of a web service that runs in a process of its own."""
    command = [sys.executable, "-c", ACCEPTING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def gauge(service: Service, name: str) -> float:
    """Return the value of a gauge of launches."""
    return float(re.search(rf"^dutiful_launches_{name} (\S+)$", service.metrics(), re.MULTILINE)[1])


async def launched(executor: str, count: int) -> tuple[Counter, int]:
    """Let so many schedules fall due at one instant; count their runs by status when all are launched."""
    clock = VirtualClock("2026-03-02T09:29:59+00:00")
    environ = {"DUTIFUL_STORE": "memory:", "DUTIFUL_EXECUTOR": executor}
    service = await Service(settings_from(environ), clock).start()
    try:
        await service.workflows.save_dag("report", 1, {})
        ids = [f"s{n}" for n in range(count)]
        declared = [ScheduleInput("report", 1, "ada", "30 9 * * *", schedule_id=id_) for id_ in ids]
        await service.registrar.upsert_many(declared)
        await clock.advance(1)
        while True:
            runs = await service.registrar.recent(1000)
            if len(runs) == count and gauge(service, "in_flight") == 0:
                return Counter(run.status for run in runs), gauge(service, "max")
            await asyncio.sleep(0.01)
    finally:
        await service.stop()


@pytest.mark.usefixtures("few_files")
def test_more_commands_than_there_are_open_files_for_all_run():
    statuses, most = asyncio.run(launched("command:true", 60))
    assert (statuses, most < 25) == ({"SUCCESS": 60}, True)


@pytest.mark.usefixtures("few_files")
def test_more_requests_than_there_are_open_files_for_are_all_sent():
    with accepting_process() as url:
        statuses, most = asyncio.run(launched(url, 300))
    assert (statuses, most < 150) == ({"ENQUEUED": 300}, True)


def test_the_bound_can_be_set_and_is_reported():
    service = Service(settings_from({"DUTIFUL_STORE": "memory:", "DUTIFUL_LAUNCHES_MAX": "7"}))
    assert gauge(service, "max") == 7


def test_a_service_without_worker_launches_nothing():
    assert gauge(Service(settings_from({"DUTIFUL_STORE": "memory:"}), worker=False), "max") == 0
