"""Tables of a fleet: times as people read them, and widths that hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.yardstick import takes_less_than

from dutiful.cli.fleet_display import Tables, _Reader, span, table
from dutiful.fleet.run.output_log import RunLog

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (None, ""),
        (NOW, "13:00:00 now"),
        (NOW + timedelta(seconds=9), "13:00:09 in 9 s"),
        (NOW + timedelta(minutes=3, seconds=59), "13:03:59 in 3 min"),
        (NOW - timedelta(minutes=2), "12:58:00 2 min ago"),
        (NOW + timedelta(hours=11), "2026-03-09 00:00 in 11 h"),
        (NOW - timedelta(days=40), "2026-01-27 13:00 40 d ago"),
    ],
)
def test_times_are_those_of_the_reader_and_how_far_away_they_are(at, shown):
    tables = Tables(NOW, ZoneInfo("Europe/Berlin"), 80)
    assert tables._at(None if at is None else at.isoformat()) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0.0 s"), (0.25, "0.2 s"), (59, "59 s"), (3599, "59 min"), (7200, "2 h"), (90_000, "1 d")],
)
def test_spans_have_one_unit(seconds, shown):
    assert span(timedelta(seconds=seconds)) == shown


def test_a_table_that_fits_has_one_line_for_each_row():
    assert table(["name", "said"], [["a/b", "hello"], ["longer/name", ""]], 80) == (
        "name         said\na/b          hello\nlonger/name"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_sentence_is_cut(width):
    rows = [["agent-" + "x" * 128, "14:03:22 in 3 min", "word " * 30 + "y" * 100]] * 3
    drawn = table(["schedule", "due", "detail"], rows, width)
    assert max(map(len, drawn.splitlines())) <= width
    assert (drawn.count("y"), drawn.count("word")) == (300, 90)


def test_the_status_has_shapes_and_words_figures_to_the_right_and_the_zone_in_its_heads():
    counts = {"max_concurrent": 2, "schedules": 3, "failing": 0, "done": 1200, "failed": 0}
    job = {"agent": "writer", "schedule": "digest", "trigger": "interval", "output": "page 3"}
    found = {
        "file": "fleet.yaml", "status": "running", "started_at": None, "problem": None, "stall": None,
        "agents": [
            {"name": "writer", "running": 1, **counts},
            {"name": "coder", "running": 0, **counts, "done": 7, "failing": 1},
            {"name": "idler", "running": 0, **counts, "done": 0},
        ],
        "jobs": [{**job, "started_at": "2026-03-08T11:59:00Z"}],
    }  # fmt: skip
    assert Tables(NOW, ZoneInfo("Europe/Berlin"), None).status(found).splitlines() == [
        "fleet.yaml: running",
        "",
        "agent   state      jobs    schedules  failing   done  failed",
        "writer  ▶ running  1 of 2          3        0  1,200       0",
        "coder   ✕ failing  0 of 2          3        1      7       0",
        "idler   ○ idle     0 of 2          3        0      0       0",
        "",
        "job            state      trigger   since (Europe/Berlin)  latest output",
        "writer/digest  ▶ running  interval  12:59:00 1 min ago     page 3",
    ]
    assert "\x1b[36m▶ running" in Tables(NOW, UTC, None, colour=True).status(found)


def test_schedules_and_runs_have_the_id_first_and_their_state_as_shape_and_word():
    idle = {"agent": "a", "status": "idle", "last_error": None, "problem": None, "skip_reason": "not_due"}
    times = {"skipped_since": "2026-03-08T11:00:00Z", "last_run_at": "2026-03-08T11:00:00Z"}
    each = {**idle, **times, "next_run_at": None, "when": "every hour from completion"}
    found = [
        {**each, "schedule": "well"},
        {**each, "schedule": "ill", "last_error": "no disk"},
        {**each, "schedule": "off", "status": "disabled", "skip_reason": "disabled"},
        {**each, "schedule": "new", "last_run_at": None, "skipped_since": None},
        {**each, "schedule": "odd", "problem": "cron: 61", "skip_reason": "quarantined"},
    ]
    odd = "a/odd     ! set aside  every hour from completion  11:00:00 1 h ago"
    assert Tables(NOW, UTC, None).schedules(found).splitlines() == [
        "schedule  state        when                        last (UTC)        next (UTC)  reason",
        "a/well    ▮ ran        every hour from completion  11:00:00 1 h ago              not_due",
        "a/ill     ✕ failed     every hour from completion  11:00:00 1 h ago              not_due",
        "a/off     ‖ disabled   every hour from completion  11:00:00 1 h ago              disabled for 1 h",
        "a/new     ○ to come    every hour from completion                                not_due",
        f"{odd}              quarantined for 1 h",
        "",
        "schedule  last error",
        "a/ill     no disk",
        "a/odd     cron: 61",
    ]
    run = {
        "agent": "a", "run_until": None, "ticks": 1, "trigger": "schedule", "status": "SUCCESS",
        "run_at": "2026-03-08T10:00:00Z", "started_at": "2026-03-08T10:00:00Z", "reason": None,
        "ended_at": "2026-03-08T10:02:00Z", "detail": None,
    }  # fmt: skip
    failed = {"status": "FAILED", "reason": "task_failed", "detail": "no disk", "trigger": "manual"}
    runs = [{**run, "schedule": "s", "run": 12}, {**run, "schedule": "t", "run": 3, **failed}]
    assert Tables(NOW, UTC, None).history(runs).splitlines() == [
        "schedule  due (UTC)         state      run  trigger   reason        took  detail",
        "a/s       10:00:00 2 h ago  ▮ SUCCESS   12  schedule               2 min",
        "a/t       10:00:00 2 h ago  ✕ FAILED     3  manual    task_failed  2 min  no disk",
    ]


def test_what_jobs_print_cannot_command_the_terminal():
    assert table(["said"], [["\x1b[2Jgone\x07[bold]"]], 80) == "said\n\\x1b[2Jgone\\x07[bold]"


def test_a_stretch_of_skipped_occurrences_is_one_row():
    run = {
        "agent": "a", "schedule": "s", "run": None,
        "run_at": "2026-03-08T10:00:00Z", "run_until": "2026-03-08T11:00:00Z", "ticks": 61, "trigger": "x",
        "status": "SKIPPED", "reason": "at_capacity", "started_at": None, "ended_at": None, "detail": None,
    }  # fmt: skip
    _, row = Tables(NOW, UTC, 200).history([run]).splitlines()
    assert row.strip().split("  ")[0] == "10:00:00 2 h ago and 60 more until 11:00:00 1 h ago"


def test_five_thousand_schedules_are_drawn_quickly_on_a_narrow_terminal():
    at = {"last_run_at": "2026-03-07T11:00:00Z", "next_run_at": "2026-03-09T11:00:00Z"}
    skipped = {"status": "idle", "skip_reason": "not_due", "skipped_since": "2026-03-08T11:00:00Z"}
    failed = {"last_error": "exit code 3: no luck", "problem": None}
    said = {"when": "every hour from completion"}
    found = [{"agent": "a", "schedule": f"s{n}", **at, **skipped, **failed, **said} for n in range(5000)]
    with takes_less_than(200):
        drawn = Tables(NOW, UTC, 80).schedules(found).splitlines()
    assert max(map(len, drawn)) <= 80
    assert (len(drawn), drawn[-1]) == (15_004, "a/s4999   exit code 3: no luck")


def test_followed_output_shows_characters_that_were_written_in_pieces_and_survives_a_rename(tmp_path, capsys):
    path = tmp_path / "1.0.schedule.log"
    path.write_bytes("costs 5 €".encode()[:-1])
    reader = _Reader(RunLog(1, 0, "schedule", path))
    reader.print_new()
    with path.open("ab") as opened:
        opened.write("€".encode()[-1:] + b" a day")
    path.rename(tmp_path / "1.0.schedule.log.old")
    reader.print_new()
    path.write_bytes(b"\n")
    reader.print_new()
    reader.close()
    assert capsys.readouterr().out == "costs 5 € a day\n"
