"""The stored output of jobs: bounded, numbered, and the oldest go first."""

from __future__ import annotations

from dutiful.fleet.run.output_log import LogLimits, Output, OutputLogs, logs_of, output_of
from dutiful.process.output_log import LEFT_OUT


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
    latest = Output(2, 2000, "manual", "\ufffd[2Jsecond\ufffd\tend\ufffd\n", truncated=False)
    assert output_of(tmp_path, "a", "s") == latest
    assert output_of(tmp_path, "a", "s", 1) == Output(1, 1000, "schedule", "first\n", truncated=False)
    assert output_of(tmp_path, "a", "s", 3) is None
    assert output_of(tmp_path, "a", "other") is None


def test_of_a_long_output_the_end_is_given(tmp_path):
    logs = OutputLogs(tmp_path, LogLimits(bytes=2000))
    write(logs, 1000, *(b"line %04d\n" % number for number in range(30)))
    assert output_of(tmp_path, "a", "s", limit=20) == Output(
        1, 1000, "schedule", "line 0028\nline 0029\n", truncated=True
    )
