"""The words of the pages: distances, durations, places and times in everyday English."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from dutiful.core.cron import explain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from dutiful.core.cron.cron import Cron
    from dutiful.service.declaration import ScheduleView


_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
# A date within so many days has its year only where another year has begun.
_YEAR_DAYS = 300
_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")

REASONS = {
    "overlap": "A run of the same schedule was still in flight.",
    "missed": "Nothing was there to fire it, and it was too late when the service came back.",
    "coalesced": "Several ticks were missed; one run stands for all of them.",
    "catchup_cap": "More ticks were missed than are made up for at once.",
    "queue_full": "As many ticks waited in the queue as it holds.",
    "replaced": "A newer tick took its place, or the schedule was edited.",
    "paused": "The schedule was paused.",
    "outside_window": "It lies before the start or after the end of the schedule.",
    "limit_reached": "The schedule has started as many runs as it may.",
    "at_capacity": "As many runs were in flight as its group may have.",
    "no_work": "There was nothing to work on.",
    "quarantined": "The schedule is set aside, because it cannot be computed.",
    "launch_refused": "The executor refused it.",
    "launch_failed": "The executor could not be reached, as often as it was tried.",
    "unknown_workflow": "The workflow that it names is not stored.",
    "outcome_unknown": "It was launched, and whether it arrived is not known.",
    "lost_run": "It started and never reported back.",
    "interrupted": "The process that ran it ended first.",
    "task_failed": "It ran, and the task failed.",
    "not_due": "The cron has no tick then.",
    "excluded": "The calendar of the schedule leaves that day out.",
    "dst_gap": "The clock jumps over that time on that day.",
    "dst_fold": "That time comes twice on that day, and the other one counts.",
    "undecided": "It is still to come.",
    "unrecorded": "Its entry is no longer kept, or the schedule did not exist yet.",
}
"""One sentence for each reason of the ledger, and for each code that only a verdict has."""


ACTED = {
    "upsert": "stored",
    "delete": "deleted",
    "pause": "paused",
    "resume": "resumed",
    "trigger": "ran by hand",
    "backfill": "asked for past ticks of",
    "start": "started",
    "cancel": "cancelled a run of",
    "save_workflow": "stored the workflow",
    "delete_workflow": "deleted the workflow",
    "drain_node": "drained a node",
    "rebalance": "spread the shards anew",
}
"""The verb of a sentence for each action of the audit file."""


def span(seconds: float) -> str:
    """Return a length of time in its two largest units: 12 ms, 4 min 10 s, 1 d 2 h."""
    # A duration that rounds up to the next unit is shown in that unit: 1 s, not 1000 ms.
    if seconds < 0.9995:
        return f"{round(seconds * 1000)} ms"
    if seconds < 9.95 and seconds % 1:
        return f"{seconds:.1f} s"
    left, parts = round(seconds), list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def unbroken(text: str) -> str:
    """Return a text that a browser keeps on one line."""
    return text.replace(" ", "\u00a0")


def distance(instant: datetime, now: datetime) -> str:
    """Return how far away an instant is: in 24 min, 3 h ago, now."""
    seconds = round((instant - now).total_seconds())
    if seconds == 0:
        return "now"
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def roughly(instant: datetime, now: datetime) -> str:
    """Return how far away an instant is in its largest unit: in 24 min, 3 h ago."""
    seconds = round((instant - now).total_seconds())
    unit, size = next((pair for pair in _UNITS if abs(seconds) >= pair[1]), ("s", 1))
    said = f"{abs(seconds) // size:,} {unit}"
    return "now" if seconds == 0 else f"in {said}" if seconds > 0 else f"{said} ago"


def place(zone: str) -> str:
    """Return a zone as people call it: New York for America/New_York."""
    return explain.place(zone)


def offset(at: datetime) -> str:
    """Return the offset of an instant in its own zone: UTC, UTC−5, UTC+5:30."""
    delta = at.utcoffset()
    assert delta is not None
    minutes = round(delta.total_seconds() / 60)
    if minutes == 0:
        return "UTC"
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else '−'}{hours}" + (f":{rest:02}" if rest else "")


def clock(at: datetime) -> str:
    """Return the time of day, with seconds only where there are some."""
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def day(at: datetime, now: datetime | None = None) -> str:
    """Return a day: Mon 2 Nov, with its year where that is not the present one."""
    year = f" {at.year}" if now is not None and at.year != now.astimezone(at.tzinfo).year else ""
    return f"{at:%a} {at.day} {at:%b}{year}"


def moment(at: datetime, now: datetime) -> str:
    """Return a day and a time of day: Mon 2 Nov 01:30."""
    return f"{day(at, now)} {clock(at)}"


def near(at: datetime, now: datetime) -> str:
    """Return an instant relative to the present: today 01:30, Tue 01:30, 12 Nov 01:30."""
    apart = (at.date() - now.astimezone(at.tzinfo).date()).days
    named = {0: "today", 1: "tomorrow", -1: "yesterday"}.get(apart)
    if named is None:
        named = f"{at:%a}" if abs(apart) < 7 else f"{at.day} {at:%b}"
    return f"{named} {clock(at)}"


def near_clock(at: datetime, now: datetime) -> str:
    """Return an instant to come, short: 14:30, 01:00 Tue, 31 Dec."""
    apart = (at.date() - now.date()).days
    if apart == 0:
        return clock(at)
    if apart < 7:
        return f"{clock(at)} {at:%a}"
    return f"{at.day} {at:%b}" if at.year == now.year or apart < _YEAR_DAYS else f"{at.day} {at:%b %Y}"


def logged(at: str, now: datetime) -> str:
    """Return the time of an audit line, short: 14:05 for today, else 2 Nov 14:05."""
    instant = datetime.fromisoformat(at).astimezone(UTC)
    if instant.date() == now.date():
        return f"{instant:%H:%M}"
    year = "" if instant.year == now.year else f" {instant.year}"
    return f"{instant.day} {instant:%b}{year} {instant:%H:%M}"


def acted(action: str) -> str:
    """Return an action of the audit file as the verb of a sentence: paused, stored, ran by hand."""
    return ACTED.get(action, action.replace("_", " "))


def begin(text: str) -> str:
    """Return a text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 schedule, 12,480 schedules."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def in_words(number: int) -> str:
    """Return a small number as a word, a large one in figures."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


@lru_cache(maxsize=1024)
def when(cron: Cron) -> str:
    """Return a cron in English, with its days and its place: At 01:30, every day, in New York."""
    return explain.in_place(cron.describe(), cron.zone.name)


def utc(at: datetime) -> datetime:
    """Return the same instant in UTC."""
    return at.astimezone(UTC)


def in_zone(at: datetime, zone: tzinfo) -> datetime:
    """Return the same instant in another zone."""
    return at.astimezone(zone)


def foreign(text: str | None, most: int = 2000) -> str:
    """Return a text from outside, cut if it is too long for a page."""
    said = text or ""
    return said if len(said) <= most else f"{said[:most]}… (cut)"


def main_line(text: str | None, most: int = 200) -> str:
    """Return the line of a text from outside that says most, at most so many characters of it.

    That is the first line. The first line of a traceback is the same for every error, so the line after its
    frames is taken, which names the exception.
    """
    lines = (text or "").strip().splitlines() or [""]
    if not lines[0].startswith("Traceback (most recent call last)"):
        return foreign(lines[0], most)
    frames = max(place for place, line in enumerate(lines) if place == 0 or line.startswith("  File "))
    return foreign(next((line for line in lines[frames + 1 :] if line[:1].strip()), lines[-1].strip()), most)


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
    """Return (name, value, note) of each setting that affects ticks, and of all others that are not usual."""
    timeout = "never" if view.run_timeout_s is None else span(view.run_timeout_s)
    rows = [
        ("Overlap", view.overlap_policy, OVERLAPS[view.overlap_policy]),
        ("Catch-up", view.catchup_policy, CATCHUPS[view.catchup_policy]),
        ("Clock skips it", GAPS[view.gap], f"gap={view.gap}"),
        ("Clock repeats it", FOLDS[view.fold], f"fold={view.fold}"),
        ("Grace", span(view.grace_s), "later than this is missed"),
        ("Delivery", view.delivery.replace("_", " "), ""),
        ("Retries", *_retries_said(view)),
        ("Lost after", timeout, "without a report"),
        ("Jitter", f"± {span(view.jitter_ms / 1000)}" if view.jitter_ms else "none", ""),
        ("Queue", f"{view.queue_limit:,}", "ticks wait at most") if view.overlap_policy == "queue" else None,
        ("From", f"{view.start_at:%Y-%m-%d %H:%M} UTC", "") if view.start_at else None,
        ("Until", f"{view.end_at:%Y-%m-%d %H:%M} UTC", "") if view.end_at else None,
        ("Days left out", f"{len(view.calendar):,}", _named(view.calendar)) if view.calendar else None,
        *_expectations_said(view),
        ("Kept", f"{view.retention_days:,} d", "of its ledger") if view.retention_days else None,
        ("Kept", counted(view.retention_rows, "row"), "of its ledger") if view.retention_rows else None,
        ("Executor", foreign(view.executor, 200), "its own") if view.executor else None,
        ("Input", foreign(json.dumps(view.input, ensure_ascii=False), 200), "")
        if view.input is not None
        else None,
    ]
    return [row for row in rows if row is not None]


def _retries_said(view: ScheduleView) -> tuple[str, str]:
    if not view.retry_limit:
        return "none", "of a failed task"
    growing = f", each time {view.retry_backoff} times longer" if view.retry_backoff > 1 else ""
    after = f"after {span(view.retry_delay_s)}" if view.retry_delay_s else "at once"
    return f"at most {view.retry_limit:,}", f"{after}{growing}"


def _named(days: Sequence[str]) -> str:
    """Return the first days of a calendar, and how many more there are."""
    shown, more = ", ".join(days[:3]), len(days) - 3
    return f"{shown} and {more:,} more" if more > 0 else shown


def _expectations_said(view: ScheduleView) -> list[tuple[str, str, str]]:
    expected = {
        "Starts within": (view.start_within_s, "of its fire time"),
        "Ends within": (view.finish_within_s, "of its fire time"),
        "Succeeds every": (view.succeed_every_s, "at least"),
    }
    return [(name, span(limit), note) for name, (limit, note) in expected.items() if limit is not None]
