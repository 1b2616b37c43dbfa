"""A consumer of a Redis or Valkey stream; its keys are kept in the same server.

Start it with REDIS_URL and DUTIFUL_URL set; any number of copies share the runs.
"""

import asyncio
import os
import signal

from dutiful.receivers import Delivery, StreamReceiver, ValkeySeen


def handle(delivery: Delivery) -> None:
    """A plain function is called on a thread; what it raises is reported as FAILED."""
    print(f"run {delivery.key[:8]} of {delivery.meta['schedule_id']}: {delivery.dag}", flush=True)


async def main() -> None:
    """Take runs until SIGTERM, and finish those that have begun."""
    url = os.environ["REDIS_URL"]
    receiver = StreamReceiver(url, handle, seen=ValkeySeen(url), service=os.environ["DUTIFUL_URL"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, receiver.stop)
    await receiver.run()


if __name__ == "__main__":
    asyncio.run(main())
