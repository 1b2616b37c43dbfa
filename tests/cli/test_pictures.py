"""The pictures of commands: `dutiful schedules picture`, the ledger of one schedule as SVG."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from click.testing import CliRunner
from tests.web.running import running

from dutiful.cli.main import cli
from dutiful.cli.pictures import schedule_picture


def test_the_latest_ticks_of_a_schedule_are_drawn_the_same_each_time(tmp_path, monkeypatch):
    with running(tmp_path, TICK_MS="60000") as service:
        service.put("/workflows/report/1", {})
        service.upsert(cron_expr="*/30 * * * *")
        service.advance(2 * 3600)
        monkeypatch.setenv("DUTIFUL_URL", service.url)
        drawn = []
        for name in ("one.svg", "two.svg"):
            asked = ["schedules", "picture", "nightly", str(tmp_path / name), "--days", "1"]
            result = CliRunner().invoke(cli, asked, catch_exceptions=False)
            assert (result.exit_code, result.output) == (0, f"Wrote {tmp_path / name}\n")
            drawn.append((tmp_path / name).read_bytes())
    assert drawn[0] == drawn[1]
    assert "4 ran" in " ".join(ElementTree.fromstring(drawn[0]).itertext())


def test_skipped_stretches_late_runs_and_clock_changes_are_drawn():
    common = {
        "attempt": 1,
        "reason": None,
        "run_until": None,
        "ticks": 1,
        "started_at": None,
        "ended_at": None,
    }
    late = {"started_at": "2026-03-08T12:09:00Z", "ended_at": "2026-03-08T12:10:00Z"}
    runs = [
        {**common, "run_at": "2026-03-08T12:00:00Z", "status": "SUCCESS", **late},
        {**common, "run_at": "2026-03-08T05:00:00Z", "run_until": "2026-03-08T11:00:00Z", "ticks": 7,
         "status": "SKIPPED", "reason": "paused"},
        {**common, "run_at": "2026-01-01T00:00:00Z", "status": "FAILED", "reason": "task_failed"},
    ]  # fmt: skip
    view = {"schedule_id": "nightly", "cron_expr": "0 * * * *", "timezone": "America/New_York"}
    now = datetime(2026, 3, 8, 14, tzinfo=UTC)
    drawn = schedule_picture(view, runs, now, timedelta(days=2), "light")
    words = " ".join(ElementTree.fromstring(drawn).itertext())
    assert "1 ran, 7 skipped" in words
    assert "clocks go forward 1 h" in words
    assert 'class="late"' in drawn


def test_a_file_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    with running(tmp_path) as service:
        service.put("/workflows/report/1", {})
        service.upsert()
        monkeypatch.setenv("DUTIFUL_URL", service.url)
        asked = ["schedules", "picture", "nightly", str(tmp_path / "absent" / "x.svg")]
        result = CliRunner().invoke(cli, asked)
    assert result.exit_code != 0
    assert "No such file or directory" in f"{result.output}{result.exception}"
