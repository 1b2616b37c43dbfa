"""The wheel as users install it: each extra alone in an environment of its own, tried by hand.

uv installs from its cache, which the set-up of this checkout has filled with the locked versions; only what
the cache lacks is fetched.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.receivers.rig import publish, reporting

from dutiful.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {
    extra: {Requirement(text).name for text in texts}
    for extra, texts in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ].items()
}
LIBRARY = """
import asyncio

from dutiful import Scheduler
from dutiful.testing import VirtualClock

async def say():
    print("ran")

async def main():
    clock = VirtualClock("2026-01-05T08:59:00")
    scheduler = Scheduler("sqlite:state.db", clock=clock)
    await scheduler.initialize([("say", "0 9 * * *", say, 60)])
    await clock.advance(60)
    await scheduler.stop()

asyncio.run(main())
"""
# One use of each command that needs more than reading its help.
USES = {
    "config": ["config", "--json"],
    "cron": ["cron", "next", "0 9 * * *", "--from", "2026-01-01"],
    "fleet": ["fleet", "init"],
    "simulate": ["simulate", str(ROOT / "examples/schedules.toml"), "--from", "2026-01-01", "--for", "2d"],
    "token": ["token", "--keys", "keys.json", "--new-key"],
}


def uv(*arguments):
    uv = Path(sys.executable).with_name("uv")
    environ = os.environ | {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1", "UV_SYSTEM_CERTS": "1"}
    done = subprocess.run(
        [uv, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder]
    assert uv("build", "--quiet", *options) == (0, "")
    (built,) = folder.glob("*.whl")
    return built


class Environment:
    """A virtual environment with the wheel, and a folder in which its programs run."""

    def __init__(self, folder, wheel, extra):
        self.folder, self.bin = folder, folder / "environment" / "bin"
        assert uv("venv", "--quiet", "--python", sys.executable, self.bin.parent) == (0, "")
        what = f"{wheel}[{extra}]" if extra else str(wheel)
        options = ["--quiet", "--python", self.bin / "python", "--constraint", "requirements/dev.lock"]
        if uv("pip", "install", "--offline", *options, what)[0]:
            assert uv("pip", "install", *options, what) == (0, "")

    def run(self, program, *arguments, **environ):
        with self.started(program, *arguments, **environ) as process:
            output, errors = process.communicate()
            return process.returncode, output, errors

    @contextmanager
    def started(self, program, *arguments, **environ):
        """Start a program with nothing of dutiful's or Python's in its environment but what is given."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("DUTIFUL", "PYTHON"))}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [self.bin / program, *arguments]
        with subprocess.Popen(command, cwd=self.folder, env=kept | environ, **pipes) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def install(wheel, tmp_path):
    return partial(Environment, tmp_path, wheel)


def test_the_library_runs_without_any_extra_and_the_command_names_its_own(install):
    environment = install(None)
    assert environment.run("python", "-c", LIBRARY) == (0, "ran\n", "")
    needed = 'The dutiful command needs click: pip install "dutiful[cli]"\n'
    assert environment.run("dutiful", "--help") == (1, "", needed)


@pytest.mark.parametrize("extra", [extra for extra in EXTRAS if "click" in EXTRAS[extra]])
def test_each_command_works_with_its_extra_or_names_it(extra, install):
    environment = install(extra)
    assert environment.run("dutiful", "--help")[::2] == (0, "")
    for name, command in COMMANDS.items():
        code, _, errors = environment.run("dutiful", *USES.get(name, [name, "--help"]))
        if EXTRAS[command.extra] <= EXTRAS[extra]:
            assert (name, code, errors) == (name, 0, "")
        elif code:
            assert errors.startswith(f"Error: dutiful {name} needs ")
            assert errors.endswith(f'which is not installed: pip install "dutiful[{command.extra}]"\n')


