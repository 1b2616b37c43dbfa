"""Who changed what, as lines that are only ever added."""

from __future__ import annotations

import json
import stat
import subprocess
import sys

from tests.web.running import SCHEDULE, running

from dutiful.httpd.audit import AuditLog
from dutiful.httpd.audit_chain import verify
from dutiful.testing import VirtualClock


def lines(path):
    """Return the entries without the hashes that hold them together."""
    verify([path])
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "prev"} for entry in entries]


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
    assert lines(path) == [
        {**at, "action": "save_workflow", "workflow_id": "report", "version": 1, "schedules": []},
        {**at, "action": "upsert", "schedule_id": "nightly", "given": SCHEDULE},
        {**at, "action": "pause", "schedule_id": "nightly", "note": "ask Ada"},
        {
            **at,
            "action": "resume",
            "workflow_id": "report",
            "user_id": None,
            "label": None,
            "note": None,
            "changed": 1,
        },
        {**at, "action": "delete", "schedule_id": "nightly"},
    ]


def test_a_bulk_is_a_line_for_each_schedule_and_one_record_of_the_log(tmp_path, caplog):
    path = tmp_path / "audit.jsonl"
    caplog.set_level("INFO", "dutiful.audit")
    many = [{**SCHEDULE, "schedule_id": f"s{number}"} for number in range(3)]
    with running(tmp_path, DUTIFUL_AUDIT_LOG=str(path)) as service:
        service.post("/schedules/bulk", many)
    at = {"at": "2026-03-02T09:00:00Z", "who": "local", "action": "upsert"}
    assert lines(path) == [{**at, "schedule_id": each["schedule_id"], "given": each} for each in many]
    [record] = [record for record in caplog.records if record.name == "dutiful.audit"]
    assert record.getMessage() == "local: upsert 3 schedules"
    assert record.audit == {**at, "schedule_ids": ["s0", "s1", "s2"]}


def test_the_file_is_added_to_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "audit.jsonl"
    for number in range(2):
        log = AuditLog(VirtualClock("2026-03-02T09:00:00+00:00"), path)
        log.record("ada", "delete", schedule_id=f"s{number}")
        log.close()
    assert [line["schedule_id"] for line in lines(path)] == ["s0", "s1"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


WRITER = """
import sys
from dutiful.runtime.clock import SystemClock
from dutiful.httpd.audit import AuditLog
log = AuditLog(SystemClock(), sys.argv[1])
for number in range(500):
    log.record(sys.argv[2], "upsert", number=number, text="x" * 300)
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
    log.record("eve\n{}", "pause", note="\n\u2028{}")
    log.close()
    assert [(line["who"], line["note"]) for line in lines(path)] == [("eve\n{}", "\n\u2028{}")]
