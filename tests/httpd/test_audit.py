"""Who changed what, as lines that are only ever added."""

from __future__ import annotations

import json
import stat
import subprocess
import sys

import pytest
from tests.web.running import SCHEDULE, running

from dutiful.httpd.audit import AuditLog, verify
from dutiful.testing import VirtualClock


def lines(path):
    """Return the entries without the hashes that hold them together."""
    verify([path])
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {key: value for key, value in entry.items() if key not in {"prev", "request"}} for entry in entries
    ]


def test_every_change_is_written_down_with_who_made_it(tmp_path):
    path = tmp_path / "audit.jsonl"
    with running(tmp_path, DUTIFUL_AUDIT_LOG=str(path)) as service:
        service.put("/workflows/report/1", {})
        service.upsert()
        service.post("/schedules/pause", {"schedule_id": "nightly", "paused": True, "note": "ask Ada"})
        service.post("/schedules/pause-many", {"paused": False, "workflow_id": "report"})
        service.post("/schedules/upsert", {**SCHEDULE, "version": -1}, 422)
        service.get("/schedules/nightly")
        service.client.delete("/schedules/nightly")
    at = {"at": "2026-03-02T09:00:00Z", "who": "local"}
    many = {"workflow_id": "report", "user_id": None, "label": None}
    changes = [
        ("save_workflow", {"workflow_id": "report", "version": 1}, {"schedules": []}),
        ("upsert", {"schedule_id": "nightly", "given": SCHEDULE}, {}),
        ("pause", {"schedule_id": "nightly", "note": "ask Ada"}, {}),
        ("resume", {**many, "note": None}, {"changed": 1}),
        ("delete", {"schedule_id": "nightly"}, {}),
    ]
    wanted = []
    for action, asked, found in changes:
        done = {key: value for key, value in asked.items() if key not in {"given", "note"}}
        wanted += [
            {**at, "action": action, "phase": "asked", **asked},
            {**at, "action": action, "phase": "done", **done, **found},
        ]
    assert lines(path) == wanted


def requests(path):
    """Return for each line of the log which request it belongs to."""
    return [json.loads(line)["request"] for line in path.read_text().splitlines()]


def test_the_lines_of_a_request_have_its_name(tmp_path):
    path = tmp_path / "audit.jsonl"
    with running(tmp_path, DUTIFUL_AUDIT_LOG=str(path)) as service:
        service.upsert()
        service.post("/schedules/nightly/trigger")
    asked, done, *others = requests(path)
    assert asked == done
    assert asked not in others


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/schedules/upsert", SCHEDULE),
        ("POST", "/schedules/bulk", [SCHEDULE]),
        ("POST", "/schedules/pause", {"schedule_id": "nightly", "paused": True}),
        ("POST", "/schedules/pause-many", {"paused": True, "workflow_id": "report"}),
        ("DELETE", "/schedules/nightly", None),
        ("POST", "/schedules/nightly/trigger", None),
        (
            "POST",
            "/schedules/nightly/backfill",
            {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"},
        ),
        ("PUT", "/workflows/report/2", {}),
        (
            "POST",
            "/run-launcher/start",
            {
                "workflow_id": "report",
                "version": 1,
                "user_id": "ada",
                "scheduled_for": "2026-03-02T09:00:00Z",
                "idempotency_key": "k",
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_is_changed_when_the_log_cannot_be_written(tmp_path, method, path, body):
    log = tmp_path / "log" / "audit.jsonl"
    log.parent.mkdir()
    with running(tmp_path, DUTIFUL_AUDIT_LOG=str(log)) as service:
        service.put("/workflows/report/1", {})
        service.upsert(cron_expr="0 0 * * *")
        before = service.get("/schedules/nightly"), service.get("/schedules/nightly/runs")
        # A log that was moved away is made anew; here it cannot be.
        log.unlink()
        log.parent.rmdir()
        answer = service.client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "audit_unavailable")
        assert (service.get("/schedules/nightly"), service.get("/schedules/nightly/runs")) == before
        assert service.client.get("/workflows/report/2").status_code == 404


def test_a_bulk_is_a_line_for_each_schedule_and_one_record_of_the_log(tmp_path, caplog):
    path = tmp_path / "audit.jsonl"
    caplog.set_level("INFO", "dutiful.audit")
    many = [{**SCHEDULE, "schedule_id": f"s{number}"} for number in range(3)]
    with running(tmp_path, DUTIFUL_AUDIT_LOG=str(path)) as service:
        service.post("/schedules/bulk", many)
    at = {"at": "2026-03-02T09:00:00Z", "who": "local", "action": "upsert"}
    done = {**at, "phase": "done", "schedule_ids": ["s0", "s1", "s2"]}
    asked = [{**at, "phase": "asked", "schedule_id": each["schedule_id"], "given": each} for each in many]
    assert lines(path) == [*asked, done]
    [record] = [record for record in caplog.records if record.name == "dutiful.audit"]
    assert record.getMessage() == "local: upsert 3 schedules"
    assert {key: value for key, value in record.audit.items() if key != "request"} == done


def test_the_file_is_added_to_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "audit.jsonl"
    for number in range(2):
        log = AuditLog(VirtualClock("2026-03-02T09:00:00+00:00"), path)
        log.record("r", "ada", "delete", schedule_id=f"s{number}")
        log.close()
    assert [line["schedule_id"] for line in lines(path)] == ["s0", "s1"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


WRITER = """
import sys
from dutiful.runtime.clock import SystemClock
from dutiful.httpd.audit import AuditLog
log = AuditLog(SystemClock(), sys.argv[1])
for number in range(500):
    log.record("r", sys.argv[2], "upsert", number=number, text="x" * 300)
"""


def test_lines_of_several_processes_do_not_mix(tmp_path):
    path = tmp_path / "audit.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, name]) for name in ("a", "b")]
    assert [writer.wait() for writer in writers] == [0, 0]
    written = [(line["who"], line["number"]) for line in lines(path)]
    assert sorted(written) == [(name, number) for name in ("a", "b") for number in range(500)]


def test_a_text_cannot_pretend_to_be_another_line(tmp_path):
    path = tmp_path / "audit.jsonl"
    log = AuditLog(VirtualClock("2026-03-02T09:00:00+00:00"), path)
    log.record("r", "eve\n{}", "pause", note="\n\u2028{}")
    log.close()
    assert [(line["who"], line["note"]) for line in lines(path)] == [("eve\n{}", "\n\u2028{}")]