def test_an_option_names_the_extra_that_only_it_needs(install):
    environment = install("fleet")
    assert environment.run("dutiful", "fleet", "init")[::2] == (0, "")
    needed = (
        'Error: dutiful fleet needs fastapi, which is not installed: pip install "dutiful[fleet,service]"\n'
    )
    for option in ("--listen", "--page"):
        assert environment.run("dutiful", "fleet", "start", option, "127.0.0.1:0") == (1, "", needed)


def until(process, text):
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"{text!r} never came: {process.stderr.read()}")


# What a service with that extra reaches, and where nothing listens.
REACHED = {
    "celery": {"DUTIFUL_EXECUTOR": "celery+redis://127.0.0.1:1/0?task=app.run"},
    "nats": {"DUTIFUL_EXECUTOR": "nats://127.0.0.1:1"},
    "redis": {"DUTIFUL_EXECUTOR": "redis://127.0.0.1:1/0"},
    "postgres": {"DUTIFUL_STORE": "postgresql://127.0.0.1:1/none"},
}


def examined(environment, extra):
    """Return what `dutiful doctor` finds wrong where the service uses what this extra brings."""
    code, output, errors = environment.run("dutiful", "doctor", "--json", **REACHED[extra])
    assert (code, errors) == (1, "")
    return " ".join(each["detail"] for each in json.loads(output) if each["state"] == "wrong")


@pytest.mark.parametrize("extra", REACHED)
def test_a_service_uses_what_an_extra_brings(extra, install):
    told = examined(install(f"service,{extra}"), extra)
    assert "127.0.0.1:1" in told
    assert "install" not in told


def test_a_service_names_the_extra_that_a_setting_needs(install):
    environment = install("service")
    for extra in REACHED:
        assert f"dutiful[{extra}]" in examined(environment, extra)


def test_a_receiver_takes_runs_with_its_extra_alone(install, valkey_url, own_name):
    environment, queue = install("receivers"), f"{valkey_url}?stream={own_name}"
    stores = (
        "from dutiful.receivers import NatsReceiver, PostgresSeen, StreamReceiver, ValkeySeen, celery_task"
    )
    assert environment.run("python", "-c", stores) == (0, "", "")
    asyncio.run(publish(queue, "a"))
    words = ["receiver", "run", "--from", queue, "--", "sh", "-c", 'echo "$DUTIFUL_IDEMPOTENCY_KEY" > done']
    with reporting() as reported:
        settings = {"DUTIFUL_URL": reported.url, "PYTHONUNBUFFERED": "1"}
        with environment.started("dutiful", *words, **settings) as receiver:
            while not reported.of("a"):
                assert receiver.poll() is None, receiver.stderr.read()
            receiver.terminate()
            assert (receiver.wait(), receiver.stderr.read()) == (0, "")
    assert reported.of("a") == [{"status": "SUCCESS", "attempt": 1}]
    assert (environment.folder / "done").read_text() == "a\n"


def test_a_fleet_runs_with_its_extra_alone(install):
    environment = install("fleet")
    assert environment.run("dutiful", "fleet", "init")[0] == 0
    with environment.started("dutiful", "fleet", "start", PYTHONUNBUFFERED="1") as fleet:
        until(fleet, "done after")
        code, shown, errors = environment.run("dutiful", "fleet", "status")
        assert (code, errors) == (0, "")
        assert "watcher" in shown
        fleet.terminate()
        assert (fleet.wait(), fleet.stderr.read()) == (0, "")


def test_the_service_answers_with_its_extra_alone(install):
    environment = install("service")
    with environment.started("dutiful", "serve", DUTIFUL_PORT="0", PYTHONUNBUFFERED="1") as service:
        url = until(service, "dutiful answers at ").split()[3].rstrip(";")
        assert environment.run("dutiful", "schedules", "list", DUTIFUL_URL=url)[::2] == (0, "")
        service.terminate()
        assert (service.wait(), service.stderr.read()) == (0, "")
