"""Every refusal of a schedule file: where, which key, which value, and what to write instead."""

from __future__ import annotations

import pytest

from dutiful.errors import ScheduleFileError
from dutiful.simulate.schedule_file import OUTAGE_KEYS, SCHEDULE_KEYS, read_schedule_file

CRON = "Invalid cron expression"
WRITE_A_ZONE = "write an IANA name such as 'Europe/Berlin', or a tzinfo"
WRITE_A_TIME = "write a date and time without quotes, such as 2026-03-08T02:30:00Z"


def problems(tmp_path, text):
    path = tmp_path / "schedules.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScheduleFileError) as caught:
        read_schedule_file(path)
    listed = caught.value.details["problems"]
    assert caught.value.details == {"path": str(path), "problems": listed}
    assert str(caught.value) == f"{path} cannot be used:" + "".join(f"\n  {problem}" for problem in listed)
    return listed


REFUSALS = [
    ("id = 5", "schedules[5].id: 5: write a text in quotes"),
    ('id = ""', "schedules[].id: '': write a text in quotes"),
    ("task = 5", "schedules[a].task: 5: write a text in quotes"),
    ("payload = []", "schedules[a].payload: []: write a text in quotes"),
    ("paused = 1", "schedules[a].paused: 1: write true or false"),
    ('paused = "no"', "schedules[a].paused: 'no': write true or false"),
    ("max_runs = 0", "schedules[a].max_runs: 0: write a whole number from 1"),
    ("max_runs = true", "schedules[a].max_runs: True: write a whole number from 1"),
    ("queue_limit = 1.5", "schedules[a].queue_limit: 1.5: write a whole number from 1"),
    ("catch_up_cap = -1", "schedules[a].catch_up_cap: -1: write a whole number from 1"),
    ("fails_every = nan", "schedules[a].fails_every: nan: write a whole number from 1"),
    ('grace = "soon"', "schedules[a].grace: 'soon': Missing numeric value"),
    ("jitter = 30", "schedules[a].jitter: 30: Interval must be a string, not int"),
    ('run_timeout = "0s"', "schedules[a].run_timeout: '0s': Zero interval is not allowed"),
    ('takes = "1.5h"', "schedules[a].takes: '1.5h': Decimal values are not supported"),
    (
        'overlap = "both"',
        "schedules[a].overlap: 'both': choose from allow, skip, queue, buffer_one, cancel_other",
    ),
    ("catch_up = []", "schedules[a].catch_up: []: choose from none, latest, fire_immediately, spread"),
    ('on_orphan = "x"', "schedules[a].on_orphan: 'x': choose from restart, wait, relaunch, give_up"),
    ('every = "5x"', "schedules[a].every: '5x': Invalid time unit \"x\". Valid units are: s, m, h, d"),
    (
        'at = "2026-03-01"',
        f"schedules[a].at: '2026-03-01': {WRITE_A_TIME}",
    ),
    (
        "start_at = 2026-03-01",
        f"schedules[a].start_at: datetime.date(2026, 3, 1): {WRITE_A_TIME}",
    ),
    (
        "start_at = 2026-03-02T00:00:00Z\nend_at = 2026-03-01T00:00:00Z",
        "schedules[a].end_at: is before start_at",
    ),
    (
        'cron = "60 * * * *"',
        f"""schedules[a].cron: '60 * * * *': {CRON} "60 * * * *": minute field must be 0-59, not 60""",
    ),
    (
        'cron = "* * * * *"\ntimezone = 5',
        f"schedules[a].timezone: 5: Invalid timezone '5': {WRITE_A_ZONE}",
    ),
    (
        'cron = "0 9 * * *"\ngap = "jump"',
        "schedules[a].gap: 'jump': Invalid gap 'jump': choose from 'skip', 'run_after'",
    ),
    (
        'cron = "0 9 * * *"\ndst = "vixie"\nfold = "first"',
        "schedules[a].cron: '0 9 * * *': Invalid dst 'vixie': already decides gap and fold; leave those out",
    ),
    ('cron = "0 9 * * *"\nevery = "1h"', "schedules[a].every: 'cron' is there too; keep one"),
    # Settings without what they belong to would be ignored in silence.
    ('every = "1d"\ntimezone = "Asia/Tokyo"', "schedules[a].timezone: means nothing without 'cron'"),
    ('dst = "vixie"', "schedules[a].dst: means nothing without 'cron'"),
    ("retry_limit = 3", "schedules[a].retry_limit: means nothing without 'retry_delay'"),
    (
        "paused = false\npause_until = 2026-03-01T00:00:00Z",
        "schedules[a].pause_until: means nothing unless 'paused' is true",
    ),
    ("capacity = 3", "schedules[a].capacity: means nothing without 'capacity_group'"),
]


