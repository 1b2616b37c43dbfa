"""`dutiful receiver run`: what it refuses before it takes the first run."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner
from tests.ports import port_without_listener

from dutiful.cli.main import cli


def refused(*words: str) -> str:
    """Return the error of a command that is refused as bad usage."""
    result = CliRunner().invoke(cli, ["receiver", "run", *words, "--", "cat"])
    assert result.exit_code == 2, result.output
    return result.output.strip()


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("natz://127.0.0.1", "Invalid --from 'natz': write nats://HOST:PORT or redis://HOST:PORT/DB"),
        ("celery+redis://127.0.0.1/0", "for Celery, see dutiful.receivers.celery_task"),
        ("nats://127.0.0.1:99999", "write nats://HOST:PORT?stream=DUTIFUL&subject=dutiful.runs"),
        ("redis://127.0.0.1/0?strem=x", "did you mean stream=?"),
        ("tls://127.0.0.1?ca=nowhere.pem", "ca, cert and key must name PEM files that can be read"),
    ],
)
def test_a_url_that_names_no_queue_is_refused_with_advice(url, advice, tmp_path):
    assert advice in refused("--from", url, "--seen", f"sqlite:{tmp_path}/seen.db")


def test_a_seen_store_that_cannot_be_used_is_reported_in_one_line_without_its_password():
    told = refused("--from", "nats://127.0.0.1", "--seen", "sqlite:missing/seen.db")
    problem = "it cannot be used: unable to open database file"
    assert told == f"Error: Invalid --seen 'sqlite:missing/seen.db': {problem}"
    with port_without_listener() as port:
        url = f"redis://ada:canary@127.0.0.1:{port}/0"
        told = refused("--from", "nats://127.0.0.1", "--seen", url)
    assert told.startswith(f"Error: Invalid --seen 'redis://127.0.0.1:{port}/0': it cannot be used: ")
    assert "canary" not in told
    assert "\n" not in told


@pytest.mark.parametrize(("package", "url"), [("nats", "nats://127.0.0.1"), ("redis", "redis://127.0.0.1/0")])
def test_a_missing_client_is_reported_with_the_extra_to_install(package, url, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    told = refused("--from", url, "--seen", f"sqlite:{tmp_path}/seen.db")
    assert told.endswith(f"the package '{package}' is missing; install dutiful[receivers]")
