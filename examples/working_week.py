# examples/working_week.py
import asyncio
from datetime import timedelta

from dutiful import Scheduler
from dutiful.testing import VirtualClock

clock = VirtualClock("2026-01-05T08:00:00", timezone="Europe/Berlin")


async def report():
    print(f"{clock.now():%a %H:%M}")


async def main():
    scheduler = Scheduler("memory:", clock=clock)
    await scheduler.initialize([("report", "0 9 * * 1-5", report, 60)])
    await clock.advance(timedelta(days=7))
    await scheduler.stop()


if __name__ == "__main__":
    asyncio.run(main())
