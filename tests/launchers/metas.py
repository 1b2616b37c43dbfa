"""A run as executors are told of it."""

from __future__ import annotations

from datetime import UTC, datetime

from dutiful.launchers.executor import ExecutorSettings, Meta
from dutiful.testing import VirtualClock

KEY = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
AT, LABELS = datetime(2026, 3, 1, 2, 30, tzinfo=UTC), {"team": "é"}
META = Meta("schedule", "nightly", "report", 3, "ada", AT, KEY, 2, 7, LABELS, {"day": 1})
META_JSON = {
    "source": "schedule",
    "schedule_id": "nightly",
    "workflow_id": "report",
    "version": 3,
    "user_id": "ada",
    "scheduled_for": "2026-03-01T02:30:00Z",
    "idempotency_key": KEY,
    "attempt": 2,
    "epoch": 7,
    "labels": {"team": "é"},
    "input": {"day": 1},
}
DAG = {"nodes": [{"id": "α", "action": "send"}]}
SETTINGS = ExecutorSettings(VirtualClock("2026-03-01T02:30:01+00:00"))
