"""A service that really listens on the loopback, on a clock that a test moves."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2

from dutiful.httpd.server import HttpServer, listen
from dutiful.service.settings import Settings, settings_from
from dutiful.service.wiring import Service
from dutiful.testing import VirtualClock
from dutiful.web.app import create_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fastapi import FastAPI

MONDAY = "2026-03-02T09:00:00+00:00"


@dataclass
class Running:
    url: str
    client: httpx2.Client
    clock: VirtualClock
    service: Service
    loop: asyncio.AbstractEventLoop
    app: FastAPI

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        asyncio.run_coroutine_threadsafe(self.clock.advance(seconds), self.loop).result(120)

    def get(self, path: str, **query: Any) -> Any:
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def put(self, path: str, body: Any, **query: Any) -> Any:
        answer = self.client.put(path, json=body, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def upsert(self, **changes: Any) -> Any:
        return self.post("/schedules/upsert", {**SCHEDULE, **changes})


SCHEDULE = {
    "schedule_id": "nightly",
    "workflow_id": "report",
    "version": 1,
    "user_id": "ada",
    "cron_expr": "30 9 * * *",
    "timezone": "UTC",
}


async def run_dag(dag: dict[str, Any], _meta: Any) -> None:
    """The executor of the tests: fails with the text under `fail`, and waits for ever under `hang`."""
    if "fail" in dag:
        raise RuntimeError(dag["fail"])
    if dag.get("hang"):
        await asyncio.Event().wait()


@contextmanager
def running(
    folder: Path | None,
    *,
    start: str = MONDAY,
    executor: Callable[[VirtualClock], Any] | None = None,
    tick_ms: int | None = None,
    **environ: str,
) -> Iterator[Running]:
    """Run a service on a store in `folder`, or in memory, until the block ends.

    `tick_ms` may be longer than the settings allow, so that a month of virtual time passes in seconds.
    """
    environ = {
        "DUTIFUL_STORE": "memory:" if folder is None else f"sqlite:{folder}/service.db",
        # A run under `hang` would hold up the end of every test for as long as this.
        "DUTIFUL_DRAIN_S": "0",
        "DUTIFUL_PORT": "0",
        # Each tick wakes the worker; a look at the store every virtual second would only take time.
        "TICK_MS": "60000",
        **({"DUTIFUL_EXECUTOR": "python:tests.web.running:run_dag"} if executor is None else {}),
        **environ,
    }
    settings = settings_from(environ)
    if tick_ms is not None:
        settings = dataclasses.replace(settings, tick_ms=tick_ms)
    with (
        _Thread(settings, start, executor) as thread,
        httpx2.Client(base_url=thread.url, trust_env=False, verify=False, timeout=60) as client,
    ):
        yield Running(thread.url, client, thread.clock, thread.service, thread.loop, thread.app)


class _Thread:
    """The loop of the service in a thread of its own."""

    def __init__(
        self, settings: Settings, start: str, executor: Callable[[VirtualClock], Any] | None
    ) -> None:
        self._settings, self._start, self._executor = settings, start, executor
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._error: BaseException | None = None
        self.url = ""

    def __enter__(self) -> _Thread:
        self._thread.start()
        self._listening.wait(60)
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        try:
            await self._serve()
        except BaseException as error:
            self._error = error
            self._listening.set()
            raise

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = VirtualClock(self._start)
        executor = None if self._executor is None else self._executor(self.clock)
        self.service = Service(self._settings, self.clock, executor=executor)
        with listen("127.0.0.1", 0) as listener:
            await self.service.start()
            try:
                self.app = create_app(self.service)
                self.server = HttpServer(self.app, listener, None, self._listen)
                await self.server.answer()
            finally:
                await self.service.stop()

    def _listen(self, url: str) -> None:
        self.url = url
        self._listening.set()
