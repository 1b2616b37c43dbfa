# examples/library.py
import asyncio
from contextlib import suppress

import dutiful


async def report():
    print("sending the report", flush=True)


async def main():
    # Every minute. A failed run is tried again after 60 seconds.
    tasks = [("report", "* * * * *", report, 60)]
    async with dutiful.running(dutiful.Scheduler("sqlite:state.db"), tasks):
        await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
