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


def cron_of(schedule: Any) -> str:
    """Return the cron text of a beat entry: of a crontab, or of whole seconds that divide a minute."""
    if hasattr(schedule, "_orig_minute"):
        names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        return " ".join(str(getattr(schedule, f"_orig_{name}")) for name in names)
    seconds = getattr(getattr(schedule, "run_every", None), "total_seconds", lambda: schedule)()
    if 60 % seconds == 0:
        return f"*/{seconds:g} * * * * *"
    if seconds % 60 == 0 and 60 % (seconds / 60) == 0:
        return f"*/{seconds / 60:g} * * * *"
    raise SystemExit(f"write a cron text for an interval of {seconds} s; it divides no hour")


def main(target: str) -> None:
    """Store one workflow and one schedule for each entry."""
    module, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    app = getattr(importlib.import_module(module), name)
    for entry, beat in app.conf.beat_schedule.items():
        dag = {"task": beat["task"], "args": list(beat.get("args", ())), "kwargs": beat.get("kwargs", {})}
        ask("PUT", f"/workflows/{entry}/1", dag)
        schedule = {
            "schedule_id": entry,
            "workflow_id": entry,
            "version": 1,
            "user_id": "celery",
            "cron_expr": cron_of(beat["schedule"]),
            "timezone": app.conf.timezone or "UTC",
            "overlap_policy": "allow",
        }
        answer = ask("POST", "/schedules/upsert", schedule)
        print(f"{entry}: {schedule['cron_expr']} {schedule['timezone']}, next {answer['next_run_at']}")


if __name__ == "__main__":
    main(sys.argv[1])
