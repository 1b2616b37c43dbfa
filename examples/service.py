"""What `make run` runs: the service on this machine, with schedules that fire within seconds.

It is `dutiful serve` with the executor of `service_tasks.py`. Beside it a thread stores a workflow and a
schedule for each example, over HTTP as any program would. Ctrl-C stops it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path

import click

from dutiful.cli.main import cli

STATE = Path(__file__).resolve().parents[1] / "build" / "example.db"
# Variables that are set already win. The executor is found because it is beside this file.
SETTINGS = {
    "DUTIFUL_PORT": "8787",
    "DUTIFUL_STORE": f"sqlite:{STATE}",
    "DUTIFUL_EXECUTOR": "python:service_tasks:run",
}
# Name, cron text with seconds, and the DAG. The names begin with "demo-", so that those in the docs are free.
EXAMPLES = [
    ("demo-heartbeat", "*/5 * * * * *", {}),
    ("demo-report", "*/15 * * * * *", {"takes": 2}),
    ("demo-failing", "30 * * * * *", {"fails": "the supplier's server is down"}),
]
NEXT = """
Open {url}/ to see what fires, what is next and what failed. In another terminal:
{elsewhere}  .venv/bin/dutiful top
  .venv/bin/dutiful schedules list --soonest
  .venv/bin/dutiful schedules runs demo-heartbeat --limit 5
  .venv/bin/dutiful schedules trigger demo-report
  curl -s {url}/schedules/demo-heartbeat
demo-failing fails on purpose, once a minute. To see why a run failed:
  .venv/bin/dutiful schedules runs demo-failing
Ctrl-C stops it. docs/guides/service.md goes on from here.
"""


def main() -> None:
    """Run the service until it is stopped."""
    STATE.parent.mkdir(exist_ok=True)
    os.environ.update({**SETTINGS, **os.environ})
    port = int(os.environ["DUTIFUL_PORT"])
    if is_free(port):
        # If the port is taken, the service says so; the program that has it gets no request.
        threading.Thread(target=register, args=[f"http://127.0.0.1:{port}"], daemon=True).start()
    cli(["serve"], prog_name="dutiful")


def is_free(port: int) -> bool:
    """Return whether the port is free."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def register(url: str) -> None:
    """Wait until the service answers, store the examples, and say what to look at."""
    pause = threading.Event()
    while not answers(url):
        pause.wait(0.1)
    for name, cron, dag in EXAMPLES:
        send("PUT", f"{url}/workflows/{name}/1?replace=true", dag)
        schedule = {"schedule_id": name, "workflow_id": name, "version": 1, "user_id": "you"}
        send("POST", f"{url}/schedules/upsert", {**schedule, "cron_expr": cron})
    # The commands ask the usual port, unless they are told.
    elsewhere = "" if url.endswith(":8787") else f"  export DUTIFUL_URL={url}\n"
    click.echo(NEXT.format(url=url, elsewhere=elsewhere))


def answers(url: str) -> bool:
    """Return whether the service answers."""
    try:
        send("GET", f"{url}/healthz")
    except urllib.error.URLError:
        return False
    return True


def send(method: str, url: str, body: object = None) -> None:
    """Send one request, past any proxy."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)  # noqa: S310
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).close()


if __name__ == "__main__":
    main()
