"""Crontabs of users and of the system, and what differs about each line."""

from __future__ import annotations

import pytest

from dutiful import Cron
from dutiful.importers.crontab import read_crontab
from dutiful.importers.imported import Refused, Target

TARGET = Target("crontab", "ada")


def one(text, **options):
    imported = read_crontab(text, TARGET, **options)
    assert imported.refused == []
    (schedule,) = imported.schedules
    return schedule, {each.about: each for each in imported.differences[schedule["schedule_id"]]}


def reason(text):
    ((_, place, why),) = read_crontab(text, TARGET).refused
    assert place == "line 1"
    return why


def test_a_line_becomes_a_schedule_with_the_rules_of_cron():
    schedule, differences = one("30 2 * * mon-fri  /usr/bin/backup --all\n")
    assert schedule == {
        "schedule_id": "backup",
        "workflow_id": "crontab",
        "version": 1,
        "user_id": "ada",
        "cron_expr": "30 2 * * mon-fri",
        "timezone": "UTC",
        "dst": "vixie",
        "overlap_policy": "allow",
        "catchup_policy": "none",
        "input": {"command": "/usr/bin/backup --all"},
    }
    assert [*differences] == ["timezone", "command", "missed ticks", "run_timeout_s", "output"]


def test_a_line_of_the_system_has_a_user():
    schedule, differences = one("@daily root backup", system=True)
    assert (schedule["cron_expr"], schedule["input"]) == ("@daily", {"command": "backup", "user": "root"})
    assert differences["command"].there == "cron runs the command as root"


def test_variables_are_those_of_the_lines_after_them():
    text = "A=1\n0 1 * * * x\n B = 'two words' \n# C=3\n0 2 * * * x\n"
    first, second = read_crontab(text, TARGET).schedules
    assert first["input"]["env"] == {"A": "1"}
    assert second["input"]["env"] == {"A": "1", "B": "two words"}
    assert (first["schedule_id"], second["schedule_id"]) == ("x", "x-2")


def test_programs_of_one_name_get_ids_by_number():
    lines = "".join(
        f"{number} * * * * {name} {number}\n" for number, name in enumerate(["x", "x", "x-2", "x"])
    )
    imported = read_crontab(lines, TARGET)
    assert [each["schedule_id"] for each in imported.schedules] == ["x", "x-2", "x-2-2", "x-3"]


def test_cron_tz_is_the_zone_and_tz_is_not():
    schedule, differences = one("CRON_TZ=Europe/Berlin\nTZ=Asia/Tokyo\n0 9 * * * x\n")
    assert (schedule["timezone"], schedule["input"]["env"]) == ("Europe/Berlin", {"TZ": "Asia/Tokyo"})
    assert {"timezone", "TZ", "changing clocks"} <= {*differences}
    assert "other crons" in differences["timezone"].there


def test_nothing_is_said_about_mail_where_none_is_sent():
    assert "output" not in one('MAILTO=""\n0 9 * * * x\n')[1]


def test_a_percent_sign_begins_the_standard_input():
    schedule, _ = one(r"0 9 * * * mail -s 100\% ada%hello%you" + "\n")
    assert schedule["input"] == {"command": "mail -s 100% ada", "stdin": "hello\nyou\n"}
    assert one("0 9 * * * mail%hello%\n")[0]["input"]["stdin"] == "hello\n"
    assert one("0 9 * * * mail%\n")[0]["input"] == {"command": "mail"}


def test_only_a_line_feed_ends_a_line():
    schedule, _ = one("0 9 * * * printf 'a\x0cb\u2028c'\r\n")
    assert schedule["input"] == {"command": "printf 'a\x0cb\u2028c'"}


@pytest.mark.parametrize(
    ("minute", "is_told"), [("5/15", True), ("1,5/15", True), ("5-59/15", False), ("*/15", False)]
)
def test_a_step_after_one_value_is_told_as_it_is_refused_or_ignored_by_cron(minute, is_told):
    schedule, differences = one(f"{minute} * * * * x")
    assert (schedule["cron_expr"], "step" in differences) == (f"{minute} * * * *", is_told)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ("*/1 * * * *", "* * * * *"),
        ("0 0 */1 * 1", "0 0 * * 1"),
        ("0 0 */2 * *", "0 0 */2 * *"),
        ("0 0 1 * */1", "0 0 1 * *"),
        ("0 0 */2 * 0-6", "0 0 */2 * *"),
        ("0 0 1-31 * 1", "0 0 1-31 * 1"),
    ],
)
def test_a_day_field_that_begins_with_an_asterisk_must_match_with_the_other_one(fields, text):
    assert one(f"{fields} x")[0]["cron_expr"] == text
    assert Cron.parse(text, dialect="standard")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@reboot x", "@reboot names no time"),
        ("0~30 * * * * x", "has a random value (~)"),
        ("0 0 */2 * 1 x", "day of month */2 and weekday 1 must both match there"),
        ("61 * * * * x", "Invalid cron expression"),
        ("@sometimes x", "has the unknown macro '@sometimes'"),
        ("0 9 * * *", "has no command"),
        ("hello", "has no command"),
    ],
)
def test_what_cannot_be_imported_is_listed_with_its_line_and_the_reason(line, why):
    assert why in reason(line)


def test_an_unknown_zone_is_refused():
    imported = read_crontab("CRON_TZ=Mars/Phobos\n0 9 * * * x\n", TARGET)
    assert [each._replace(reason="") for each in imported.refused] == [Refused("x", "line 2", "")]
