"""Whatever is put together from the words of a fleet file is read or refused; nothing else happens."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fleet.file.malformed import GOOD

from dutiful.fleet import Fleet, FleetConfigError, agent_from, load_fleet
from dutiful.fleet.file.agents import AGENT_KEYS, SCHEDULE_KEYS, problems_of_schedule
from dutiful.fleet.file.config import FLEET_KEYS
from dutiful.fleet.types import Agent

texts = st.sampled_from(
    [
        "",
        "a",
        "1",
        "0",
        "true",
        "5m",
        "0 9 * * *",
        "@daily",
        "interval",
        "cron",
        "chat",
        "${X}",
        "${Y:-z}",
        "${",
        "*",
    ]
)
scalars = texts | st.none() | st.booleans() | st.integers(-1, 11) | st.floats()
anything = st.recursive(
    scalars, lambda below: st.lists(below, max_size=2) | st.dictionaries(texts, below, max_size=2)
)


def documents(keys, **below):
    """Return mappings with some of these keys, or something else altogether."""
    entries = {key: below.get(key, anything) for key in (*keys, "stranger")}
    return st.fixed_dictionaries({}, optional=entries) | anything


schedules = st.dictionaries(st.sampled_from(["s", "t", "bad name"]), documents(SCHEDULE_KEYS), max_size=2)
agents = documents(
    [*AGENT_KEYS, "path", "overrides"], schedules=schedules | anything, path=st.just("own.yaml")
)
fleets = documents(FLEET_KEYS, version=st.just("1"), agents=st.lists(agents, max_size=2), defaults=agents)
whatever = settings(suppress_health_check=[*HealthCheck], deadline=None)


def outcome(read, *arguments):
    """Return what was read, or the problems for which it was refused."""
    try:
        return read(*arguments)
    except FleetConfigError as error:
        return [str(problem) for problem in error.problems]


@whatever
@given(fleets, agents)
def test_a_fleet_is_read_or_refused(tmp_path, fleet, own):
    (tmp_path / "fleet.yaml").write_text(json.dumps(fleet), encoding="utf-8")
    (tmp_path / "own.yaml").write_text(json.dumps(own), encoding="utf-8")
    found = outcome(load_fleet, tmp_path / "fleet.yaml", {"X": "secret"})
    assert isinstance(found, Fleet) or (found and "secret" not in "".join(found))


@whatever
@given(agents)
def test_an_agent_is_read_or_refused(document):
    found = outcome(agent_from, document)
    assert found
    if isinstance(found, Agent):
        problems = [problem for s in found.schedules.values() for problem in problems_of_schedule(s)]
        assert all(problem.message for problem in problems)


@whatever
@given(st.integers(0, len(GOOD)), st.text("[]{}:,-?*&!|>'\"%@` \n\t#<$", max_size=4), st.integers(0, 9))
def test_a_good_file_with_a_slip_in_it_is_read_or_refused(tmp_path, place, slip, lost):
    path = tmp_path / "fleet.yaml"
    path.write_text(GOOD[:place] + slip + GOOD[place + lost :], encoding="utf-8")
    found = outcome(load_fleet, path, {})
    assert isinstance(found, Fleet) or all(problem.startswith(str(path)) for problem in found)


@pytest.mark.parametrize("end", range(0, len(GOOD), 7))
def test_a_file_that_was_cut_off_is_read_or_refused(tmp_path, end):
    path = tmp_path / "fleet.yaml"
    path.write_text(GOOD[:end], encoding="utf-8")
    assert outcome(load_fleet, path, {})
