"""The stored output of jobs: bounded, numbered, and the oldest go first."""

from __future__ import annotations

from dutiful.fleet.control.answers import of_output
from dutiful.fleet.run.output_log import LogLimits, OutputLogs, logs_of
from dutiful.process.output_log import LEFT_OUT, SHOWN_BYTES


def write(logs, run_at, *chunks, kind="schedule"):
    log = logs.open("a", "s", run_at, kind)
    for chunk in chunks:
        log.write(chunk)
    log.close()


def test_each_run_has_a_number_and_retries_go_on_in_its_log(tmp_path):
    logs = OutputLogs(tmp_path, LogLimits())
    write(logs, 1000, b"first\n")
    write(logs, 2000, b"second\n")
    write(logs, 1000, b"again\n")
    found = logs_of(tmp_path, "a", "s")
    assert [(log.number, log.run_at, log.kind, log.read()) for log in found] == [
        (2, 2000, "schedule", b"second\n"),
        (1, 1000, "schedule", b"first\nagain\n"),
    ]
    assert {oct(log.path.stat().st_mode & 0o777) for log in found} == {"0o600"}


def test_the_oldest_runs_go_when_there_are_too_many(tmp_path):
    logs = OutputLogs(tmp_path, LogLimits(runs=2))
    for run_at in (1000, 2000, 3000):
        write(logs, run_at, b"x")
    assert [log.number for log in logs_of(tmp_path, "a", "s")] == [3, 2]


def test_of_much_output_the_end_is_kept_and_the_loss_is_marked(tmp_path):
    logs = OutputLogs(tmp_path, LogLimits(bytes=2000))
    lines = [b"line %04d\n" % number for number in range(1000)]
    write(logs, 1000, *lines)
    kept = logs_of(tmp_path, "a", "s")[0].read()
    assert kept.startswith(LEFT_OUT)
    assert kept.endswith(b"line 0998\nline 0999\n")
    assert 1000 <= len(kept) <= 2000 + len(LEFT_OUT)


def test_no_output_is_kept_where_none_is_wanted_or_nothing_can_be_written(tmp_path):
    assert OutputLogs(tmp_path, LogLimits(runs=0)).open("a", "s", 1, "schedule") is None
    (tmp_path / "logs").write_text("in the way")
    assert OutputLogs(tmp_path, LogLimits()).open("a", "s", 1, "schedule") is None


def test_the_output_of_a_run_is_given_as_text_that_commands_no_terminal(tmp_path):
    logs = OutputLogs(tmp_path, LogLimits())
    write(logs, 1000, b"first\n")
    write(logs, 2000, b"\x1b[2Jsecond\xff\tend\r\n", kind="manual")
    named, at = {"agent": "a", "schedule": "s", "truncated": False}, "1970-01-01T00:00:0{}Z"
    text = "\ufffd[2Jsecond\ufffd\tend\ufffd\n"
    latest = {**named, "run": 2, "run_at": at.format(2), "trigger": "manual", "output": text}
    first = {**named, "run": 1, "run_at": at.format(1), "trigger": "schedule", "output": "first\n"}
    assert of_output(tmp_path, "a", "s", None) == latest
    assert of_output(tmp_path, "a", "s", 1) == first
    assert of_output(tmp_path, "a", "s", 3) is None
    assert of_output(tmp_path, "a", "other", None) is None


def test_of_a_long_output_the_end_is_given(tmp_path):
    write(OutputLogs(tmp_path, LogLimits()), 1000, *(b"line %05d\n" % number for number in range(10_000)))
    found = of_output(tmp_path, "a", "s", None)
    assert (len(found["output"]), found["truncated"]) == (SHOWN_BYTES, True)
    assert found["output"].endswith("line 09998\nline 09999\n")
