"""The commands of the page about many nodes bring up a cluster that survives the kill of a worker."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from tests.cluster.judge import OPEN, ticks_of
from tests.cluster.nodes import until
from tests.ports import port_without_listener
from tests.shell import Shell
from tests.web.running import running

from dutiful.cli.main import cli
from dutiful.service.environment import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/guides/cluster.md").read_text(encoding="utf-8")
STARTED, DONE, _SHOWN, ASKED = re.findall(r"^```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[:4]
STORE = "postgresql://postgres@127.0.0.1:5432/postgres"
newest = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


class Terminals:
    """Shells that run the lines of the page, with the addresses of this test in place of the page's."""

    def __init__(self, stack, folder, url, port):
        self._stack, self._url, self._address = stack, url, f"http://127.0.0.1:{port}"
        self._shell, self._printed = Shell(folder, self._address), folder / "printed"
        self._environ = {**os.environ, "DUTIFUL_PORT": str(port)}

    def start(self, line):
        """Start a node in the background."""
        assert STORE in line
        words = shlex.split(line.replace(STORE, self._url))
        command = words.index("dutiful")
        environ = self._environ | dict(word.split("=", 1) for word in words[:command])
        argv = [sys.executable, "-m", *words[command:]]
        with self._printed.open("ab") as printed:
            process = subprocess.Popen(argv, env=environ, stdout=printed, stderr=printed)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def run(self, line):
        """Return what a command prints."""
        status, printed = self._shell.run(line)
        assert status == 0, (line, printed, self._printed.read_text(encoding="utf-8"))
        return printed

    def ask(self, path):
        with urllib.request.urlopen(f"{self._address}{path}", timeout=30) as answer:
            return json.loads(answer.read())

    def until_loads(self, wanted):
        """Return when each node leads so many shards."""

        found = {}

        def is_so():
            nodes = self.ask("/cluster")["nodes"]
            found.clear()
            found.update({node["name"]: len(node["shards"]) for node in nodes})
            return found == wanted

        try:
            until(is_so, f"the loads are {wanted}")
        except AssertionError as error:
            raise AssertionError(found, self._printed.read_text(encoding="utf-8")) from error


@newest
@pytest.mark.timeout(300)
def test_the_recipe_brings_up_a_cluster_that_loses_nothing_when_a_worker_is_killed(postgres_url, tmp_path):
    with ExitStack() as stack:
        port = stack.enter_context(port_without_listener())
        terminals = Terminals(stack, tmp_path, postgres_url, port)
        first, _second, _api = [terminals.start(line) for line in STARTED.splitlines()]
        terminals.until_loads({"worker-1": 8, "worker-2": 8})
        *done, status = [terminals.run(line) for line in DONE.splitlines()]
        began = int(time.time()) + 1
        assert len(done) == 2
        assert sorted(re.findall(r"^(worker-\d) +(\d+) +(\w+) ", status, re.MULTILINE)) == [
            ("worker-1", "8", "working"),
            ("worker-2", "8", "working"),
        ]
        assert "16 of 16 shards are led; late by " in status
        check_drain(terminals)
        first.send_signal(signal.SIGKILL)
        terminals.until_loads({"worker-2": 16})
        shards, _ = [terminals.run(line) for line in ASKED.splitlines()]
        assert len(re.findall(r"^ *\d+ +worker-2 +\d+ ", shards, re.MULTILINE)) == 16
        check_ledger(terminals, began)


def check_drain(terminals):
    """A drained worker gives its shards away, and takes its share again after `rebalance`."""
    drained = json.loads(terminals.run("dutiful cluster drain worker-2 --json"))
    assert {node["name"]: node["draining"] for node in drained["nodes"]} == {
        "worker-1": False,
        "worker-2": True,
    }
    terminals.until_loads({"worker-1": 16, "worker-2": 0})
    assert re.search(r"^worker-2 +0 +draining ", terminals.run("dutiful cluster status"), re.MULTILINE)
    shards = json.loads(terminals.run("dutiful cluster shards --json"))
    assert [(each["shard"], each["node"]) for each in shards] == [(n, "worker-1") for n in range(16)]
    told = terminals.ask("/cluster")["shards"]
    assert [(each["node"], each["epoch"]) for each in shards] == [
        (each["node"], each["epoch"]) for each in told
    ]
    terminals.run("dutiful cluster rebalance")
    terminals.until_loads({"worker-1": 8, "worker-2": 8})


