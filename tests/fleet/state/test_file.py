"""state.yaml: kept whole, merged into, never overwritten when damaged, and left alone by failed writes."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.yardstick import takes_less_than

from dutiful.errors import InvalidArgumentError
from dutiful.fleet import (
    ScheduleState,
    StateFileError,
    get_agent_schedule_states,
    get_schedule_state,
    update_schedule_state,
)
from dutiful.fleet.state.file import read_states, signature, write_states
from dutiful.fleet.types import Problem

YARDS = 1000
NOON = datetime(2025, 1, 19, 12, 0, tzinfo=UTC)


def write(folder, text):
    (folder / "state.yaml").write_text(text, encoding="utf-8")


def content(folder):
    return yaml.safe_load((folder / "state.yaml").read_text(encoding="utf-8"))


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_schedule_nobody_has_heard_of_is_idle(tmp_path):
    assert get_schedule_state(tmp_path, "writer", "check") == ScheduleState("idle", None, None, None)
    assert get_agent_schedule_states(tmp_path, "writer") == {}
    assert names(tmp_path) == []


def test_changes_are_merged(tmp_path):
    update_schedule_state(tmp_path, "writer", "check", {"status": "running", "last_run_at": NOON})
    after = update_schedule_state(tmp_path, "writer", "check", {"status": "idle", "last_error": "no"})
    assert after == ScheduleState("idle", NOON, None, "no")
    assert get_schedule_state(str(tmp_path), "writer", "check") == after


def test_the_file_is_what_people_expect(tmp_path):
    changes = {"status": "idle", "last_run_at": NOON, "next_run_at": None, "last_error": None}
    update_schedule_state(tmp_path, "my-agent", "check-issues", changes)
    assert (tmp_path / "state.yaml").read_text() == (
        "agents:\n  my-agent:\n    schedules:\n      check-issues:\n        status: idle\n"
        "        last_run_at: '2025-01-19T12:00:00Z'\n        next_run_at: null\n        last_error: null\n"
    )


def test_the_directory_is_made(tmp_path):
    update_schedule_state(tmp_path / "a/b", "writer", "check", {"status": "disabled"})
    assert get_schedule_state(tmp_path / "a/b", "writer", "check").status == "disabled"


def test_the_states_of_one_agent_by_name(tmp_path):
    keys = [("writer", "a"), ("writer", "b"), ("reader", "a")]
    write_states(tmp_path, {key: {"last_error": "/".join(key)} for key in keys})
    assert get_agent_schedule_states(tmp_path, "writer") == {
        "a": ScheduleState(last_error="writer/a"),
        "b": ScheduleState(last_error="writer/b"),
    }


def test_what_belongs_to_others_stays(tmp_path):
    text = """\
fleet: {started: 2025-01-01, pids: [1, 0x1f], on: yes}
agents:
  writer:
    mood: good
    schedules:
      check: {status: idle, runs: 12, last_run_at: 2025-01-19T12:00:00Z}
  other: null
"""
    write(tmp_path, text)
    before = content(tmp_path)
    update_schedule_state(tmp_path, "writer", "check", {"status": "disabled"})
    update_schedule_state(tmp_path, "other", "new", {"status": "disabled"})
    before["agents"]["writer"]["schedules"]["check"]["status"] = "disabled"
    before["agents"]["other"] = {"schedules": {"new": {"status": "disabled"}}}
    assert content(tmp_path) == before


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text("aé: #'\"\n*&-", max_size=9)
)
foreign = st.dictionaries(
    st.text("abcdef", min_size=1),
    st.recursive(scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("xyz"), below)),
    max_size=3,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(foreign, foreign, foreign)
def test_whatever_belongs_to_others_stays(tmp_path, top, agent, record):
    document = {**top, "agents": {"writer": {**agent, "schedules": {"check": record}}}}
    write(tmp_path, yaml.safe_dump(document))
    update_schedule_state(tmp_path, "writer", "check", {"status": "running"})
    document["agents"]["writer"]["schedules"]["check"]["status"] = "running"
    assert content(tmp_path) == document


@pytest.mark.parametrize(
    "text",
    [
        "agents: [",
        "agents: &a {}\nmore: *a\n",
        "agents: {}\nagents: {}\n",
        "- agents\n",
        "agents: []\n",
        "agents: writer\n",
        "",
        "# nothing\n",
        "a: !!python/object/apply:os.system [true]\n",
        "a: 1\n---\nb: 2\n",
        "[" * 100,
        "a: \x00",
    ],
)
def test_a_damaged_file_is_never_overwritten(tmp_path, text):
    write(tmp_path, text)
    for act in (
        lambda: read_states(tmp_path),
        lambda: get_schedule_state(tmp_path, "writer", "check"),
        lambda: get_agent_schedule_states(tmp_path, "writer"),
        lambda: update_schedule_state(tmp_path, "writer", "check", {"status": "idle"}),
    ):
        with pytest.raises(StateFileError, match=r"state\.yaml.*; mend it, or move it away to start afresh$"):
            act()
    assert (tmp_path / "state.yaml").read_text() == text
    assert names(tmp_path) == ["state.yaml", "state.yaml.lock"]


def test_a_file_that_is_not_utf8_is_damaged(tmp_path):
    (tmp_path / "state.yaml").write_bytes(b"agents: {caf\xe9: {}}")
    with pytest.raises(StateFileError, match="is not UTF-8 at byte 12; mend it"):
        read_states(tmp_path)


DAMAGED = """\
agents:
  writer:
    schedules:
      bad: {status: paused}
      good: {status: disabled}
  broken: 5
  reader:
    schedules: [a]
