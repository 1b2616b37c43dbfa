"""`dutiful serve` and `dutiful worker` as processes: start, address, signals, refusals."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import contextmanager, suppress

import httpx2
import pytest
import trustme

PATIENT = {"trust_env": False, "timeout": 60}


@contextmanager
def started(folder, *arguments, **environ):
    """Run the command in `folder`, with nothing of dutiful's in the environment but what is given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUTIFUL_")}
    command = [sys.executable, "-m", "dutiful", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environ = {"DUTIFUL_PORT": "0", "PYTHONUNBUFFERED": "1", **environ}
    with subprocess.Popen(command, cwd=folder, env=kept | environ, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def line_with(process, text):
    for line in process.stdout:
        if text in line:
            return line.rstrip("\n")
    raise AssertionError(f"{text!r} never came: {process.stderr.read()}")


def address(process):
    line = line_with(process, "dutiful answers at ")
    return line.partition("dutiful answers at ")[2].split(";")[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_and_exits_0(tmp_path, number):
    with started(tmp_path, "serve") as process:
        url = address(process)
        assert httpx2.get(f"{url}/healthz", **PATIENT).json() == {"ok": True}
        process.send_signal(number)
        assert (process.stdout.read().splitlines()[-1], process.wait()) == ("stopped", 0)
        assert process.stderr.read() == ""
    assert (tmp_path / "dutiful.db").exists()


def test_a_server_says_which_store_it_has_and_how_much_is_in_it(tmp_path):
    with started(tmp_path, "serve", DUTIFUL_STORE="sqlite:mistyped.db") as process:
        said = "store sqlite:mistyped.db, schedules 0; if there were some, check DUTIFUL_STORE"
        assert line_with(process, "store ").endswith(said)
        process.send_signal(signal.SIGTERM)
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_works_until_a_signal_and_exits_0(tmp_path, number):
    with started(tmp_path, "worker") as process:
        assert line_with(process, "working on") == "working on sqlite:dutiful.db; stop with Ctrl-C"
        process.send_signal(number)
        assert (process.stdout.read().splitlines()[-1], process.wait()) == ("stopped", 0)


def test_a_worker_does_not_print_the_password_of_its_database(tmp_path, newest_postgres, newest_postgres_url):
    url = newest_postgres_url.replace("postgres@", "postgres:hidden@") + "&password=hidden"
    with started(tmp_path, "worker", DUTIFUL_STORE=url) as process:
        shown = f"postgresql://***@127.0.0.1:{newest_postgres}/postgres?***"
        assert line_with(process, "working on") == f"working on {shown}; stop with Ctrl-C"
        process.send_signal(signal.SIGTERM)
        assert "hidden" not in process.stdout.read() + process.stderr.read()


def test_the_worker_fires_what_a_server_without_one_was_given(tmp_path):
    (tmp_path / "run.py").write_text(
        "import pathlib, sys\npathlib.Path('ran').write_text(sys.stdin.read())\n"
    )
    executor = {"DUTIFUL_EXECUTOR": f"command:{sys.executable} {tmp_path}/run.py"}
    with (
        started(tmp_path, "serve", "--no-worker", **executor) as server,
        started(tmp_path, "worker", **executor),
    ):
        url = address(server)
        with httpx2.Client(base_url=url, trust_env=False, verify=False, timeout=60) as client:
            client.put("/workflows/w/1", json={"nodes": [1]}).raise_for_status()
            schedule = {"workflow_id": "w", "version": 1, "user_id": "u", "schedule_id": "s"}
            every_second = {"cron_expr": "* * * * * *", "dialect": "seconds"}
            client.post("/schedules/upsert", json=schedule | every_second).raise_for_status()
            while "SUCCESS" not in [run["status"] for run in client.get("/schedules/s/runs").json()["runs"]]:
                pass
    assert json.loads((tmp_path / "ran").read_text()) == {"nodes": [1]}


def ended(folder, *arguments, **environ):
    with started(folder, *arguments, **environ) as process:
        process.wait()
        return process.returncode, process.stderr.read()


def test_it_does_not_listen_to_others_without_auth(tmp_path):
    code, error = ended(tmp_path, "serve", DUTIFUL_HOST="0.0.0.0")
    assert code == 2
    assert "DUTIFUL_HOST is '0.0.0.0': others could reach it without auth" in error
    assert "Traceback" not in error


def test_a_port_that_is_taken_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, error = ended(tmp_path, "serve", DUTIFUL_PORT=str(port))
    assert code == 1
    assert error == (
        f"Error: Cannot listen at 127.0.0.1 port {port}: Address already in use; "
        "set DUTIFUL_HOST or DUTIFUL_PORT\n"
    )


def test_a_setting_that_cannot_be_used_is_reported_before_anything_starts(tmp_path):
    for command in ("serve", "worker"):
        code, error = ended(tmp_path, command, TICK_MS="soon", DUTIFUL_EXECUTR="x")
        assert code == 2
        assert "TICK_MS is 'soon': write a whole number" in error
        assert "did you mean DUTIFUL_EXECUTOR?" in error


def test_an_executor_that_cannot_be_used_is_reported_once(tmp_path):
    assert ended(tmp_path, "serve", DUTIFUL_EXECUTOR="command:./absent") == (
        1,
        "Error: Invalid executor './absent': there is no such program; write its whole path\n",
    )


def test_a_log_of_json_has_nothing_but_json(tmp_path):
    with started(tmp_path, "serve", "--log", "json") as process:
        while "dutiful answers at " not in (said := json.loads(process.stdout.readline())["message"]):
            pass
        url = said.split()[3].rstrip(";")
        body = {
            "workflow_id": "w",
            "version": 1,
            "user_id": "u",
            "schedule_id": "s",
            "cron_expr": "0 0 * * *",
        }
        httpx2.post(f"{url}/schedules/upsert", json=body, **PATIENT).raise_for_status()
        process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in process.stdout.read().splitlines()]
    (audit,) = [line["audit"] for line in lines if line["logger"] == "dutiful.audit"]
    assert (audit["who"], audit["action"], audit["schedule_id"]) == ("local", "upsert", "s")
    assert lines[-1]["message"] == "stopped"


def test_a_start_without_an_executor_is_warned_about(tmp_path):
    with started(tmp_path, "serve") as process:
        assert "there is no executor: runs fail with launch_refused" in line_with(process, "warning: ")


def test_settings_may_be_in_a_file_that_variables_override(tmp_path):
    (tmp_path / "dutiful.toml").write_text(
        'store = "sqlite:filed.db"\nlog_level = "error"\nhost = "0.0.0.0"\n'
    )
    environ = {"DUTIFUL_HOST": "127.0.0.1"}
    with started(tmp_path, "serve", "--config", "dutiful.toml", **environ) as process:
        assert address(process).startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        # With the log at `error` nothing of what the worker does is told.
        assert process.stdout.read() == "stopped\n"
    assert (tmp_path / "filed.db").exists()


def test_clients_are_known_by_their_certificates(tmp_path):
    authority, client = trustme.CA(), tmp_path / "client.pem"
    server = authority.issue_cert("127.0.0.1")
    server.private_key_pem.write_to_path(tmp_path / "key.pem")
    server.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("ada.internal").private_key_and_cert_chain_pem.write_to_path(client)
    clients = {"clients": {"DNS:ada.internal": {"user_id": "ada", "scope": "read"}}}
    (tmp_path / "clients.json").write_text(json.dumps(clients))
    environ = {
        "DUTIFUL_HOST": "0.0.0.0",
        "DUTIFUL_TLS_CERT": "cert.pem",
        "DUTIFUL_TLS_KEY": "key.pem",
        "DUTIFUL_TLS_CLIENT_CA": "ca.pem",
        "DUTIFUL_TLS_CLIENTS": "clients.json",
    }
    with started(tmp_path, "serve", **environ) as process:
        url = address(process).replace("0.0.0.0", "127.0.0.1")
        assert url.startswith("https://")
        known = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"{url}/schedules", verify=known, **PATIENT)
        known.load_cert_chain(client)
        assert httpx2.get(f"{url}/schedules", verify=known, **PATIENT).json()["schedules"] == []
        refused = httpx2.delete(f"{url}/schedules/x", verify=known, **PATIENT)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "scope_missing")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


