"""The page "From Celery beat", followed step by step in a new environment, with the time of each step."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.test_wheel import install, until, wheel

__all__ = ["install", "wheel"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/guides/from-celery-beat.md").read_text(encoding="utf-8")
# The commands of the numbered steps, as they are written on the page.
STEPS = re.findall(r"^\d\. .*(?:\n   .*)*", PAGE, re.MULTILINE)
WRITTEN = [code for step in STEPS for code in re.findall("`([^`]+)`", step)]


def written(part: str) -> str:
    """Return the one command of the page that has this part."""
    (command,) = {code for code in WRITTEN if part in code}
    return command


class Newcomer:
    """Types the commands of the page in one folder, and notes how long each step took."""

    def __init__(self, install, extras: str, **environ: str) -> None:
        self.times, self._began = list[str](), time.monotonic()
        environment = install(extras)
        self.folder = environment.folder
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("DUTIFUL", "PYTHON"))}
        self.environ = kept | environ | {"PYTHONUNBUFFERED": "1"}
        self.environ["PATH"] = f"{environment.bin}{os.pathsep}{self.environ['PATH']}"
        self.note("install")

    def note(self, step: str) -> None:
        now = time.monotonic()
        self.times.append(f"{step} {now - self._began:.1f} s")
        self._began = now

    def type(self, command: str) -> str:
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    @contextmanager
    def running(self, command: str):
        how = {"cwd": self.folder, "env": self.environ, "start_new_session": True, "text": True}
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(["sh", "-c", command], **how) as process:
            try:
                yield process
            finally:
                os.killpg(process.pid, 15)
                process.stdout.read()


def succeeded(newcomer: Newcomer) -> bool:
    rows = json.loads(newcomer.type("dutiful schedules runs tidy-carts --json --limit 5"))["runs"]
    return any(row["status"] == "SUCCESS" for row in rows)


def test_beat_is_replaced_by_the_steps_of_the_page(install, valkey_url, capfd):
    broker, started = f"{valkey_url.rpartition('/')[0]}/9", time.monotonic()
    (extras,) = re.findall(r"dutiful\[(.*?)\]", written("dutiful["))
    newcomer = Newcomer(install, extras, BROKER_URL=broker, DUTIFUL_PORT="0")
    for name in ("celery_app.py", "from_celery_beat.py"):
        shutil.copy(ROOT / "examples/queues" / name, newcomer.folder)
    with ExitStack() as stack:
        serve = written("dutiful serve").replace("redis://127.0.0.1:6379/0", broker)
        executor = serve.removesuffix("dutiful serve")
        assert "answers, and takes runs" in newcomer.type(executor + written("dutiful doctor"))
        service = stack.enter_context(newcomer.running(serve))
        newcomer.environ["DUTIFUL_URL"] = until(service, "dutiful answers at ").split()[3].rstrip(";")
        newcomer.note("doctor and service")
        worker = stack.enter_context(newcomer.running("celery -A celery_app worker --pool solo"))
        with newcomer.running("celery -A celery_app beat"):
            until(worker, "carts are tidy")
        newcomer.note("worker, with beat")
        moved = newcomer.type(written("from_celery_beat.py"))
        while not succeeded(newcomer):
            until(worker, "carts are tidy")
        listed = newcomer.type(written("schedules list"))
        newcomer.note("move and first runs")
    with capfd.disabled():
        whole = f"from beat to dutiful in {time.monotonic() - started:.1f} s"
        print(f"\n{whole}: {', '.join(newcomer.times)}", file=sys.stderr)
    assert moved.startswith("tidy-carts: */1 * * * * * UTC, next ")
    assert {"tidy-carts", "weekly-report"} <= {*listed.split()}
    assert time.monotonic() - started < 600
