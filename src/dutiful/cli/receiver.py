"""`dutiful receiver run`: a consumer of a queue that runs a command for each run."""

from __future__ import annotations

import asyncio
import json
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.logs import log_to_stdout
from dutiful.cli.output import Group
from dutiful.cli.signals import hear_signals
from dutiful.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from dutiful.receivers import Delivery, NatsReceiver, StreamReceiver
    from dutiful.receivers.seen import Seen

_NATS, _REDIS = ("nats", "tls"), ("redis", "rediss", "valkey", "valkeys")


@click.group(cls=Group)
def receiver() -> None:
    """Take runs from a queue, without a line of Python.

    Example: dutiful receiver run --from nats://127.0.0.1:4222 -- ./run-dag
    """


@receiver.command()
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND [ARGS]...")
@click.option("--from", "url", required=True, metavar="URL", help="The queue, as in DUTIFUL_EXECUTOR.")
@click.option("--service", metavar="URL", help="Where to report  [default: DUTIFUL_URL or port 8787 here]")
@click.option("--seen", default="sqlite:dutiful-seen.db", show_default=True, help="sqlite:FILE or redis://…")
@click.option("--name", default="dutiful", show_default=True, help="Receivers of one name share the runs.")
@click.option("--concurrency", type=click.IntRange(1, 256), default=4, show_default=True)
@click.option("--timeout", type=click.FloatRange(min=0.1), default=3600.0, show_default=True, help="Seconds.")
@click.option("--log", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(url: str, command: tuple[str, ...], log: str, timeout: float, **settings: Any) -> None:
    """Run COMMAND for each run of a queue, report how it ended, and then acknowledge the message.

    The DAG is on standard input as JSON, the meta in the environment as DUTIFUL_SCHEDULE_ID and so on. Exit
    code 0 is success. Messages are checked with DUTIFUL_EXECUTOR_SECRET, reports carry DUTIFUL_TOKEN.

    Example: dutiful receiver run --from nats://127.0.0.1:4222 -- ./run-dag
    """
    log_to_stdout(log)
    asyncio.run(_receive(url, _handler(command, timeout), settings))


async def _receive(url: str, handle: Any, settings: dict[str, Any]) -> None:
    seen = await _prepared(settings["seen"])
    made = _receiver(url, handle, {**settings, "seen": seen})
    asked = asyncio.Event()
    with hear_signals(asked, lambda: "ended at once; the runs under way are delivered again"):
        working = asyncio.create_task(made.run())
        click.echo(f"taking runs from {_shown(url)}; stop with Ctrl-C")
        stopping = asyncio.create_task(asked.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        made.stop()
        stopping.cancel()
        await working
    click.echo("stopped")


def _receiver(url: str, handle: Any, settings: dict[str, Any]) -> NatsReceiver | StreamReceiver:
    from dutiful.cli.api import DEFAULT_URL, token
    from dutiful.receivers import NatsReceiver, StreamReceiver

    common = {
        "seen": settings["seen"],
        "service": settings["service"] or os.environ.get("DUTIFUL_URL") or DEFAULT_URL,
        "token": token(),
        "secret": os.environ.get("DUTIFUL_EXECUTOR_SECRET") or None,
        "concurrency": settings["concurrency"],
    }
    scheme = url.partition("://")[0]
    if scheme in _NATS:
        _need("nats", scheme)
        return NatsReceiver(url, handle, durable=settings["name"], **common)
    if scheme in _REDIS:
        _need("redis", scheme)
        return StreamReceiver(url, handle, group=settings["name"], **common)
    advice = "write nats://HOST:PORT or redis://HOST:PORT/DB; for Celery, see dutiful.receivers.celery_task"
    raise InvalidArgumentError("--from", scheme, advice)


def _need(package: str, scheme: str) -> None:
    if find_spec(package) is None:
        advice = f"the package {package!r} is missing; install dutiful[receivers]"
        raise InvalidArgumentError("--from", f"{scheme}:…", advice)


async def _prepared(url: str) -> Seen:
    """Return the seen store, ready for use; raises InvalidArgumentError if it cannot be used."""
    seen = _seen(url)
    try:
        await seen.prepare()
    except Exception as error:  # noqa: BLE001 - every database has errors of its own
        await seen.close()
        raise InvalidArgumentError("--seen", _shown(url), f"it cannot be used: {error}") from None
    return seen


def _shown(url: str) -> str:
    """Return a URL without credentials and options."""
    scheme, _, place = url.partition("?")[0].rpartition("://")
    return f"{scheme}://{place.rpartition('@')[2]}" if scheme else place


def _seen(url: str) -> Seen:
    from dutiful.receivers import SqliteSeen, ValkeySeen

    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest:
        return SqliteSeen(rest)
    if scheme in _REDIS:
        return ValkeySeen(url)
    raise InvalidArgumentError("--seen", scheme, "write sqlite:FILE or redis://HOST:PORT/DB")


def _handler(command: tuple[str, ...], timeout: float) -> Any:
    from dutiful import process

    async def handle(delivery: Delivery) -> None:
        variables = {f"DUTIFUL_{name.upper()}": _text(value) for name, value in delivery.meta.items()}
        variables["DUTIFUL_STARTS"] = str(delivery.starts)
        ended = await process.run(
            command,
            environment=process.environment_of(variables),
            stdin=json.dumps(delivery.dag).encode(),
            time_limit=timeout,
        )
        if ended.problem is not None:
            raise click.ClickException(ended.problem)

    return handle


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