SECONDLY = {"workflow_id": "w", "version": 1, "user_id": "u", "schedule_id": "s", "cron_expr": "* * * * * *"}


def fire_every_second(url):
    httpx2.put(f"{url}/workflows/w/1", json={}, **PATIENT).raise_for_status()
    httpx2.post(
        f"{url}/schedules/upsert", json={**SECONDLY, "dialect": "seconds"}, **PATIENT
    ).raise_for_status()


@pytest.mark.parametrize(
    "broken",
    [
        {"DUTIFUL_JWT_KEYS": "absent.json", "DUTIFUL_JWT_ISSUER": "i", "DUTIFUL_JWT_AUDIENCE": "a"},
        {"DUTIFUL_TLS_CERT": "absent.pem", "DUTIFUL_TLS_KEY": "absent.pem"},
    ],
    ids=["keys", "TLS"],
)
def test_a_start_that_fails_has_not_led(tmp_path, broken):
    code, error = ended(tmp_path, "serve", **broken)
    assert (code, "absent" in error, "Traceback" in error) == (1, True, False)
    assert not (tmp_path / "dutiful.db.service.lock").exists()


def test_a_stop_waits_for_commands_as_long_as_the_drain_setting_and_names_what_it_cuts(tmp_path):
    (tmp_path / "run.py").write_text(
        "import pathlib, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path('began').touch()\ntime.sleep(600)\n"
    )
    executor = f"command:{sys.executable} {tmp_path}/run.py"
    with started(tmp_path, "serve", DUTIFUL_EXECUTOR=executor, DUTIFUL_DRAIN_S="0.5") as process:
        fire_every_second(address(process))
        while not (tmp_path / "began").exists():
            pass
        process.send_signal(signal.SIGTERM)
        lines = process.stdout.read().splitlines()
        assert process.wait() == 1
        assert "runs were cut short, of: s" in process.stderr.read()
    assert [line for line in lines if "waiting up to 0.5 s for runs in flight: s" in line]
    assert [line for line in lines if "cut short after 0.5 s: s" in line]
    assert [line for line in lines if "Traceback" in line] == []


