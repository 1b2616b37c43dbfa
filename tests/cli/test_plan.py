"""`dutiful plan` and `dutiful apply` against a service that really listens."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner
from tests.web.running import SCHEDULE, running

from dutiful.cli import plan
from dutiful.cli.main import cli

NIGHTLY = """
[[schedules]]
schedule_id = "nightly"
workflow_id = "report"
version = 1
user_id = "ada"
cron_expr = "30 9 * * *"
labels = {team = "red"}
"""
WEEKLY = NIGHTLY.replace("nightly", "weekly").replace("30 9 * * *", "0 6 * * 1")
LATER = NIGHTLY.replace("30 9", "0 10")


@pytest.fixture
def service():
    with running(None) as it:
        it.put("/workflows/report/1", {})
        yield it


@pytest.fixture
def run(service, tmp_path):
    """How to run a command on files of these texts: exit code, standard output, standard error."""

    def run(command, *options, given=None, **texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
        environ = {"DUTIFUL_URL": service.url, "DUTIFUL_TOKEN": ""}
        arguments = [command, *(f"{tmp_path}/{name}.toml" for name in texts), *options]
        result = CliRunner().invoke(cli, arguments, env=environ, input=given)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr.replace(f"{tmp_path}/", "")

    return run


def test_a_plan_says_what_is_new_what_changes_and_which_fire_times_and_stores_nothing(service, run):
    run("apply", "--yes", a=NIGHTLY + WEEKLY)
    monday = "Mon 2026-03-02"
    moved = f"499 moved until 2027-07-14; first {monday} 09:30:00 +00:00 moves to {monday} 10:00:00 +00:00"
    code, shown, _ = run("plan", a=LATER, b=WEEKLY + NIGHTLY.replace("nightly", "other"))
    assert (code, shown.splitlines()) == (
        0,
        [
            "schedule  plan       settings   fire times",
            f"nightly   change     cron_expr  {moved}",
            "other     new                   At 09:30, in UTC; first Mon 2026-03-02 09:30:00 +00:00",
            "weekly    unchanged             unchanged",
            "1 new, 1 to change, 0 to delete, 1 unchanged",
        ],
    )
    assert {one["schedule_id"] for one in service.get("/schedules")["schedules"]} == {"nightly", "weekly"}


def test_fire_times_that_are_added_and_removed_are_counted_and_the_first_difference_is_reported(run):
    run("apply", "--yes", a=WEEKLY)
    shown = run("plan", a=WEEKLY.replace("* * 1", "* * 1-2"))[1]
    assert "added until" in shown
    assert "first Tue 2026-03-03 06:00:00 +00:00 is new" in shown
    run("apply", "--yes", a=WEEKLY.replace("* * 1", "* * 1-2"))
    assert "first Tue 2026-03-03 06:00:00 +00:00 goes" in run("plan", a=WEEKLY)[1]


def test_a_change_without_another_fire_time_says_so(run):
    run("apply", "--yes", a=NIGHTLY)
    shown = run("plan", a=NIGHTLY + 'overlap_policy = "queue"\n')[1]
    assert shown.splitlines()[1].split() == ["nightly", "change", "overlap_policy", "unchanged"]


def test_a_plan_warns_of_odd_cron_texts_and_of_runs_that_would_fail(run):
    shown = run("plan", a=NIGHTLY.replace("30 9 * * *", "0 9 1 * 1").replace('"report"', '"other"'))[1]
    assert "warning: nightly: the workflow is not stored" in shown
    assert shown.count("warning: nightly: ") == 2


def test_what_is_odd_about_a_text_that_is_stored_is_told_no_more_but_why_its_runs_would_fail_is(run):
    odd = NIGHTLY.replace("30 9 * * *", "0 9 1 * 1").replace('"report"', '"other"')
    assert run("apply", "--yes", a=odd)[1].count("warning: nightly: ") == 2
    told = "runs fail with unknown_workflow until PUT /workflows/other/1"
    warnings = [line for line in run("plan", a=odd)[1].splitlines() if line.startswith("warning")]
    assert warnings == [f"warning: nightly: the workflow is not stored: {told}"]


def test_a_check_exits_with_1_while_anything_would_change(run):
    assert run("plan", "--check", a=NIGHTLY)[0] == 1
    assert run("apply", "--yes", a=NIGHTLY)[0] == 0
    code, shown, _ = run("plan", "--check", a=NIGHTLY)
    assert (code, shown.splitlines()[-1]) == (0, "nothing changes: 1 schedule as in the files")


def test_to_apply_twice_changes_nothing_and_asks_nothing_the_second_time(service, run):
    code, shown, asked = run("apply", a=NIGHTLY, given="y\n")
    assert (code, shown.splitlines()[-1], asked) == (
        0,
        "applied: 1 new, 0 changed, 0 deleted",
        "Apply these changes? [y/N]: y\n",
    )
    stored = service.get("/schedules/nightly")
    service.advance(60)
    code, shown, asked = run("apply", a=NIGHTLY)
    assert (code, shown.splitlines()[-1], asked) == (0, "nothing changes: 1 schedule as in the files", "")
    assert service.get("/schedules/nightly") == stored


@pytest.mark.parametrize("given", ["n\n", ""])
def test_nothing_is_stored_without_a_yes(service, run, given):
    assert run("apply", a=NIGHTLY, given=given)[0] == 1
    assert service.get("/schedules")["schedules"] == []


def test_one_schedule_that_the_service_refuses_leaves_all_as_they_were(service, run):
    code, _, told = run("plan", a=NIGHTLY, b=WEEKLY + 'executor = "command:true"\n')
    assert code == 0, told
    code, _, told = run("apply", "--yes", a=NIGHTLY, b=WEEKLY.replace('"ada"', '"a\\u0000b"'))
    assert (code, service.get("/schedules")["schedules"]) == (2, [])


def test_a_pause_of_an_operator_survives_an_apply(service, run):
    run("apply", "--yes", a=NIGHTLY)
    service.post("/schedules/pause", {"schedule_id": "nightly", "paused": True, "note": "ask Ada"})
    assert "nothing changes" in run("plan", a=NIGHTLY)[1]
    run("apply", "--yes", a=LATER)
    stored = service.get("/schedules/nightly")
    assert (stored["cron_expr"], stored["paused"], stored["pause_note"]) == ("0 10 * * *", True, "ask Ada")


def test_a_pause_in_a_file_is_told_beside_the_fire_times(run):
    paused = NIGHTLY + "paused = true\n"
    first = "At 09:30, in UTC; first Mon 2026-03-02 09:30:00 +00:00"
    assert f"new             {first}; none fires while it is paused" in run("apply", "--yes", a=paused)[1]
    assert "unchanged            unchanged" in run("plan", a=paused)[1]
    assert "change  paused    unchanged; resumed" in run("plan", a=NIGHTLY + "paused = false\n")[1]
    run("apply", "--yes", a=NIGHTLY + "paused = false\n")
    assert "change  paused    unchanged; none fires while it is paused" in run("plan", a=paused)[1]


def test_a_plan_that_was_overtaken_is_not_applied(service, run, monkeypatch):
    run("apply", "--yes", a=NIGHTLY)

    def answer(*_, **__):
        service.upsert(cron_expr="0 11 * * *")
        return True

    monkeypatch.setattr("click.confirm", answer)
    code, _, told = run("apply", a=LATER, b=WEEKLY)
    outdated = "Error: The schedule 'nightly' was changed since it was previewed. "
    assert (code, told) == (1, f"{outdated}Nothing is stored: look at the plan again.\n")
    assert [one["cron_expr"] for one in service.get("/schedules")["schedules"]] == ["0 11 * * *"]


def test_what_no_file_has_is_deleted_only_by_its_label(service, run):
    run("apply", "--yes", a=NIGHTLY + WEEKLY)
    service.upsert(schedule_id="foreign", labels={"team": "blue"})
    assert "nothing changes" in run("plan", a=WEEKLY)[1]
    code, shown, _ = run("apply", "--prune", "team=red", "--yes", a=WEEKLY)
    assert (code, shown.splitlines()) == (
        0,
        [
            "schedule  plan       settings  fire times",
            "nightly   delete               next was Mon 2026-03-02 09:30:00 +00:00",
            "weekly    unchanged            unchanged",
            "0 new, 0 to change, 1 to delete, 1 unchanged",
            "applied: 0 new, 0 changed, 1 deleted",
        ],
    )
    assert {one["schedule_id"] for one in service.get("/schedules")["schedules"]} == {"foreign", "weekly"}


def test_a_prune_refuses_files_whose_schedules_it_would_not_find(run):
    told = run("plan", "--prune", "team=blue", a=NIGHTLY)[2]
    assert "every schedule in the files needs this label; a.toml: schedules[nightly] has it not" in told
    assert run("plan", "--prune", "team", a=NIGHTLY)[0] == 2


def test_a_schedule_to_delete_that_was_changed_meanwhile_stays(service, run, monkeypatch):
    run("apply", "--yes", a=NIGHTLY + WEEKLY)
    service.advance(1)
    monkeypatch.setattr("click.confirm", lambda *_, **__: service.upsert(labels={"team": "red"}))
    code, _, told = run("apply", "--prune", "team=red", a=WEEKLY.replace("0 6", "0 7"))
    assert (code, "was changed since the plan was made" in told) == (1, True)
    assert len(service.get("/schedules")["schedules"]) == 2
    assert service.get("/schedules/weekly")["cron_expr"] == "0 6 * * 1"


def test_deletions_that_fail_half_way_say_how_many_are_left_and_what_is_stored(service, run, monkeypatch):
    named = ["a", "b", "c", "d"]
    run("apply", "--yes", a=WEEKLY + "".join(NIGHTLY.replace("nightly", name) for name in named))
    real, deleted = plan.ask, []

    def ask(method, path, *rest, **options):
        if method == "DELETE":
            deleted.append(path)
            service.client.delete("/schedules/a")
            if len(deleted) > 2:
                raise click.ClickException("The service went away")
        return real(method, path, *rest, **options)

    monkeypatch.setattr(plan, "ask", ask)
    code, _, told = run("apply", "--prune", "team=red", "--yes", a=WEEKLY.replace("0 6", "0 7"))
    said = "The changes are stored; 2 of 4 schedules to delete are left: apply again."
    assert (code, told) == (1, f"Error: The service went away\n{said}\n")
    monkeypatch.undo()
    assert {one["schedule_id"] for one in service.get("/schedules")["schedules"]} == {"c", "d", "weekly"}
    assert service.get("/schedules/weekly")["cron_expr"] == "0 7 * * 1"


def test_json_has_the_fire_times_and_csv_a_line_for_each_schedule(run):
    code, shown, _ = run("plan", "--json", a=NIGHTLY)
    (one,) = json.loads(shown)["schedules"]
    assert (code, one["action"], len(one["added"])) == (0, "new", 499)
    assert json.loads(shown)["counts"] == {"delete": 0, "change": 0, "new": 1, "unchanged": 0}
    assert run("plan", "--csv", a=NIGHTLY)[1].startswith("schedule_id,action,changed,")
    assert json.loads(run("apply", "--json", "--yes", a=NIGHTLY)[1])["counts"]["new"] == 1


def test_a_plan_takes_json_from_standard_input(run):
    assert run("plan", "-", given=json.dumps([SCHEDULE]))[1].splitlines()[1].startswith("nightly   new")
    assert run("plan", "-", given=json.dumps({"schedules": [SCHEDULE]}))[0] == 0
    assert run("plan", "-", given=json.dumps(SCHEDULE))[0] == 0
    assert "line 2: at character 2 it is no JSON" in run("plan", "-", given="[\n,]")[2]


def test_to_apply_standard_input_needs_a_yes_in_advance(service, run):
    code, _, told = run("apply", "-", given=json.dumps([SCHEDULE]))
    assert (code, told.splitlines()[-1]) == (
        2,
        "Error: - is standard input, which cannot answer a question too: give --yes",
    )
    assert run("apply", "-", "--yes", given=json.dumps([SCHEDULE]))[0] == 0
    assert service.get("/schedules/nightly")["cron_expr"] == "30 9 * * *"


def test_a_file_may_begin_with_a_byte_order_mark(run):
    assert run("plan", a=f"\ufeff{NIGHTLY}")[0] == 0
    assert run("plan", "-", given=f"\ufeff{json.dumps(SCHEDULE)}")[0] == 0


def test_more_schedules_than_one_preview_takes_are_planned(run):
    many = "".join(NIGHTLY.replace("nightly", f"s{number}") for number in range(101))
    assert run("plan", a=many)[1].splitlines()[-1] == "101 new, 0 to change, 0 to delete, 0 unchanged"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (NIGHTLY.replace("30 9", "61 9"), "schedules[nightly].cron_expr: Invalid cron expression"),
        (NIGHTLY + 'timezone = "Mars/Phobos"\n', "schedules[nightly].timezone: Invalid timezone"),
        (NIGHTLY + 'cron = "x"\n', "schedules[nightly].cron: 'x': there is no such key; did you mean"),
        (NIGHTLY + 'jitter_ms = "1"\n', "schedules[nightly].jitter_ms: '1': must be a whole number"),
        (NIGHTLY + "start_at = 2026-03-08T02:30:00\n", "[nightly].start_at: '2026-03-08T02:30:00': must be"),
        (NIGHTLY + "retry_delay_s = 5\n", "[nightly].retry_delay_s: Invalid retry_delay_s '5.0': name a"),
        (NIGHTLY + NIGHTLY, "schedules[nightly].schedule_id: is used twice; it is also in a.toml: schedules"),
        ('[[schedules]]\nworkflow_id = "x"\n', "schedules[0].schedule_id: is missing"),
        (
            '[[schedules]]\nid = "x"\ncron = "0 9 * * *"\n',
            "schedules[0].schedule_id: is missing; this is a file for `dutiful simulate`",
        ),
        ('schedules = ["x"]\n', "schedules[0]: 'x': write an object with the keys of a schedule"),
        (f'x = 1\n{NIGHTLY}', "x: there is no such key; there is schedules"),
        ("", "schedules: write at least one"),
        ("[[schedules]\n", "at line 1"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_is_refused_with_the_place_the_value_and_what_to_write(run, text, problem):
    code, _, told = run("plan", a=text)
    assert code == 2
    assert "a.toml cannot be used:\n  " in told
    assert problem in told


def test_an_id_in_two_files_is_refused(run):
    told = run("plan", a=NIGHTLY, b=WEEKLY + NIGHTLY)[2]
    assert (
        "b.toml cannot be used:\n  schedules[nightly].schedule_id: is used twice; it is also in a.toml"
        in told
    )


def test_a_time_with_an_offset_needs_no_quotes_in_toml(service, run):
    run("apply", "--yes", a=NIGHTLY + "start_at = 2026-03-08T02:30:00Z\n")
    assert service.get("/schedules/nightly")["start_at"] == "2026-03-08T02:30:00Z"


def test_a_file_of_another_kind_and_one_that_is_not_there_are_refused(run):
    assert "name it with the suffix .toml or .json" in run("plan", "schedules.yaml")[2]
    assert "No such file" in run("plan", "none.toml")[2]


def test_explain_answers_at_the_top_as_it_does_below_schedules(service, run):
    service.upsert()
    asked = ["nightly", "2026-03-02T09:30", "--json"]
    below = CliRunner().invoke(cli, ["schedules", "explain", *asked], env={"DUTIFUL_URL": service.url})
    assert run("explain", *asked)[:2] == (0, below.stdout)
