"""The settings of a schedule as sentences, with the words of the API beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.web.pages import words

if TYPE_CHECKING:
    from dutiful.service.types import ScheduleView

OVERLAPS = {
    "skip": "a run in flight wins",
    "queue": "one after another",
    "allow": "both at once",
    "buffer_one": "at most one waits",
    "cancel_other": "the new tick wins",
}
CATCHUPS = {
    "none": "missed ticks are skipped",
    "latest": "one run after an outage",
    "fire_immediately": "all missed ticks run at once",
    "spread": "missed ticks run spread out",
}
GAPS = {"skip": "leave that day out", "run_after": "run when the clock goes on"}
FOLDS = {"both": "run both times", "first": "the first time counts", "last": "the second time counts"}


def settings_said(view: ScheduleView) -> list[tuple[str, str, str]]:
    """Return (name, value, note) of each setting that decides about ticks."""
    timeout = "never" if view.run_timeout_s is None else words.span(view.run_timeout_s)
    rows = [
        ("Overlap", view.overlap_policy, OVERLAPS[view.overlap_policy]),
        ("Catch-up", view.catchup_policy, CATCHUPS[view.catchup_policy]),
        ("Clock skips it", GAPS[view.gap], f"gap={view.gap}"),
        ("Clock repeats it", FOLDS[view.fold], f"fold={view.fold}"),
        ("Grace", words.span(view.grace_s), "later than this is missed"),
        ("Delivery", view.delivery.replace("_", " "), ""),
        ("Lost after", timeout, "without a report"),
        ("Jitter", f"± {words.span(view.jitter_ms / 1000)}" if view.jitter_ms else "none", ""),
        ("Queue", f"{view.queue_limit:,}", "ticks wait at most") if view.overlap_policy == "queue" else None,
        ("From", f"{view.start_at:%Y-%m-%d %H:%M} UTC", "") if view.start_at else None,
        ("Until", f"{view.end_at:%Y-%m-%d %H:%M} UTC", "") if view.end_at else None,
    ]
    return [row for row in rows if row is not None]