def test_a_second_signal_ends_the_service_at_once(tmp_path):
    (tmp_path / "run.py").write_text("import pathlib, time\npathlib.Path('began').touch()\ntime.sleep(600)\n")
    executor = f"command:{sys.executable} {tmp_path}/run.py"
    with started(tmp_path, "serve", DUTIFUL_EXECUTOR=executor, DUTIFUL_DRAIN_S="600") as process:
        fire_every_second(address(process))
        while not (tmp_path / "began").exists():
            pass
        process.send_signal(signal.SIGTERM)
        line_with(process, "waiting up to 600 s for runs in flight")
        # A signal that follows at once is taken for the same request, so it is repeated until it is heard.
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        assert process.returncode == 1
        said = process.stderr.read()
    assert said == "ended at once; the next start recovers the runs that were cut short\n"


def worker_of(server):
    """Return the process number of a server's worker."""
    with open(f"/proc/{server.pid}/task/{server.pid}/children", encoding="ascii") as children:
        (worker,) = children.read().split()
    return int(worker)


def until_ready(url):
    while httpx2.get(f"{url}/readyz", **PATIENT).status_code != 200:
        pass


def test_a_worker_process_that_is_killed_is_started_again(tmp_path):
    with started(tmp_path, "serve") as process:
        url = address(process)
        until_ready(url)
        first = worker_of(process)
        os.kill(first, signal.SIGKILL)
        assert "the worker process ended with status -9" in line_with(process, "error: ")
        until_ready(url)
        assert worker_of(process) != first
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_no_worker_process_outlives_its_server(tmp_path):
    with started(tmp_path, "serve") as process:
        until_ready(address(process))
        process.kill()
        # The output ends when the last process that has it open is gone.
        assert "answers" not in process.stdout.read()


def test_the_server_exports_the_metrics_of_its_worker_process(tmp_path):
    with started(tmp_path, "serve") as process:
        url = address(process)
        fire_every_second(url)
        while "\nruns_emitted_total 0.0\n" in (text := httpx2.get(f"{url}/metrics", **PATIENT).text):
            pass
        assert "\ndutiful_leading 1.0\n" in text
        assert "\nscheduling_drift_seconds_count 0.0\n" not in text


def test_a_standby_is_not_ready_while_the_leader_is_frozen(tmp_path):
    quick = {"DUTIFUL_LEASE_S": "1", "TICK_MS": "50"}
    with started(tmp_path, "worker", **quick) as leader:
        line_with(leader, "working on")
        while not (tmp_path / "dutiful.db.service.lock").exists():
            pass
        with started(tmp_path, "serve", **quick) as standby:
            url = address(standby)
            while not (ready := httpx2.get(f"{url}/readyz", **PATIENT).json())["ok"]:
                pass
            leader.send_signal(signal.SIGSTOP)
            try:
                while (ready := httpx2.get(f"{url}/readyz", **PATIENT)).status_code == 200:
                    pass
            finally:
                leader.send_signal(signal.SIGCONT)
    assert f"process {leader.pid} leads and has not passed for" in ready.json()["reason"]
