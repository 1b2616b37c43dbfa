"""The pages that the tests open, and how a browser tells what is wrong with one."""

from __future__ import annotations

SETTLEMENT = "/ui/schedules/settlement.us-east"
PAGES = [
    "/",
    "/ui/schedules",
    "/ui/schedules?state=trouble",
    "/ui/schedules?q=no-such-thing",
    SETTLEMENT,
    f"{SETTLEMENT}?at=2026-10-13+01:30",
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
    "/ui/runs",
    "/ui/runs?view=each",
    "/ui/calendar",
    "/ui/cron?e=30+2+*+*+*&tz=America/New_York",
    "/ui/cron?e=nonsense",
    "/ui/why",
    "/ui/why?schedule=settlement.us-east&at=yesterday+01:30",
    "/ui/me",
    "/ui/more",
    "/ui/system",
    "/ui/audit",
    "/ui/schedules/nowhere",
]
SHIFT = (
    "() => new Promise(done => { const moved = []; new PerformanceObserver(list => {"
    " for (const entry of list.getEntries()) for (const {node} of entry.sources)"
    " moved.push((node?.outerHTML ?? node?.nodeValue ?? '').slice(0, 80)) })"
    ".observe({type: 'layout-shift', buffered: true});"
    " requestAnimationFrame(() => setTimeout(() => done(moved), 0)) })"
)
"""Returns the elements that have moved since the page began to load."""
