"""Traces as a table: one event a line, "10:00:05 RS a"; a call that is not the only one has "#2"."""

from __future__ import annotations

from dutiful.monitor import check

NAMES = {
    "IS": "InitStart",
    "IEs": "InitSuccess",
    "IEf": "InitFailure",
    "SS": "StopStart",
    "SE": "StopEnd",
    "RS": "RunStart",
    "REs": "RunSuccess",
    "REf": "RunFailure",
    "REc": "RunCancelled",
    "RR": "RunRequest",
}
LISTS = {
    "minutely": [("a", "* * * * *", 90)],
    "hourly": [("a", "0 * * * *", 90)],
    "two": [("a", "0 * * * *", 90), ("b", "0 * * * *", 90)],
    "other": [("b", "0 * * * *", 90)],
    "empty": [],
    "twice": [("a", "0 * * * *", 90), ("a", "0 * * * *", 90)],
    "cron": [("a", "@daily", 90)],
    "delay": [("a", "0 * * * *", -1)],
    "nameless": [("", "0 * * * *", 1)],
}


def event(line):
    time, word, *rest = line.split()
    call = next((part for part in rest if part.startswith("#")), None)
    subject = next((part for part in rest if not part.startswith("#")), None)
    key = "list" if word.startswith("I") else "task"
    return {"name": NAMES.get(word, word), "at": instant(time), "call": call, key: subject}


def instant(time):
    return f"2026-01-01T{time if time.count(':') == 2 else time + ':00'}+00:00"


def trace(text):
    return [event(line) for line in text.strip().splitlines()]


def broken(text, end=None, **settings):
    """Return (axiom, position) of every violation in the trace."""
    last = None if end is None else instant(end)
    found = check(trace(text), registrations=LISTS, end=last, **settings)
    return [(violation.axiom, violation.position) for violation in found]
