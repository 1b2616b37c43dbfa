"""`dutiful config`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dutiful.cli.main import cli


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in ("TICK_MS", "DUTIFUL_EXECUTOR", "DUTIFUL_EXECUTOR_SECRET", "DUTIFUL_HOST"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str, **environ: str):
    return CliRunner().invoke(cli, ["config", *arguments], env=environ)


def test_the_settings_in_force_are_shown_with_their_source():
    result = run(TICK_MS="500", DUTIFUL_EXECUTOR_SECRET="canary-0123456789")
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[:3] == [
        ["variable", "value", "from"],
        ["TICK_MS", "500", "environment"],
        ["LOOKAHEAD_MS", "60000", "default"],
    ]
    assert ["DUTIFUL_EXECUTOR_SECRET", "***", "environment"] in lines
    assert ["DUTIFUL_EXECUTOR", "-", "default"] in lines
    assert "canary" not in result.output


def test_programs_read_json():
    result = run("--json", TICK_MS="500")
    told = json.loads(result.output)
    assert told["TICK_MS"] == {"value": "500", "source": "environment"}
    assert told["DUTIFUL_EXECUTOR"] == {"value": None, "source": "default"}


def test_settings_with_which_the_service_cannot_start_are_bad_usage():
    result = run(TICK_MS="fast", DUTIFUL_HOST="0.0.0.0")
    assert result.exit_code == 2
    assert "TICK_MS is 'fast': write a whole number from 10 to 60000" in result.stderr
    assert "DUTIFUL_HOST is '0.0.0.0'" in result.stderr


def test_files_that_are_not_there_are_all_named(tmp_path):
    absent, log = str(tmp_path / "absent.pem"), str(tmp_path / "none" / "audit.jsonl")
    present = tmp_path / "key.pem"
    present.touch()
    result = run(DUTIFUL_TLS_CERT=absent, DUTIFUL_TLS_KEY=str(present), DUTIFUL_AUDIT_LOG=log)
    assert result.exit_code == 2
    assert f"DUTIFUL_TLS_CERT is '{absent}': there is no such file" in result.stderr
    assert f"no file can be made in the folder '{tmp_path / 'none'}'" in result.stderr
    assert "DUTIFUL_TLS_KEY" not in result.stderr


def test_files_that_are_there_are_no_problem(tmp_path):
    present = tmp_path / "pair.pem"
    present.touch()
    log = str(tmp_path / "audit.jsonl")
    result = run(DUTIFUL_TLS_CERT=str(present), DUTIFUL_TLS_KEY=str(present), DUTIFUL_AUDIT_LOG=log)
    assert (result.exit_code, log in result.output) == (0, True)
