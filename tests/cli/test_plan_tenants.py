"""`dutiful plan` and `dutiful apply` with the tokens of users and of a deployer that acts for some."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.web import test_tenants
from tests.web.running import SCHEDULE

from dutiful.cli.main import cli

guarded = test_tenants.guarded
OF_ADA = {**SCHEDULE, "labels": {"team": "red"}}
OF_BOB = {**OF_ADA, "schedule_id": "hourly", "user_id": "bob"}


@pytest.fixture
def run(guarded):
    """How a user with these rights runs a command on schedules: exit code, output, errors."""

    def run(user, act_as, schedules, *arguments):
        token = test_tenants.token(user, "read write", act_as)
        environ = {"DUTIFUL_URL": guarded.url, "DUTIFUL_TOKEN": token}
        result = CliRunner().invoke(cli, arguments, env=environ, input=json.dumps(schedules))
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.mark.parametrize("act_as", [["ada", "bob"], ["*"]])
def test_a_deployer_prunes_the_schedules_of_the_users_it_acts_for(run, act_as):
    other = {**OF_ADA, "schedule_id": "other"}
    assert run("deployer", act_as, [OF_ADA, other, OF_BOB], "apply", "-", "--yes")[0] == 0
    code, shown, _ = run("deployer", act_as, [OF_ADA, OF_BOB], "apply", "-", "--yes", "--prune", "team=red")
    assert (code, shown.splitlines()[-1]) == (0, "applied: 0 new, 0 changed, 1 deleted")
    assert (
        "nothing changes" in run("deployer", act_as, [OF_ADA, OF_BOB], "plan", "-", "--prune", "team=red")[1]
    )


def test_a_user_prunes_no_schedules_of_others(run):
    assert run("deployer", ["ada", "bob"], [OF_ADA, OF_BOB], "apply", "-", "--yes")[0] == 0
    assert "nothing changes" in run("ada", [], [OF_ADA], "plan", "-", "--prune", "team=red")[1]


@pytest.mark.parametrize("command", [["plan", "-"], ["apply", "-", "--yes"]])
def test_what_a_user_may_not_do_is_told_with_the_place_in_the_file(run, command):
    code, _, told = run("ada", [], [OF_ADA, OF_BOB], *command)
    assert (code, told.partition(";")[0]) == (
        2,
        "Error: -: schedules[hourly]: You may not act for the user 'bob'",
    )