"""


def test_a_damaged_record_harms_no_other(tmp_path):
    write(tmp_path, DAMAGED)
    states = read_states(tmp_path)
    assert states.records == {("writer", "good"): ScheduleState("disabled")}
    bad = Problem(
        ("agents", "writer", "schedules", "bad"), "status is paused; write one of idle, running, disabled"
    )
    assert states.of("writer", "bad") == bad
    assert states.of("writer", "good") == ScheduleState("disabled")
    assert states.of("writer", "new") == ScheduleState()
    for agent in ("broken", "reader"):
        assert states.of(agent, "any").path == ("agents", agent)
        assert states.of(agent, "any").message == "is not a mapping with `schedules`"


def test_a_damaged_record_is_not_written_over_and_the_others_are(tmp_path):
    write(tmp_path, DAMAGED)
    keys = [("writer", "bad"), ("writer", "good"), ("broken", "a"), ("reader", "a"), ("new", "a")]
    states = write_states(tmp_path, {key: {"status": "running"} for key in keys})
    assert states == read_states(tmp_path)
    assert {key for key, state in states.records.items() if state.status == "running"} == {
        ("writer", "good"),
        ("new", "a"),
    }
    assert {*states.problems} == {("writer", "bad"), ("broken", ""), ("reader", "")}
    assert content(tmp_path)["agents"]["broken"] == 5


@pytest.mark.parametrize(("agent", "schedule"), [("writer", "bad"), ("broken", "a")])
def test_asking_for_a_damaged_record_names_it(tmp_path, agent, schedule):
    write(tmp_path, DAMAGED)
    with pytest.raises(StateFileError, match=rf"state\.yaml: agents\.{agent}.*: .*; mend it"):
        get_schedule_state(tmp_path, agent, schedule)
    with pytest.raises(StateFileError, match=rf"agents\.{agent}"):
        update_schedule_state(tmp_path, agent, schedule, {"status": "idle"})
    with pytest.raises(StateFileError, match=rf"agents\.{agent}"):
        get_agent_schedule_states(tmp_path, agent)


def test_changes_that_cannot_be_are_refused_before_anything_is_touched(tmp_path):
    with pytest.raises(InvalidArgumentError):
        write_states(tmp_path, {("a", "b"): {"status": "idle"}, ("a", "c"): {"status": "x"}})
    assert names(tmp_path) == []


def test_the_signature_changes_with_the_file(tmp_path):
    seen = [signature(tmp_path)]
    for status in ("idle", "running", "idle"):
        update_schedule_state(tmp_path, "writer", "check", {"status": status})
        assert signature(tmp_path) == signature(tmp_path)
        seen.append(signature(tmp_path))
    assert seen[0] is None
    assert len({*seen}) == 4


def test_the_permissions_stay_and_a_new_file_is_private(tmp_path):
    update_schedule_state(tmp_path, "writer", "check", {"status": "idle"})
    file = tmp_path / "state.yaml"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    update_schedule_state(tmp_path, "writer", "check", {"status": "idle"})
    assert file.stat().st_mode & 0o777 == 0o644


def test_the_target_of_a_link_is_replaced_and_not_the_link(tmp_path):
    real, linked = tmp_path / "real", tmp_path / "linked"
    real.mkdir()
    linked.mkdir()
    (linked / "state.yaml").symlink_to(real / "state.yaml")
    update_schedule_state(linked, "writer", "check", {"status": "disabled"})
    assert (linked / "state.yaml").is_symlink()
    assert get_schedule_state(real, "writer", "check").status == "disabled"


def test_a_directory_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "state").write_text("x")
    with pytest.raises(StateFileError, match="cannot be written"):
        update_schedule_state(tmp_path / "state", "writer", "check", {"status": "idle"})
    with pytest.raises(StateFileError, match="cannot be read"):
        get_schedule_state(tmp_path / "state", "writer", "check")


FULL_DISK = """
import resource, signal, sys
from dutiful.fleet import StateFileError, update_schedule_state
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    update_schedule_state(sys.argv[1], "writer", "check", {"last_error": "x" * 1000})
except StateFileError as error:
    print(error)
"""


def test_a_failed_write_leaves_the_old_file_no_litter_and_no_lock(tmp_path):
    update_schedule_state(tmp_path, "writer", "check", {"status": "disabled"})
    before = (tmp_path / "state.yaml").read_bytes()
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"{tmp_path}/state.yaml: cannot be written (File too large);"
        " nothing was changed; make room or check the permissions\n"
    )
    assert (tmp_path / "state.yaml").read_bytes() == before
    assert names(tmp_path) == ["state.yaml", "state.yaml.lock"]
    assert update_schedule_state(tmp_path, "writer", "check", {}) == ScheduleState("disabled")


def test_ten_thousand_schedules_are_read_and_written_quickly(tmp_path):
    changes = {"status": "idle", "last_run_at": NOON, "next_run_at": NOON, "last_error": "it failed: no"}
    keys = [(f"agent-{n // 10}", f"schedule-{n % 10}") for n in range(10_000)]
    write_states(tmp_path, dict.fromkeys(keys, changes))
    with takes_less_than(YARDS):
        written = write_states(tmp_path, dict.fromkeys(keys, changes))
    with takes_less_than(YARDS):
        states = read_states(tmp_path)
    assert len(states.records) == 10_000
    assert states == written
