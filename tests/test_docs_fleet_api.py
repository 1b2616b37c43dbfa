"""Every name that `dutiful.fleet` exports is in its reference, with the fields that it has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import dutiful.fleet
from dutiful.fleet import FleetScheduler, SchedulerStatus, ScheduleSkipReason

PAGE = (Path(__file__).resolve().parents[1] / "docs/reference/fleet-api.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([A-Za-z_]+)` \| (.+) \|$", PAGE, re.MULTILINE))


def fields_of(value):
    return getattr(value, "_fields", None) or getattr(value, "__dataclass_fields__", ())


VALUES = [name for name in dutiful.fleet.__all__ if fields_of(getattr(dutiful.fleet, name))]


def test_the_names_of_the_reference_are_those_there_are():
    assert {*ROWS} == {*dutiful.fleet.__all__}


@pytest.mark.parametrize("name", VALUES)
def test_every_value_is_documented_with_its_fields(name):
    told = re.sub(r"\(.*?\)", "", ROWS[name])
    assert re.findall(r"`(\w+)`", told) == [*fields_of(getattr(dutiful.fleet, name))]


@pytest.mark.parametrize("name", [name for name in vars(FleetScheduler) if name[0] != "_"])
def test_every_method_of_the_scheduler_is_documented(name):
    assert re.search(rf"`(await )?{name}\(", PAGE)


def test_every_reason_and_status_is_documented():
    assert re.findall(r"`(\w+)`", ROWS["ScheduleSkipReason"]) == [*ScheduleSkipReason]
    assert re.findall(r'`"(\w+)"`', ROWS["SchedulerStatus"]) == [*get_args(SchedulerStatus)]


def test_the_guide_explains_every_reason():
    guide = (Path(__file__).resolve().parents[1] / "docs/guides/fleet.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in guide.splitlines() if line.startswith("| ")]
    for reason in ScheduleSkipReason:
        assert any(f"`{reason}`" in row and f"`{reason.for_people}`" in row for row in rows), reason
