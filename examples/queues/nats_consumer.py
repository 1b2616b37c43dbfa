"""A consumer of NATS whose effect and key are one PostgreSQL transaction: each effect happens once.

Start it with NATS_URL, POSTGRES_URL and DUTIFUL_URL set; any number of copies share the runs.
"""

import asyncio
import os
import signal

from dutiful.receivers import Delivery, NatsReceiver, PostgresSeen


async def handle(delivery: Delivery) -> None:
    """Write the effect through `delivery.connection`: it is committed together with the run's key."""
    await delivery.connection.execute(
        "INSERT INTO invoices (run, customer) VALUES ($1, $2)", delivery.key, delivery.dag["customer"]
    )


async def main() -> None:
    """Take runs until SIGTERM, and finish those that have begun."""
    receiver = NatsReceiver(
        os.environ["NATS_URL"],
        handle,
        seen=PostgresSeen(os.environ["POSTGRES_URL"]),
        service=os.environ["DUTIFUL_URL"],
        token=os.environ.get("DUTIFUL_TOKEN"),
        secret=os.environ.get("DUTIFUL_EXECUTOR_SECRET"),
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, receiver.stop)
    await receiver.run()


if __name__ == "__main__":
    asyncio.run(main())
