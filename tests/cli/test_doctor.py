"""What `dutiful doctor` finds."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner
from tests.ports import port_without_listener

from dutiful.cli.main import cli
from dutiful.service.declaration import ScheduleInput
from dutiful.service.settings import settings_from
from dutiful.service.wiring import Service


@pytest.fixture
def examined(tmp_path, monkeypatch):
    """A function that asks the doctor and returns the exit code and (state, detail) by check."""
    monkeypatch.chdir(tmp_path)

    def ask(**environ):
        done = CliRunner().invoke(cli, ["doctor", "--json"], env=environ)
        return done.exit_code, {
            each["check"]: (each["state"], each["detail"]) for each in json.loads(done.output)
        }

    return ask


def test_a_machine_without_anything_is_fine_but_has_no_executor(examined, tmp_path):
    code, found = examined()
    assert code == 0
    assert found["store"] == ("ok", "dutiful.db is made at the first start")
    assert found["executor"] == ("note", "none: every run is refused until DUTIFUL_EXECUTOR is set")
    assert not (tmp_path / "dutiful.db").exists()


def test_settings_that_cannot_be_read_are_reported(examined):
    code, found = examined(TICK_MS="x")
    assert (code, found["settings"][0]) == (1, "wrong")
    assert "TICK_MS is 'x'" in found["settings"][1]


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"DUTIFUL_JWT_KEYS": "missing"}, "DUTIFUL_JWT_KEYS is 'missing': there is no such file"),
        ({"DUTIFUL_JWT_KEYS": "text"}, "text cannot be used: at character 0 it is no JSON"),
        ({"DUTIFUL_TLS_CERT": "text", "DUTIFUL_TLS_KEY": "text"}, "TLS cannot be set up from text, text"),
        ({"DUTIFUL_AUDIT_LOG": "folder"}, "DUTIFUL_AUDIT_LOG is 'folder': is a folder; name a file in it"),
        ({"DUTIFUL_OUTPUT_DIR": "text"}, "Invalid DUTIFUL_OUTPUT_DIR 'text'"),
    ],
)
def test_a_file_with_which_the_service_would_not_start_is_told(examined, tmp_path, named, why):
    (tmp_path / "text").write_text("no file of this kind")
    (tmp_path / "folder").mkdir()
    token_settings = {"DUTIFUL_JWT_ISSUER": "i", "DUTIFUL_JWT_AUDIENCE": "a"}
    code, found = examined(**token_settings, **named)
    assert (code, found["settings"][0], why in found["settings"][1]) == (1, "wrong", True), found["settings"]
    assert found["store"][0] == "ok"


def test_files_that_a_start_makes_are_not_made(examined, tmp_path):
    code, found = examined(DUTIFUL_AUDIT_LOG="audit.jsonl", DUTIFUL_OUTPUT_DIR="outputs")
    assert (code, found["settings"][0], [*tmp_path.iterdir()]) == (0, "ok", [])


def test_a_store_that_cannot_be_used_is_wrong(examined, tmp_path):
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    code, found = examined(DUTIFUL_STORE="sqlite:broken.db")
    assert (code, found["store"][0]) == (1, "wrong")
    code, found = examined(DUTIFUL_STORE="sqlite:no/such/folder/x.db")
    assert (code, found["store"]) == (1, ("wrong", "no/such/folder/x.db cannot be made"))


def test_a_queue_that_answers_is_ok_and_one_that_does_not_is_wrong(examined, valkey_url, nats_url, own_name):
    for url in (
        f"{valkey_url}?stream={own_name}",
        f"{nats_url}?stream={own_name}&subject={own_name}",
        f"celery+{valkey_url}?task=t",
    ):
        code, found = examined(DUTIFUL_EXECUTOR=url)
        assert (code, found["executor"][0]) == (0, "ok"), found
    with port_without_listener() as port:
        for url in (f"redis://:canary@127.0.0.1:{port}/0", f"nats://u:canary@127.0.0.1:{port}"):
            code, found = examined(DUTIFUL_EXECUTOR=url)
            assert (code, found["executor"][0]) == (1, "wrong")
            assert "canary" not in found["executor"][1]


def test_the_queue_that_a_schedule_names_is_examined_too(examined, valkey_url, own_name):
    async def declare(**executors):
        service = await Service(settings_from({"DUTIFUL_STORE": "sqlite:dutiful.db"}), worker=False).start()
        for schedule_id, url in executors.items():
            declared = ScheduleInput("w", 1, "ada", "0 0 1 1 *", schedule_id=schedule_id, executor=url)
            await service.registrar.upsert_schedule(declared)
        await service.stop()

    with port_without_listener() as port:
        away = f"redis://:canary@127.0.0.1:{port}/0"
        asyncio.run(declare(here=f"{valkey_url}?stream={own_name}", gone=away, same=away))
        code, found = examined(DUTIFUL_EXECUTOR="command:true")
    assert (code, found["executor"][0]) == (1, "ok")
    assert found["executor of here"] == ("ok", "redis: answers, and takes runs")
    assert found["executor of gone"][0] == "wrong"
    assert "canary" not in str(found)
    assert "executor of same" not in found
