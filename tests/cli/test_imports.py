"""`dutiful import`: a schedule file that `plan` reads, and everything that differs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.cli.test_main import run_without

from dutiful.cli.main import cli
from dutiful.cli.schedule_files import read_schedules

CRONTAB = "0 9 * * 1-5 report --all\n"
JOB = """
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "30 2 * * *", jobTemplate: {spec: {template: {spec: {"a b": [1, 2.5, true, "x\\ty"]}}}}}
"""
BEAT = "beat_schedule = {'e': {'task': 't', 'schedule': crontab(hour=4, minute=0), 'args': (1, {'a': 2})}}"
JOBS = "scheduler.add_job(work, 'cron', hour=9, timezone='Europe/Berlin', jitter=5, start_date='2026-03-01')"
SOURCES = {"crontab": CRONTAB, "kubernetes": JOB, "celery": BEAT, "apscheduler": JOBS}


def run(*arguments, **options):
    result = CliRunner().invoke(cli, ["import", *map(str, arguments)], **options)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_what_is_imported_is_a_file_that_plan_reads(tmp_path, source, suffix):
    given, out = tmp_path / "given", tmp_path / f"schedules{suffix}"
    given.write_text(SOURCES[source], encoding="utf-8")
    code, shown, told = run(source, given, "--output", out, "--user", "ada", "--workflow", "mine")
    assert (code, shown) == (0, "")
    assert told.splitlines()[-1].startswith("1 schedule imported, 0 not; ")
    (read,) = read_schedules([str(out)])
    assert [read.body] == json.loads(run(source, given, "--user", "ada", "--workflow", "mine", "--json")[1])[
        "schedules"
    ]
    assert (read.body["user_id"], read.body["workflow_id"]) == ("ada", "mine")


def test_the_differences_are_comments_of_the_file_and_lines_of_standard_error(tmp_path):
    code, shown, told = run("crontab", "-", input=CRONTAB)
    comments = [line.removeprefix("# ") for line in shown.splitlines() if line.startswith("# ")]
    assert code == 0
    assert comments[0].startswith(
        "timezone: there, it is the zone of the host; here, it is UTC. Give --timezone"
    )
    assert told.splitlines()[:-1] == [f"report: {comment}" for comment in comments]
    (tmp_path / "a.toml").write_text(shown, encoding="utf-8")
    assert [each.schedule_id for each in read_schedules([str(tmp_path / "a.toml")])] == ["report"]


def test_a_difference_of_all_schedules_is_reported_once():
    _, shown, told = run("crontab", "-", input=CRONTAB + CRONTAB.replace("report", "other"))
    assert shown.count("missed ticks:") == told.count("missed ticks:") == 1
    assert "# All of them: missed ticks:" in shown


def test_what_cannot_be_imported_is_listed_and_the_exit_code_is_1():
    code, shown, told = run("crontab", "-", input=f"@reboot x\n{CRONTAB}")
    assert code == 1
    assert "[[schedules]]" in shown
    assert "not imported: x (line 1): @reboot names no time" in told
    assert told.splitlines()[-1].startswith("1 schedule imported, 1 not;")
    assert run("crontab", "-", input="@reboot x\n")[:2] == (1, "")


def test_json_has_schedules_differences_and_what_was_refused():
    code, shown, told = run("crontab", "-", "--json", input=f"@reboot x\n{CRONTAB}")
    document = json.loads(shown)
    assert (code, told, [*document]) == (1, "", ["schedules", "differences", "refused"])
    assert document["refused"][0]["place"] == "line 1"
    assert {each["schedule_id"] for each in document["differences"]} == {"report"}


def test_a_null_needs_a_file_of_json(tmp_path):
    text = BEAT.replace("{'a': 2}", "None")
    code, _, told = run("celery", "-", input=text)
    assert (code, "write JSON: --output FILE.json" in told) == (2, True)
    out = tmp_path / "a.json"
    assert run("celery", "-", "--output", out, input=text)[0] == 0
    assert read_schedules([str(out)])[0].body["input"]["args"] == [1, None]


def test_a_zone_that_does_not_exist_and_a_file_that_is_no_text_are_refused(tmp_path):
    assert run("crontab", "-", "--timezone", "Mars/Phobos", input=CRONTAB)[0] == 2
    (tmp_path / "a").write_bytes(b"\xff")
    assert "cannot be read" in run("crontab", tmp_path / "a")[2]


def test_without_yaml_only_cron_jobs_cannot_be_imported(tmp_path):
    (tmp_path / "a").write_text(CRONTAB, encoding="utf-8")
    assert run_without("yaml,pydantic,aiohttp", "import", "crontab", str(tmp_path / "a")).returncode == 0
    done = run_without("yaml", "import", "kubernetes", str(tmp_path / "a"))
    needed = 'dutiful import kubernetes needs yaml, which is not installed: pip install "dutiful[fleet]"'
    assert (done.returncode, done.stderr) == (1, f"Error: {needed}\n")


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_may_begin_with_a_byte_order_mark(tmp_path, source):
    (tmp_path / "given").write_text(SOURCES[source], encoding="utf-8-sig")
    assert run(source, tmp_path / "given") == run(source, "-", input=SOURCES[source])