@pytest.mark.parametrize(("lines", "problem"), REFUSALS)
def test_a_refusal_names_the_schedule_the_key_the_value_and_the_way_out(tmp_path, lines, problem):
    head = "" if lines.startswith("id") else 'id = "a"\n'
    assert problems(tmp_path, f"[[schedules]]\n{head}{lines}\n") == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[schedules]]\ncron = '* * * * *'", "schedules[1].id: is missing"),
        ("[[schedules]]\nid = 'a'\n[[schedules]]\nid = 'a'", "schedules[a].id: is used twice"),
        (
            "[[schedules]]\nschedule_id = 'a'\ncron_expr = '* * * * *'\nversion = 1",
            "schedules: this is a file for `dutiful plan`; here they have `id` and `cron`",
        ),
        ("schedules = 5", "schedules: write it as [[schedules]] tables"),
        ("schedules = [1]", "schedules: write it as [[schedules]] tables"),
        ("[schedules]\nid = 'a'", "schedules: write it as [[schedules]] tables"),
        ("[outages]", "outages: write it as [[outages]] tables"),
        ("[[outages]]\nfor = '1h'", "outages[1].from: is missing"),
        ("[[outages]]\nfrom = 2026-03-01T06:00:00Z", "outages[1].for: is missing"),
        (
            "[[outages]]\nfrom = 2026-03-01T06:00:00Z\nfor = '1h'\nkind = 'nap'",
            "outages[1].kind: 'nap': choose from crash, suspend",
        ),
        (
            "outages = [{from=2026-03-02T06:00:00Z, for='1h'}, {from=2026-03-01T06:00:00Z, for='25h'}]",
            "outages[1].from: lies within outages[2]",
        ),
        ("version = 1", "version: unknown key (known: outages, schedules)"),
        (
            "[[schedules]]\nid = 'a'\ncorn = '* * * * *'",
            f"schedules[a].corn: unknown key (known: {', '.join(sorted(SCHEDULE_KEYS))})",
        ),
        (
            "[[outages]]\nfrom = 2026-03-01T06:00:00Z\nfor = '1h'\ntill = 5",
            f"outages[1].till: unknown key (known: {', '.join(sorted(OUTAGE_KEYS))})",
        ),
    ],
)
def test_what_is_wrong_with_the_file_as_a_whole_is_refused(tmp_path, text, problem):
    assert problems(tmp_path, text) == [problem]


def test_everything_wrong_is_said_at_once(tmp_path):
    text = """
        [[outages]]
        from = "noon"
        [[outages]]
        for = "1x"
        [[schedules]]
        id = "first"
        cron = "0 25 * * *"
        timezone = "Mars/Olympus"
        gap = 5
        grace = "soon"
        takes = "long"
        fails_every = 0
        colour = "red"
        [[schedules]]
        every = "1h"
        [[schedules]]
        id = "first"
    """
    assert [problem.partition(": ")[0] for problem in problems(tmp_path, text)] == [
        "outages[1].from",
        "outages[1].for",
        "outages[2].from",
        "outages[2].for",
        "schedules[first].colour",
        "schedules[first].timezone",
        "schedules[first].gap",
        "schedules[first].cron",
        "schedules[first].grace",
        "schedules[first].takes",
        "schedules[first].fails_every",
        "schedules[2].id",
        "schedules[first].id",
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"[[schedules]\nid = 1",
        b"\xff\xfe",
        b"x = " + b"9" * 5000,
        b"x = " + b"[" * 20_000,
        b"x = 2026-13-01T00:00:00Z",
        b"id = 1\nid = 2",
    ],
    ids=["syntax", "not UTF-8", "huge number", "deep nesting", "no such month", "a key twice"],
)
def test_a_text_that_is_not_toml_is_refused(tmp_path, content):
    path = tmp_path / "schedules.toml"
    path.write_bytes(content)
    with pytest.raises(ScheduleFileError) as caught:
        read_schedule_file(path)
    assert len(caught.value.details["problems"]) == 1


@pytest.mark.parametrize("name", ["missing.toml", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name):
    with pytest.raises(ScheduleFileError) as caught:
        read_schedule_file(tmp_path / name)
    assert caught.value.details["path"] == str(tmp_path / name)
