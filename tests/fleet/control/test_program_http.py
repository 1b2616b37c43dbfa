"""`dutiful fleet start --listen`: a running fleet over HTTP, with its token, its secret and real jobs."""

from __future__ import annotations

import hmac
import socket

import httpx2
import pytest
from tests.fleet.control.program import command, put_fleet, started

TOKEN, SECRET = "t" * 32, "s" * 32
BEARER = {"Authorization": f"Bearer {TOKEN}"}
# The job prints its prompt.
FLEET = """
version: 1
agents:
  - name: a
    job: {type: command, command: [cat]}
    schedules: {hook: {type: webhook, prompt: Look at this.}}
"""
TRIGGER = "/agents/a/schedules/hook/trigger"


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    monkeypatch.setenv("DUTIFUL_FLEET_TOKEN", TOKEN)
    monkeypatch.setenv("DUTIFUL_FLEET_WEBHOOK_SECRET", SECRET)


def output_of_run(fleet, number):
    """Return what the job of this run printed, once as many runs are recorded as ended."""
    fleet.until("a/hook: done")
    # The end of a job is said before it is written down.
    while [run["status"] for run in fleet.ask("history")] != ["SUCCESS"] * number:
        pass
    found = fleet.ask("logs", "a/hook")
    assert found["run"] == number
    return found["output"].rpartition("\n[done after ")[0]


def test_a_webhook_schedule_is_triggered_over_http_by_the_token_or_a_signature(tmp_path):
    put_fleet(tmp_path, FLEET)
    with started(tmp_path, "--listen", "127.0.0.1:0") as fleet:
        url = fleet.until("listening at http://127.0.0.1:").split()[-1]
        with httpx2.Client(base_url=url, trust_env=False, timeout=60) as client:
            refused = client.post(TRIGGER, json={"prompt": "Never."})
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "token_missing")
            taken = client.post(TRIGGER, json={"prompt": "Now."}, headers=BEARER)
            assert (taken.status_code, taken.json()["agent"], taken.json()["schedule"]) == (202, "a", "hook")
            assert output_of_run(fleet, 1) == "Now."
            event = b'{"action": "opened"}'
            signature = "sha256=" + hmac.digest(SECRET.encode(), event, "sha256").hex()
            headers = {"X-Hub-Signature-256": signature, "X-GitHub-Event": "issues"}
            assert client.post(TRIGGER, content=event, headers=headers).status_code == 202
            prompt = 'Look at this.\n\n## Webhook: issues\n\n{\n  "action": "opened"\n}'
            assert output_of_run(fleet, 2) == prompt
            runs = client.get("/agents/a/schedules/hook/runs", headers=BEARER).json()["runs"]
            assert [(run["run"], run["trigger"], run["status"]) for run in runs] == [
                (2, "manual", "SUCCESS"),
                (1, "manual", "SUCCESS"),
            ]
        assert fleet.stop() == (0, f"refused POST {TRIGGER} from 127.0.0.1: token_missing\n")
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{url}/healthz", trust_env=False)


@pytest.mark.parametrize("option", ["--listen", "--page"])
def test_a_start_that_cannot_have_its_address_runs_nothing_and_names_the_option(tmp_path, option):
    put_fleet(tmp_path, FLEET.replace("webhook", "interval, interval: 1h"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = command(tmp_path, "start", option, f"127.0.0.1:{port}")
    problem = f"Cannot listen at 127.0.0.1 port {port}: Address already in use"
    assert found == (2, f"Error: {problem}; name another address with {option}\n")
    found = command(tmp_path, "start", option, "127.0.0.1:99999")
    advice = "write HOST:PORT, such as 127.0.0.1:8788"
    assert found == (2, f"Error: Invalid {option} '127.0.0.1:99999': {advice}\n")
    assert [file.name for file in tmp_path.iterdir()] == ["fleet.yaml"]


def test_a_start_that_listens_without_a_secret_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("DUTIFUL_FLEET_TOKEN")
    monkeypatch.delenv("DUTIFUL_FLEET_WEBHOOK_SECRET")
    put_fleet(tmp_path, FLEET)
    code, output = command(tmp_path, "start", "--listen", "127.0.0.1:0")
    assert (code, output.partition(" to a secret")[0]) == (
        2,
        "Error: Invalid --listen 'without a token': set DUTIFUL_FLEET_TOKEN",
    )
    assert [file.name for file in tmp_path.iterdir()] == ["fleet.yaml"]
