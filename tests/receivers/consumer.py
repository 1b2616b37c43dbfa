"""A consumer that is killed between its effect and the record of it, once for each of some keys."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from celery import Celery

from dutiful.receivers import NatsReceiver, PostgresSeen, StreamReceiver, ValkeySeen, celery_task

FOLDER = Path(os.environ["FOLDER"])


async def handle(delivery) -> None:
    """Leave one line, or one row in the transaction of the key, and die if this key's turn has come."""
    if delivery.connection is None:
        with (FOLDER / "effects").open("a") as file:
            file.write(f"{delivery.key} {delivery.attempt} {delivery.starts}\n")
    else:
        effect = delivery.key, delivery.attempt, delivery.starts
        await delivery.connection.execute("INSERT INTO effects VALUES ($1, $2, $3)", *effect)
    died = FOLDER / f"died-{delivery.key}"
    if int(delivery.key[:4], 16) % int(os.environ["ONE_DEATH_IN"]) == 0 and not died.exists():
        died.touch()
        os._exit(9)


def seen_at(seen: str, name: str):
    return PostgresSeen(seen) if seen.startswith("postgresql") else ValkeySeen(seen, prefix=name, lease=5)


if broker := os.environ.get("BROKER"):
    # Run as `celery -A tests.receivers.consumer worker`.
    app = Celery("campaign", broker=broker)
    app.conf.update(worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)
    app.conf.broker_transport_options = {"visibility_timeout": 10}
    store = seen_at(os.environ["SEEN"], broker)
    celery_task(app, "app.run", seen=store, service=os.environ["SERVICE"], run_timeout=10)(handle)


async def main(url: str, seen: str) -> None:
    kind = NatsReceiver if url.startswith("nats") else StreamReceiver
    store = seen_at(seen, url)
    # One at a time where effects are not transactional, so that a death cuts short its own key alone.
    at_once = 8 if isinstance(store, PostgresSeen) else 1
    receiver = kind(url, handle, seen=store, service=os.environ["SERVICE"], silent=2, concurrency=at_once)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, receiver.stop)
    await receiver.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
