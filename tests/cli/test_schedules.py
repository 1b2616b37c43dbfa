"""`dutiful schedules` against a service that really listens."""

from __future__ import annotations

import csv
import json

import pytest
from click.testing import CliRunner
from tests.web.running import SCHEDULE, running

from dutiful.cli.main import cli


@pytest.fixture
def service(tmp_path):
    with running(tmp_path) as it:
        it.put("/workflows/report/1", {})
        it.upsert()
        yield it


def asking(service):
    """Return how to run a command: (exit code, standard output, standard error)."""

    def run(*arguments, **options):
        environ = {"DUTIFUL_URL": service.url, "DUTIFUL_TOKEN": ""}
        result = CliRunner().invoke(cli, ["schedules", *arguments], env=environ, **options)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


def test_the_list_shows_when_schedules_fire_next_and_why_they_do_not(service):
    service.upsert(schedule_id="weekly", cron_expr="0 6 * * 1", timezone="Europe/Berlin")
    pause = {"schedule_id": "weekly", "paused": True, "note": "ask Ada"}
    service.post("/schedules/pause", pause)
    code, shown, _ = asking(service)("list")
    assert (code, shown.splitlines()) == (
        0,
        [
            "schedule  state      when                         last (UTC)  next (UTC)          reason",
            "nightly   ○ to come  At 09:30, UTC                -           09:30:00 in 30 min",
            "weekly    ‖ paused   At 06:00, on Monday, Berlin  -           -                   ask Ada",
        ],
    )


def test_the_list_is_filtered_and_says_that_there_is_more(service):
    ask = asking(service)
    service.upsert(schedule_id="weekly", user_id="bob", labels={"team": "red"})
    for options in (["--user", "bob"], ["--label", "team=red"]):
        assert ask("list", *options)[1].splitlines()[1:] == [
            "weekly    ○ to come  At 09:30, UTC  -           09:30:00 in 30 min"
        ]
    assert ask("list", "--paused")[1] == "No schedule matches.\n"
    assert len(ask("list", "--active", "--workflow", "report")[1].splitlines()) == 3
    _, shown, more = ask("list", "--limit", "1")
    assert (len(shown.splitlines()), more.startswith("There are more: --cursor ")) == (2, True)
    cursor = more.split()[-1]
    assert ask("list", "--cursor", cursor)[1].splitlines()[1].startswith("weekly")


def test_one_schedule_with_its_next_fire_times(service):
    code, shown, _ = asking(service)("show", "nightly")
    lines = shown.splitlines()
    assert code == 0
    assert lines[0] == "what runs"
    # The width of the names follows the longest of all keys.
    assert [line.split() for line in lines[1:5]] == [
        *(["schedule_id", "nightly"], ["workflow_id", "report"], ["version", "1"], ["user_id", "ada"]),
    ]
    assert [line for line in lines if line[0] != " "] == [
        *("what runs", "when", "state", "when life interferes", "next fire times")
    ]
    assert lines[-6:-4] == ["next fire times", "  Mon 2026-03-02 09:30:00 +00:00"]


@pytest.mark.parametrize(
    ("arguments", "path", "query"),
    [
        (["list"], "/schedules", {}),
        (["show", "nightly"], "/schedules/nightly", {}),
        (["next", "nightly", "-n", "7"], "/schedules/nightly/next", {"count": 7}),
        (["runs", "nightly"], "/schedules/nightly/runs", {}),
        (
            ["explain", "nightly", "2026-03-02T09:30"],
            "/schedules/nightly/explain",
            {"at": "2026-03-02T09:30:00Z"},
        ),
    ],
)
def test_json_is_what_the_service_answers(service, arguments, path, query):
    code, shown, _ = asking(service)(*arguments, "--json")
    assert (code, json.loads(shown)) == (0, service.get(path, **query))


def test_an_explanation_lists_the_checks_of_the_tick(service):
    service.advance(1801)
    code, shown, _ = asking(service)("explain", "nightly", "2026-03-02T09:30")
    assert (code, shown.splitlines()) == (
        0,
        [
            "nightly at 2026-03-02T09:30:00Z is SUCCESS",
            "check               passed  fact",
            "A tick of the cron  yes     09:30 in UTC",
            "In its window       yes     it has no start and no end",
            "Not paused          yes     it runs",
            "In time             yes     0 ms late, 60 s allowed",
            "No run in the way   yes     overlap=skip",
            "Room for it         yes     no limit",
            "Executor took it    yes     attempt 1",
            "Task succeeded      yes     after 0 ms",
        ],
    )


