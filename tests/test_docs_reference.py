"""The reference pages are complete: every key, reason, event and column is there, with its default."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import get_args

import pytest
from scripts.metrics import PAGE as METRICS
from scripts.metrics import fleet, library, page, service
from tests.core.plan.planner_notation import run

from dutiful.cli.simulate import _entry
from dutiful.core import event
from dutiful.core.cron.duration import parse_duration
from dutiful.core.plan import verdict
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Policy, Reason
from dutiful.simulate.schedule_file import _POLICY_KEYS, OUTAGE_KEYS, SCHEDULE_KEYS

REFERENCE = Path(__file__).resolve().parents[1] / "docs/reference"


def rows(page: str) -> dict[str, list[str]]:
    """Return the tables of a page: first cell, without its quotes, to the other cells."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {cell.strip("`"): [rest.strip() for rest in others] for cell, *others in lines}


@pytest.mark.parametrize("key", sorted(SCHEDULE_KEYS | OUTAGE_KEYS))
def test_every_key_of_a_schedule_file_is_documented(key):
    assert key in rows("schedule-file.md")


def test_no_other_key_is_documented():
    assert {*rows("schedule-file.md")} == SCHEDULE_KEYS | OUTAGE_KEYS


@pytest.mark.parametrize("key", sorted(_POLICY_KEYS))
def test_every_setting_of_the_policy_is_documented_with_its_default(key):
    _, told, *_ = rows("schedule-file.md")[key]
    default = getattr(Policy(), key)
    if default in (None, 0):
        assert told == "none"
    elif isinstance(default, StrEnum):
        assert told == f"`{default}`"
    elif told.endswith(("s`", "m`", "h`")):
        assert parse_duration(told.strip("`")).total_seconds() * 1000 == default
    else:
        assert told == f"`{default}`"


@pytest.mark.parametrize(
    ("key", "choices"), [("overlap", Overlap), ("catch_up", CatchUp), ("on_orphan", OnOrphan)]
)
def test_every_choice_is_documented(key, choices):
    values, *_ = rows("schedule-file.md")[key]
    assert re.findall(r"`(\w+)`", values) == [*choices]
    text = (REFERENCE / "schedule-file.md").read_text(encoding="utf-8")
    assert [choice for choice in choices if f"\n- `{choice}`: " not in text] == []


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_documented_with_the_setting_behind_it(reason):
    status, _, decided_by = rows("reasons.md")[reason]
    assert status in {"SKIPPED", "FAILED", "-"}
    setting = "paused" if reason is Reason.PAUSED else verdict._DECIDED_BY.get(reason)
    assert decided_by.split(",")[0] == ("-" if setting is None else f"`{setting}`")


def test_the_list_of_reasons_is_closed():
    only_explained = {"not_due", "excluded", "dst_gap", "dst_fold", "undecided", "unrecorded"}
    assert {*rows("reasons.md")} == {*Reason} | only_explained
    assert all(code in (verdict.Verdict.__doc__ or "") for code in only_explained)


def test_every_reason_has_a_way_out_for_those_in_trouble():
    table = (REFERENCE.parent / "troubleshooting.md").read_text(encoding="utf-8")
    told = {
        code
        for first in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", first)
    }
    assert [reason for reason in Reason if reason not in told] == []


@pytest.mark.parametrize("kind", get_args(event.Event))
def test_every_event_is_documented_with_its_fields(kind):
    names, _ = rows("events.md")[kind.__name__]
    assert names == ", ".join(f"`{name}`" for name in kind.__match_args__)


def test_every_column_of_a_ledger_file_is_documented():
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    assert [column for column in _entry(run("10:00")) if f"| `{column}` |" not in page] == []


def test_every_metric_is_documented_with_its_type_labels_and_meaning():
    text = METRICS.read_text(encoding="utf-8")
    assert page(text) == text, "run `make openapi`"
    named = [row.name for door in (service, fleet, library) for row in door()]
    told = {name: meaning for name, (*_, meaning) in rows("metrics.md").items()}
    assert [name for name in named if told.get(name, "?") == "?"] == []
    # An alarm is about a metric that there is.
    alarms = re.findall(r"^\| `(.+?)` \|", text.partition("\n## What to alarm on\n")[2], re.MULTILINE)
    assert [alarm for alarm in alarms if not {*re.findall(r"\w+", alarm)} & {*named}] == []
