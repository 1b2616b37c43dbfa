"""An executor outside of the cluster: takes the calls of all nodes, and writes down when each arrived."""

from __future__ import annotations

import contextlib
import http.server
import json
import queue
import threading
import time
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.cluster.judge import Call

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_S = 7
"""How long a run of a schedule `long-…` takes: longer than two leases."""

_REPORTERS = 8
# What a worker of commands runs. Short lines are appended whole.
_SCRIPT = f"""\
read -r dag
run="$DUTIFUL_SCHEDULE_ID $DUTIFUL_SCHEDULED_FOR $DUTIFUL_IDEMPOTENCY_KEY $DUTIFUL_ATTEMPT"
echo "$(date +%s.%N) $run $1 $DUTIFUL_SOURCE" >> "$2"
case $DUTIFUL_SCHEDULE_ID in long-*) sleep {LONG_S};; esac
"""


class Outside:
    """Calls by HTTP and by command, in one log; runs of report-mode nodes are reported afterwards."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._folder = TemporaryDirectory()
        self._script, self._file = (Path(self._folder.name, name) for name in ("run.sh", "calls"))
        self._script.write_text(_SCRIPT)
        self._file.touch()
        self._server = _Server(("127.0.0.1", 0), _handler_for(self))
        self._reports: queue.SimpleQueue[tuple[str, int] | None] = queue.SimpleQueue()
        # When the report of a run was answered, by its key.
        self.reported: dict[str, float] = {}
        self._threads = [threading.Thread(target=self._server.serve_forever, daemon=True)]
        self._threads[0].start()

    def url(self, node: str, mode: str) -> str:
        """Return the executor of a node whose runs end with the answer, with a report, or with a command."""
        if mode == "command":
            return f"command:/bin/sh {self._script} {node} {self._file}"
        return f"http://127.0.0.1:{self._server.server_port}/{mode}/{node}"

    def report_by(self, report: Callable[[str, int], None]) -> None:
        """Report the runs that only a report ends, by a function of their key and attempt."""

        def run() -> None:
            while (each := self._reports.get()) is not None:
                report(*each)
                self.reported[each[0]] = time.time()

        reporters = [threading.Thread(target=run, daemon=True) for _ in range(_REPORTERS)]
        self._threads += reporters
        for thread in reporters:
            thread.start()

    @property
    def log(self) -> list[Call]:
        """All calls up to now."""
        return [*self._calls, *map(_parsed, self._file.read_text().splitlines())]

    def take(self, call: Call, *, is_reported: bool) -> None:
        """Write down a call, and report its run if only a report ends it."""
        self._calls.append(call)
        if is_reported:
            self._reports.put((call.key, call.attempt))

    def end_reports(self) -> None:
        """Wait for the reports that are being sent, and send no more: soon no node answers them."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._reports.get_nowait()
        for _ in range(_REPORTERS):
            self._reports.put(None)
        for reporter in self._threads[1:]:
            reporter.join(60)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(60)
        self._folder.cleanup()


class _Server(http.server.ThreadingHTTPServer):
    # After an outage a hundred calls come at once, and none of them may wait for a second try to connect.
    request_queue_size = 256
    block_on_close = False


def _handler_for(outside: Outside) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            at = time.time()
            meta = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["meta"]
            _, mode, node = self.path.split("/")
            key, attempt = self.headers["Idempotency-Key"], int(self.headers["Dutiful-Attempt"])
            tick = _second(meta["scheduled_for"])
            call = Call(at, meta["schedule_id"], tick, key, attempt, node, meta["source"])
            outside.take(call, is_reported=mode == "report")
            if mode != "report" and call.schedule.startswith("long"):
                time.sleep(LONG_S)
            # The node may have been killed while it waited.
            with contextlib.suppress(OSError):
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _parsed(line: str) -> Call:
    at, schedule, scheduled_for, key, attempt, node, source = line.split()
    return Call(float(at), schedule, _second(scheduled_for), key, int(attempt), node, source)


def _second(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
