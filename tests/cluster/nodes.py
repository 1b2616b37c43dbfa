"""Processes of dutiful that a test starts, kills, freezes and asks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from tests.cluster.excuses import LEASE


class Node:
    """One process of dutiful, which can be killed, frozen and started again."""

    def __init__(self, name: str, database: int, executor: str, command: str, **variables: object) -> None:
        self.name, self._command = name, command.split()
        self.variables = {
            "DUTIFUL_STORE": f"postgresql://postgres@127.0.0.1:{database}/postgres",
            "DUTIFUL_NODE": name,
            "DUTIFUL_EXECUTOR": executor,
            "DUTIFUL_LEASE_S": LEASE,
            "DUTIFUL_LOG_LEVEL": "warning",
            "LOOKAHEAD_MS": 3000,
            **variables,
        }
        self.process: subprocess.Popen[bytes] | None = None
        # Two deeds, or a deed and a supervisor, may reach for the same process.
        self._changing = threading.RLock()

    def start(self) -> None:
        argv = [sys.executable, "-m", "tests.cluster.entry", *self._command]
        environ = {**os.environ, **{name: str(value) for name, value in self.variables.items()}}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(argv, env=environ, stdout=quiet, stderr=quiet)

    def start_again_if_ended(self) -> None:
        """Do what a supervisor does: a node that finds no database when it starts prints why and ends."""
        with self._changing:
            if self.process is None or self.process.poll() is not None:
                self.start()

    def send(self, how: int) -> None:
        assert self.process is not None
        self.process.send_signal(how)

    def end(self, how: int = signal.SIGTERM) -> None:
        """End the process, even if it is frozen, and wait for it."""
        with self._changing:
            process, self.process = self.process, None
            if process is not None:
                process.send_signal(how)
                process.send_signal(signal.SIGCONT)
                process.wait(60)

    def restart(self, how: int, after: float = 0.0) -> None:
        """End the process and start it again, after so many seconds."""
        with self._changing:
            self.end(how)
            time.sleep(after)
            self.start()


class Api(Node):
    """A node that answers requests and leads nothing."""

    def __init__(self, database: int, executor: str, port: int, **variables: object) -> None:
        super().__init__("api", database, executor, "serve --no-worker", DUTIFUL_PORT=port, **variables)
        self.port = port

    def ask(self, method: str, path: str, body: object = None, key: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("content-type", "application/json")
        if key is not None:
            request.add_header("Idempotency-Key", key)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            # A removal, or a report on a run of a removed schedule, that is asked for twice.
            if error.code == 404:
                return None
            # A node that lost its database answers 5xx, and is asked again; any other refusal is a mistake.
            if error.code < 500:
                raise AssertionError(error.read()) from error
            raise

    def ask_until_answered(self, method: str, path: str, body: object = None, key: str | None = None) -> Any:
        """Return the answer; repeat the request while the node or its database is away."""
        answers: list[Any] = []

        def is_answered() -> bool:
            self.start_again_if_ended()
            answers.append(self.ask(method, path, body, key))
            return True

        until(is_answered, f"{method} {path} is answered")
        return answers[0]


def until(holds: Any, what: str, within: float = 90, pause: float = 0.05) -> None:
    """Return when something holds; a request that fails counts as no."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if holds():
                return
        time.sleep(pause)
    raise AssertionError(f"not within {within} s: {what}")
