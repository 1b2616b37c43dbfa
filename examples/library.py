# examples/library.py
import asyncio
from contextlib import suppress

from dutiful import Scheduler


async def report():
    print("sending the report", flush=True)


async def main():
    scheduler = Scheduler("sqlite:state.db")
    # Every minute. A failed run is tried again after 60 seconds.
    await scheduler.initialize([("report", "* * * * *", report, 60)])
    try:
        await asyncio.Event().wait()
    finally:
        await scheduler.stop()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