def check_ledger(terminals, first):
    """Every second since `first` has one row, and each is a success."""
    last = int(time.time())
    found = []

    def is_decided():
        rows = terminals.ask("/schedules/hello/runs?limit=1000")["runs"]
        found[:] = [row for row in rows if first <= ticks_of(row)[0] <= last]
        decided = {tick for row in found if row["status"] not in OPEN for tick in ticks_of(row)}
        return decided == {*range(first, last + 1)}

    until(is_decided, f"every second from {first} to {last} is decided")
    assert [row for row in found if row["status"] != "SUCCESS"] == []
    assert len(found) == last - first + 1


# The compose file


COMPOSE = yaml.safe_load((ROOT / "examples/cluster/compose.yaml").read_text(encoding="utf-8"))
OTHERS = {"database", "executor", "keys"}
OURS = {name: each for name, each in COMPOSE["services"].items() if name not in OTHERS}
DOCKERFILE = (ROOT / "examples/cluster/Dockerfile").read_text(encoding="utf-8")


def test_the_compose_file_has_two_workers_and_two_api_nodes():
    commands = {name: each["command"] for name, each in OURS.items()}
    assert commands == {
        "worker-1": "dutiful worker",
        "worker-2": "dutiful worker",
        "api-1": "dutiful serve --no-worker",
        "api-2": "dutiful serve --no-worker",
    }


@pytest.mark.parametrize("name", sorted(OURS))
def test_the_commands_and_settings_of_the_compose_file_exist(name):
    program, command, *options = OURS[name]["command"].split()
    assert program == "dutiful"
    # Parses the arguments without running the command.
    # Below the group, as on a command line: a command keeps the help option of its first context.
    with cli.make_context("dutiful", [command]) as group:
        cli.get_command(group, command).make_context(command, options, parent=group)
    assert {*OURS[name]["environment"]} <= {variable.name for variable in VARIABLES}
    assert int(OURS[name]["stop_grace_period"].removesuffix("s")) > 30, "the default of DUTIFUL_DRAIN_S"


def test_every_host_that_the_compose_file_names_is_one_of_its_services():
    hosts = set()
    for each in OURS.values():
        settings = each["environment"]
        # The password stands for a variable, so the address is no URL yet.
        hosts |= {*re.findall(r"@(\w+)/", settings["DUTIFUL_STORE"]), *each["depends_on"]}
        hosts |= {urlsplit(settings["DUTIFUL_EXECUTOR"]).hostname, settings["DUTIFUL_EXECUTOR_ALLOW"]}
    assert hosts == OTHERS


def test_the_keys_of_the_compose_file_are_made_once_and_give_a_token_at_each_start(tmp_path):
    program, option, line = COMPOSE["services"]["keys"]["command"]
    line = line.replace("$$", "$").replace("/auth/", f"{tmp_path}/")
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def token():
        done = subprocess.run(
            [program, option, line], env=environ, capture_output=True, text=True, check=True
        )
        return done.stdout.strip().count(".")

    first, keys = token(), (tmp_path / "keys.json").read_text()
    assert (first, token(), (tmp_path / "keys.json").read_text()) == (2, 2, keys)


def test_the_demo_executor_takes_a_run_and_ends_it(tmp_path):
    script = [sys.executable, str(ROOT / "examples/cluster/executor.py"), "0"]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as executor:
        try:
            port = executor.stdout.readline().split()[-1]
            target = f"http://127.0.0.1:{port}/runs"
            settings = {"DUTIFUL_EXECUTOR": target, "DUTIFUL_EXECUTOR_MODE": "webhook"}
            with running(tmp_path, executor=None, **settings) as service:
                service.put("/workflows/report/1", {"nodes": []})
                service.upsert(cron_expr="* * * * *")
                service.advance(61)
                key = json.loads(executor.stdout.readline())["meta"]["idempotency_key"]
                until(lambda: service.get(f"/runs/{key}")["status"] == "SUCCESS", "the answer ended the run")
        finally:
            executor.kill()


def test_the_dockerfile_of_the_page_is_the_one_of_the_compose_file():
    page = (ROOT / "docs/guides/deployment.md").read_text(encoding="utf-8")
    assert f"```text\n{DOCKERFILE}```" in page
    [extras] = re.findall(r"\.whl\)\[(.*?)\]", DOCKERFILE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"service", "postgres"} == {*extras.split(",")} <= {*project["optional-dependencies"]}
    build = COMPOSE["services"]["api-1"]["build"]
    assert (ROOT / "examples/cluster" / build["context"] / build["dockerfile"]).resolve().is_file()
