"""A Celery app as teams have it, with the one task that takes the runs of dutiful.

Start a worker with BROKER_URL and DUTIFUL_URL set: celery -A celery_app worker
"""

import os

from celery import Celery
from celery.schedules import crontab

from dutiful.receivers import Delivery, ValkeySeen, celery_task

BROKER_URL = os.environ.get("BROKER_URL", "redis://127.0.0.1:6379/0")

app = Celery("shop", broker=BROKER_URL)
# A message comes back after this many seconds: not before the longest run has ended.
app.conf.broker_transport_options = {"visibility_timeout": 3600}
# What `celery beat` has done until now; from_celery_beat.py reads it.
app.conf.beat_schedule = {
    "tidy-carts": {"task": "shop.tidy_carts", "schedule": 1.0},
    "weekly-report": {
        "task": "shop.report",
        "schedule": crontab(minute=30, hour=7, day_of_week="mon"),
        "args": ("weekly",),
    },
}


@app.task(name="shop.tidy_carts")
def tidy_carts() -> None:
    """Stand for your own task; it does not know of dutiful."""
    print("carts are tidy", flush=True)


@app.task(name="shop.report")
def report(kind: str) -> None:
    """Stand for another one."""
    print(f"{kind} report", flush=True)


@celery_task(
    app,
    "dutiful.run",
    seen=ValkeySeen(BROKER_URL),
    service=os.environ.get("DUTIFUL_URL", "http://127.0.0.1:8787"),
)
def run(delivery: Delivery) -> None:
    """Call the task that the run names, once for each key."""
    task = app.tasks[delivery.dag["task"]]
    task(*delivery.dag.get("args", ()), **delivery.dag.get("kwargs", {}))