def test_pausing_and_resuming(service):
    ask = asking(service)
    assert ask("pause", "nightly", "--note", "ask Ada") == (0, "nightly is paused\n", "")
    assert service.get("/schedules/nightly")["pause_note"] == "ask Ada"
    assert ask("resume", "nightly") == (0, "nightly is active\n", "")
    assert service.get("/schedules/nightly")["paused"] is False


def test_deleting_asks_first(service):
    ask = asking(service)
    assert ask("delete", "nightly", input="n\n")[0] == 1
    assert service.get("/schedules/nightly")
    assert ask("delete", "nightly", "--yes") == (0, "nightly is deleted\n", "")
    assert service.get("/schedules")["schedules"] == []
    assert ask("list")[1] == "There are no schedules yet; `dutiful schedules upsert FILE` adds some.\n"


def test_upserting_one_many_and_from_standard_input(service, tmp_path):
    ask, file = asking(service), tmp_path / "schedules.json"
    file.write_text(json.dumps({**SCHEDULE, "schedule_id": "one"}))
    assert ask("upsert", str(file)) == (0, "schedule  next (UTC)\none       2026-03-02T09:30:00Z\n", "")
    many = json.dumps([{**SCHEDULE, "schedule_id": name} for name in ("two", "three")])
    assert ask("upsert", "-", input=many)[0] == 0
    assert [view["schedule_id"] for view in service.get("/schedules")["schedules"]] == [
        *("nightly", "one", "three", "two")
    ]


def test_a_file_that_is_not_json_is_refused(service):
    code, _, error = asking(service)("upsert", "-", input="schedules:\n")
    assert (code, "Error: Invalid FILE '<stdin>': is not JSON: Expecting value" in error) == (2, True)


def test_what_the_service_refuses_is_reported_with_its_reason(service):
    wrong = json.dumps({**SCHEDULE, "cron_expr": "61 * * * *"})
    code, _, error = asking(service)("upsert", "-", input=wrong)
    assert code == 2
    assert error.startswith('Error: Invalid cron expression "61 * * * *": minute field')


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "nigthly"],
        ["next", "nigthly"],
        ["runs", "nigthly"],
        ["explain", "nigthly", "2026-03-02"],
        ["pause", "nigthly"],
        ["resume", "nigthly"],
        ["delete", "nigthly", "--yes"],
        ["trigger", "nigthly"],
        ["backfill", "nigthly", "--from", "2026-03-01", "--to", "2026-03-02"],
    ],
)
def test_an_unknown_id_is_reported_with_the_nearest_one(service, arguments):
    assert asking(service)(*arguments) == (
        2,
        "",
        'Error: There is no schedule "nigthly"; did you mean nightly?\n',
    )


def test_an_id_that_is_like_no_other_leads_to_the_list(service):
    _, _, error = asking(service)("show", "zzz")
    assert error == 'Error: There is no schedule "zzz"; `dutiful schedules list` shows what there is\n'


def test_a_run_by_hand_a_backfill_and_their_history(service):
    ask = asking(service)
    code, shown, _ = ask("trigger", "nightly")
    assert (code, shown.startswith("nightly runs as ")) == (0, True)
    past = ["--from", "2026-02-28", "--to", "2026-03-02", "--overlap", "allow"]
    assert ask("backfill", "nightly", *past)[1] == "2 ticks will run, 0 were recorded already\n"
    service.advance(5)
    lines = ask("runs", "nightly")[1].splitlines()
    assert lines == [
        "tick (UTC)           state      trigger   attempt  reason  detail",
        "2026-03-02 09:00:00  ▲ SUCCESS  manual          1",
        "2026-03-01 09:30:00  ▯ SUCCESS  backfill        1",
        "2026-02-28 09:30:00  ▯ SUCCESS  backfill        1",
    ]


def test_a_pause_may_have_an_end(service):
    ask = asking(service)
    said = "nightly is paused until 2026-03-02T12:00:00+00:00\n"
    assert ask("pause", "nightly", "--note", "moves", "--until", "2026-03-02T12:00")[:2] == (0, said)
    assert service.get("/schedules/nightly")["pause_until"] == "2026-03-02T12:00:00Z"
    code, _, error = ask("pause", "nightly", "--until", "2026-03-01T12:00Z")
    assert (code, "is not in the future" in error) == (2, True)
    assert ask("resume", "nightly")[1] == "nightly is active\n"
    assert service.get("/schedules/nightly")["pause_until"] is None


def test_a_time_that_is_none_is_refused_before_anything_is_asked(service):
    code, _, error = asking(service)("explain", "nightly", "yesterday")
    assert (code, error.startswith("Error: Invalid TIME 'yesterday': write ISO 8601, ")) == (2, True)


