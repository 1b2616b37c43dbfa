"""What `make run` runs: the service on this machine, with schedules that fire within seconds.

It starts `dutiful serve` with the executor of `service_tasks.py`, stores a workflow for each of its tasks
and a schedule for each workflow, over HTTP as any program would, and stops with Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PORT = os.environ.get("DUTIFUL_PORT", "8787")
URL = f"http://127.0.0.1:{PORT}"
STATE = FOLDER.parent / "build" / "example.db"

# Name, cron text in the seconds dialect, and the DAG, which only the executor understands.
EXAMPLES = [
    ("heartbeat", "*/5 * * * * *", {"task": "beat"}),
    ("report", "*/15 * * * * *", {"task": "report", "takes": 2}),
    ("import", "30 * * * * *", {"task": "fail", "because": "the supplier's server is down"}),
]

NEXT = f"""
Open {URL}/ to see what fires, what is next and what failed. In another terminal:
  .venv/bin/dutiful schedules list
  .venv/bin/dutiful schedules runs heartbeat --limit 5
  .venv/bin/dutiful schedules trigger report
  curl -s {URL}/schedules/heartbeat
Ctrl-C stops it. docs/guides/service.md goes on from here.
"""


def main() -> int:
    """Run the service until it ends, and return its exit code."""
    STATE.parent.mkdir(exist_ok=True)
    environ = {
        "DUTIFUL_STORE": f"sqlite:{STATE}",
        "DUTIFUL_EXECUTOR": "python:service_tasks:run",
        **os.environ,
        "DUTIFUL_PORT": PORT,
        "PYTHONPATH": os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "dutiful", "serve"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as service:  # noqa: S603
        # Ctrl-C reaches the service too; this process only waits for it to end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: service.terminate())
        for line in service.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            if line.startswith("dutiful answers at"):
                register()
        return service.wait()


def register() -> None:
    """Store the examples, and say what to look at."""
    for name, cron, dag in EXAMPLES:
        send("PUT", f"/workflows/{name}/1", dag)
        schedule = {"schedule_id": name, "workflow_id": name, "version": 1, "user_id": "you"}
        send("POST", "/schedules/upsert", {**schedule, "cron_expr": cron, "dialect": "seconds"})
    sys.stdout.write(NEXT + "\n")
    sys.stdout.flush()


def send(method: str, path: str, body: object) -> None:
    """Send one request to the service, past any proxy."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers, method=method)  # noqa: S310
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request):
        pass


if __name__ == "__main__":
    sys.exit(main())
