"""Commands as executors, run for real."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import sys

import pytest
from tests.launchers.metas import DAG, META, META_JSON, SETTINGS

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Failed, Succeeded, Unreached
from dutiful.launchers.command import CommandExecutor


def ran(script: str, dag=DAG, **settings):
    executor = CommandExecutor.parse(f"sh -c {shlex.quote(script)}", SETTINGS._replace(**settings))
    return asyncio.run(executor.run(dag, META))


def test_the_dag_is_on_stdin_and_the_meta_in_the_environment(tmp_path):
    told = tmp_path / "told.json"
    program = (
        f"import json, os, sys; json.dump([json.load(sys.stdin), {{**os.environ}}], open({str(told)!r}, 'w'))"
    )
    executor = CommandExecutor.parse(shlex.join([sys.executable, "-c", program]), SETTINGS)
    assert asyncio.run(executor.run(DAG, META)) == Succeeded(None)
    dag, environment = json.loads(told.read_text())
    assert dag == DAG
    assert {name: environment.get(f"DUTIFUL_{name.upper()}") for name in META_JSON} == {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in META_JSON.items()
    }


def test_secrets_of_the_service_stay_with_the_service(monkeypatch):
    monkeypatch.setenv("DUTIFUL_EXECUTOR_SECRET", "canary-0123456789")
    assert ran("env | sort | grep -v ^DUTIFUL_ | cut -d= -f1 | xargs echo") == Succeeded("HOME LANG PATH PWD")
    assert ran("env | grep -c canary; true") == Succeeded("0")


def test_the_last_line_is_the_detail():
    assert ran("echo one; echo; echo 'two  '") == Succeeded("two")


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("exit 3", Failed("exit code 3")),
        ("echo no space left >&2; exit 1", Failed("exit code 1: no space left")),
        ("kill -9 $$", Failed("killed by signal 9")),
        ("exit 127", Failed("exit code 127")),
    ],
)
def test_a_command_that_fails_has_run(script, outcome):
    assert ran(script) == outcome


def test_a_command_that_takes_too_long_has_failed():
    assert ran("sleep 60", timeout=0.2) == Failed("timed out after 0.2 s")


def test_a_program_that_is_gone_was_not_run(tmp_path):
    program = tmp_path / "run"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    executor = CommandExecutor.parse(str(program), SETTINGS)
    assert asyncio.run(executor.run(DAG, META)) == Succeeded("here")
    os.unlink(program)
    assert asyncio.run(executor.run(DAG, META)) == Unreached(f"there is no program {str(program)!r}")


def test_a_process_that_cannot_be_started_was_not_run():
    # No more descriptors: the lifeline to the command cannot be made.
    executor = CommandExecutor.parse("true", SETTINGS)

    async def starved():
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
        try:
            return await executor.run(DAG, META)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert asyncio.run(starved()) == Unreached("'true' could not be started: Too many open files")


def test_a_large_dag_goes_through():
    assert ran("wc -c | tr -d ' '", {"text": "x" * 900_000}) == Succeeded("900012")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "write command:PROGRAM ARGS"),
        ("   ", "write command:PROGRAM ARGS"),
        ("echo 'open", r"the quotes do not match \(No closing quotation\)"),
        ("no-such-program --flag", "there is no such program; write its whole path"),
        ("./no/such/program", "there is no such program"),
    ],
)
def test_a_text_that_is_no_command_is_refused_at_once(text, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        CommandExecutor.parse(text, SETTINGS)


def test_a_program_that_may_not_be_executed_is_reported_with_the_command_that_mends_it(tmp_path):
    program = tmp_path / "run-dag"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(InvalidArgumentError, match=rf"may not be executed; run: chmod \+x {program}$"):
        CommandExecutor.parse(str(program), SETTINGS)
