"""`dutiful cron` on bad input: exit code 2, one line that says what to write, never a traceback."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dutiful.cli.main import cli

COMMANDS = ["next", "previous", "explain", "lint"]


def run(*arguments):
    return CliRunner().invoke(cli, ["cron", *arguments])


def refusal(*arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.strip()


STEP = 'minute field has the step "*/30", which POSIX cron lacks; list the values instead: "0,30"'
NAME = 'weekday field has the name "mon", which POSIX cron lacks; use 1'
COUNT = "expression field expected 5 fields, got 6"
FIVE = "(write: minute hour day month weekday, separated by spaces or tabs)"


@pytest.mark.parametrize("command", ["next", "previous", "explain"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("*/30 * * * *", f"{STEP} (legal with --dialect standard)"),
        ("0 0 * * mon", f"{NAME} (legal with --dialect standard)"),
        ("0 0 9 * * *", f"{COUNT} {FIVE} (legal with --dialect seconds)"),
        ("0 25 * * *", "hour field must be 0-23, not 25"),
        ("0 0 30 2 *", "expression field has a date that cannot exist: no month given has a day 30"),
    ],
)
def test_a_bad_text_is_refused_with_a_hint_at_the_dialect_that_reads_it(command, text, reason):
    assert refusal(command, text) == f'Error: Invalid cron expression "{text}": {reason}'


EXAMPLES = "2026-03-08, 2026-03-08T01:30 or 2026-03-08T06:30Z"
NOT_IN_DATABASE = "is not in the time zone database; did you mean 'Europe/Berlin'?"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-z", "Europe/Berln"], f"Invalid timezone 'Europe/Berln': {NOT_IN_DATABASE}"),
        (
            ["--from", "yesterday"],
            f"Invalid --from 'yesterday': write ISO 8601, such as {EXAMPLES}",
        ),
        (
            ["--dst", "vixie", "--gap", "skip"],
            "Invalid dst 'vixie': already decides gap and fold; leave those out",
        ),
        (
            ["-z", "Asia/Tokyo", "--from", "0001-01-01"],
            "Invalid --from '0001-01-01': lies outside the years 1 to 9999 in UTC",
        ),
        (
            ["-z", "America/New_York", "--from", "9999-12-31T23:00"],
            "Invalid --from '9999-12-31T23:00': lies outside the years 1 to 9999 in UTC",
        ),
    ],
)
def test_a_bad_setting_is_refused(command, arguments, message):
    assert refusal(command, "0 0 * * *", *arguments) == f"Error: {message}"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["next"], "Missing argument 'EXPRESSION'"),
        (["next", "0 0 * * *", "--count", "0"], "0 is not in the range 1<=x<=1000"),
        (["next", "0 0 * * *", "--count", "1001"], "1001 is not in the range 1<=x<=1000"),
        (
            ["next", "0 0 * * *", "--dialect", "quartz"],
            "'quartz' is not one of 'posix', 'standard', 'seconds'",
        ),
        (["next", "0 0 * * *", "--gap", "both"], "'both' is not one of 'skip', 'run_after'"),
        (["next", "0 0 * * *", "--fold", "skip"], "'skip' is not one of 'both', 'first', 'last'"),
        (["next", "0", "0", "*", "*", "*"], "Got unexpected extra arguments (0 * * *)"),
        (["soon", "0 0 * * *"], "No such command 'soon'"),
    ],
)
def test_bad_usage_is_refused(arguments, complaint):
    assert complaint in refusal(*arguments)


@pytest.mark.parametrize(
    ("command", "text", "since"),
    [("next", "0 0 * * *", "9999-12-31T00:00"), ("previous", "0 0 31 12 *", "0001-01-01T00:00")],
)
def test_a_question_beyond_the_calendar_is_refused(command, text, since):
    message = "Failed to calculate next occurrence: no occurrence within the years 1 to 9999"
    assert refusal(command, text, "--from", since) == f"Error: {message}"


@pytest.mark.parametrize(
    ("command", "since", "zone", "count"),
    [
        ("next", "9999-12-31T10:30Z", "UTC", 13),
        ("next", "9999-12-31T10:30Z", "America/New_York", 13),
        ("next", "9999-12-31T10:30Z", "Asia/Tokyo", 4),
        ("previous", "0001-01-01T12:30Z", "UTC", 13),
        ("previous", "0001-01-01T12:30Z", "America/New_York", 8),
        ("previous", "0001-01-01T12:30Z", "Asia/Tokyo", 12),
    ],
)
def test_the_ends_of_the_calendar_give_what_there_is(command, since, zone, count):
    arguments = (command, "0 * * * *", "-z", zone, "--from", since, "-n", "20")
    text, document = run(*arguments), run(*arguments, "--json")
    assert (text.exit_code, document.exit_code) == (0, 0)
    assert {text.stderr, document.stderr} == {"no more: no occurrence within the years 1 to 9999\n"}
    assert len(text.stdout.splitlines()) == 4 + count
    assert len(json.loads(document.stdout)["ticks"]) == count


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Europe/Berlin", "Asia/Tokyo"])
@pytest.mark.parametrize("since", ["0001-01-02", "0001-06-01", "9999-06-01", "9999-10-30", "9999-12-30"])
def test_no_command_ends_in_a_traceback_near_the_ends_of_the_calendar(command, zone, since):
    for text in ("0 0 31 10 *", "0 2 * * 0", "30 1 1 1 *"):
        result = run(command, text, "-z", zone, "--from", since)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert result.exit_code in (0, 1, 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f'Example: dutiful cron {command} "' in result.stdout
