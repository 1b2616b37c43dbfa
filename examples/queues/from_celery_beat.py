"""Move the entries of a Celery app's `beat_schedule` to a running dutiful service.

Run it with DUTIFUL_URL set: python from_celery_beat.py celery_app:app
"""

import importlib
import json
import os
import sys
import urllib.request
from typing import Any

URL = os.environ.get("DUTIFUL_URL", "http://127.0.0.1:8787")


def ask(method: str, path: str, body: Any) -> Any:
    """Return what the service answers; raises HTTPError where it says no."""
    request = urllib.request.Request(f"{URL}{path}", json.dumps(body).encode(), method=method)  # noqa: S310
    request.add_header("Content-Type", "application/json")
    if token := os.environ.get("DUTIFUL_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.load(answer)


FORMS = ((1, 60, "*/{} * * * * *"), (60, 60, "*/{} * * * *"), (3600, 24, "0 */{} * * *"))


def cron_of(schedule: Any) -> str:
    """Return the cron text of a beat entry: of a crontab, or of an interval that divides its next unit."""
    if hasattr(schedule, "_orig_minute"):
        names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        return " ".join(str(getattr(schedule, f"_orig_{name}")) for name in names)
    every = getattr(schedule, "run_every", schedule)
    seconds = every.total_seconds() if hasattr(every, "total_seconds") else every
    if not isinstance(seconds, int | float):
        raise SystemExit(f"write a cron text for {schedule!r}: it is no crontab and no interval")
    for unit, whole, form in FORMS:
        if seconds >= unit and seconds % unit == 0 and whole % (seconds / unit) == 0:
            return form.format(f"{seconds / unit:g}")
    raise SystemExit(f"write a cron text for an interval of {seconds:g} s: it divides no minute, hour or day")


def main(target: str) -> None:
    """Store one workflow and one schedule for each entry."""
    module, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    app = getattr(importlib.import_module(module), name)
    # All texts first: an entry without one is told before anything is moved.
    texts = {entry: cron_of(beat["schedule"]) for entry, beat in app.conf.beat_schedule.items()}
    for entry, beat in app.conf.beat_schedule.items():
        dag = {"task": beat["task"], "args": list(beat.get("args", ())), "kwargs": beat.get("kwargs", {})}
        ask("PUT", f"/workflows/{entry}/1", dag)
        schedule = {
            "schedule_id": entry,
            "workflow_id": entry,
            "version": 1,
            "user_id": "celery",
            "cron_expr": texts[entry],
            "timezone": app.conf.timezone or "UTC",
            "overlap_policy": "allow",
        }
        answer = ask("POST", "/schedules/upsert", schedule)
        print(f"{entry}: {schedule['cron_expr']} {schedule['timezone']}, next {answer['next_run_at']}")


if __name__ == "__main__":
    main(sys.argv[1])
