"""The facts that every executor gets."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from tests.launchers.metas import META, META_JSON


def test_the_meta_is_json_with_instants_in_utc():
    assert META.as_json() == META_JSON
    local = datetime(2026, 3, 1, 3, 30, 0, 500_000, tzinfo=ZoneInfo("Europe/Berlin"))
    assert META._replace(scheduled_for=local).as_json()["scheduled_for"] == "2026-03-01T02:30:00.500000Z"
