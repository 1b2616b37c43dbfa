"""The pages that the tests open."""

from __future__ import annotations

SETTLEMENT = "/ui/schedules/settlement.us-east"
PAGES = [
    "/",
    "/ui/schedules",
    "/ui/schedules?state=trouble",
    "/ui/schedules?q=no-such-thing",
    SETTLEMENT,
    f"{SETTLEMENT}?at=nonsense&entries=all",
    "/ui/schedules/edge.heartbeat",
    "/ui/schedules/search.suggest",
    "/ui/schedules/import.supplier-kyiv",
    "/ui/schedules/year-end.close",
    "/ui/schedules/new",
    f"{SETTLEMENT}/edit",
    f"{SETTLEMENT}/run",
    f"{SETTLEMENT}/pause",
    f"{SETTLEMENT}/backfill",
    f"{SETTLEMENT}/delete",
    "/ui/schedules/pause-many?q=team%3Dbilling",
    "/ui/runs",
    "/ui/runs?view=each",
    "/ui/runs/again?status=FAILED&reason=task_failed&line=ConnectionRefusedError%3A+ledger-db.internal%3A5432",
    "/ui/calendar",
    "/ui/cron?e=30+2+*+*+*&tz=America/New_York",
    "/ui/cron?e=nonsense",
    "/ui/why",
    "/ui/why?schedule=settlement.us-east&at=yesterday+01:30",
    "/ui/me",
    "/ui/more",
    "/ui/system",
    "/ui/audit",
    "/ui/audit?line=0",
    "/ui/schedules/nowhere",
]