def test_no_service_at_the_address_is_reported_with_the_way_out():
    result = CliRunner().invoke(cli, ["schedules", "list"], env={"DUTIFUL_URL": "http://127.0.0.1:1"})
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: No service answers at http://127.0.0.1:1 (")
    assert result.stderr.endswith("): start it with `dutiful serve`, or set DUTIFUL_URL\n")


def test_the_soonest_come_first_with_their_distance_and_how_they_went(service):
    service.put("/workflows/broken/1", {"fail": "disk full"})
    service.upsert(schedule_id="broken", workflow_id="broken", cron_expr="15 * * * *")
    service.advance(1801)
    ask = asking(service)
    shown = ask("list", "--soonest")[1].splitlines()
    assert shown == [
        "schedule  state     when                             last (UTC)  next (UTC)           reason",
        "broken    ✕ failed  At minute 15 of every hour, UTC  09:15:00    10:15:00 in 44 min   task_failed",
        "nightly   ▮ ran     At 09:30, UTC                    09:30:00    03-03 09:30 in 23 h",
    ]
    assert [one["schedule_id"] for one in json.loads(ask("list", "--soonest", "--json")[1])["schedules"]] == [
        *("broken", "nightly")
    ]
    assert ask("list", "--soonest", "--workflow", "broken")[1].splitlines()[1:] == [
        "broken    ✕ failed  At minute 15 of every hour, UTC  09:15:00    10:15:00 in 44 min  task_failed"
    ]
    assert ask("list", "--soonest", "--paused")[0] == 2


def test_a_range_of_skipped_ticks_is_one_line(service):
    service.upsert(schedule_id="often", cron_expr="*/10 * * * *")
    service.post("/schedules/pause", {"schedule_id": "often", "paused": True})
    service.advance(1801)
    ask = asking(service)
    assert ask("runs", "often")[1].splitlines()[1:] == [
        "2026-03-02 09:10:00 to 09:30:00, 3 ticks  ◇ SKIPPED  schedule        0  paused"
    ]
    assert (
        ask("find-runs", "--status", "SKIPPED")[1]
        .splitlines()[1]
        .startswith("often     ◇ SKIPPED  2026-03-02 09:10:00 to 09:30:00, 3 ticks  paused  ")
    )


def test_lists_are_printed_as_csv_with_names_first(service):
    service.upsert(schedule_id="weekly", labels={"team": "red"})
    service.advance(1801)
    ask = asking(service)
    listed = [*csv.DictReader(ask("list", "--csv")[1].splitlines())]
    assert [(one["schedule_id"], one["paused"], one["labels"]) for one in listed] == [
        ("nightly", "false", "{}"),
        ("weekly", "false", '{"team": "red"}'),
    ]
    for command in (["runs", "nightly", "--csv"], ["find-runs", "--csv", "--limit", "1"]):
        [run] = csv.DictReader(ask(*command)[1].splitlines())
        assert (run["run_at"], run["status"], run["reason"]) == ("2026-03-02T09:30:00Z", "SUCCESS", "")
    [soon, _] = csv.DictReader(ask("list", "--soonest", "--csv")[1].splitlines())
    assert (soon["schedule_id"], soon["state"], soon["next_run_at"]) == (
        *("nightly", "ran", "2026-03-03T09:30:00Z"),
    )
    assert ask("next", "nightly", "-n", "1", "--csv")[1] == "schedule_id,at\nnightly,2026-03-03T09:30:00Z\n"
    [shown] = csv.DictReader(ask("show", "nightly", "--csv")[1].splitlines())
    assert (shown["cron_expr"], len(json.loads(shown["preview"]))) == ("30 9 * * *", 5)
    [why] = csv.DictReader(ask("explain", "nightly", "2026-03-02T09:30", "--csv")[1].splitlines())
    assert why["text"] == service.get("/schedules/nightly/explain", at="2026-03-02T09:30:00Z")["text"]


@pytest.mark.parametrize(
    ("dag", "code", "said"),
    [
        ({}, 0, "2 backfilled ticks ended, 0 failed\n"),
        ({"fail": "no such table"}, 1, "2 backfilled ticks ended, 2 failed\n"),
    ],
)
def test_a_backfill_is_waited_for_and_says_how_its_runs_ended(service, dag, code, said):
    service.put("/workflows/report/1", dag, replace=True)
    past = ["--from", "2026-02-27", "--to", "2026-03-01", "--wait"]
    shown = asking(service)("backfill", "nightly", *past)
    assert shown == (code, "2 ticks will run, 0 were recorded already\n", said)


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "ä", "x" * 257])
def test_a_key_that_no_header_can_carry_is_bad_usage(service, key):
    code, _, said = asking(service)("trigger", "nightly", "--key", key)
    assert (code, "write 1 to 256 visible ASCII characters" in said) == (2, True)
    assert service.get("/schedules/nightly/runs")["runs"] == []
