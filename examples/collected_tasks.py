# examples/collected_tasks.py
"""Tasks registered by a decorator beside their functions, and one function for several tasks."""

from functools import partial

import dutiful

TASKS: list[dutiful.Registration] = []


def every(cron, delay=60, **options):
    """Register the function below it under its own name."""

    def register(function):
        TASKS.append(dutiful.task(function.__name__, cron, function, delay, **options))
        return function

    return register


@every("* * * * *", timeout=30)
async def heartbeat():
    print("alive", flush=True)


async def send_report(region, *, detailed=False):
    print("report for", region, "in detail" if detailed else "in short", flush=True)


TASKS += [
    ("report-eu", "* * * * *", partial(send_report, "eu"), 300),
    ("report-us", "* * * * *", partial(send_report, "us", detailed=True), 300),
]
