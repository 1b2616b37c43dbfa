"""`dutiful serve` and `dutiful worker`: the service in the foreground, until a signal says stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dutiful.core.errors import DutifulError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from dutiful.service.settings import Settings

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = click.option(
    "--log", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the log."
)


@click.command()
@click.option("--no-worker", is_flag=True, help="Answer requests, and leave the firing to `dutiful worker`.")
@_log
def serve(no_worker: bool, log: str) -> None:
    """Run the service: HTTP, worker and launcher in one process, until SIGINT or SIGTERM.

    Everything is set by the environment; `dutiful config` shows what is in force. Without auth it
    listens on this machine only.

    Example: DUTIFUL_EXECUTOR=command:./run-dag dutiful serve
    """
    _run(_serve(_prepared(log), worker=not no_worker))


@click.command()
@_log
def worker(log: str) -> None:
    """Run a worker without HTTP, in the same environment as the service, until SIGINT or SIGTERM.

    Any number may run on one store: one of them leads, the others take over when it dies.

    Example: DUTIFUL_EXECUTOR=command:./run-dag dutiful worker
    """
    _run(_work(_prepared(log)))


def _prepared(log: str) -> Settings:
    from dutiful.cli.logs import log_to_stdout
    from dutiful.service.settings import settings_from

    settings = settings_from(os.environ)
    log_to_stdout(log)
    return settings


def _run(main: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(main)
    except DutifulError as error:
        # The settings were read before: it is the address, the store, or a file that is wrong.
        raise click.ClickException(str(error)) from error


async def _serve(settings: Settings, worker: bool) -> None:
    from dutiful.httpd.server import HttpServer, listen
    from dutiful.service.http_settings import connection_limits, tls_files
    from dutiful.service.wiring import Service
    from dutiful.web.app import create_app

    with listen(settings.host, settings.port) as listener, _until_signal() as asked:
        service = Service(settings, worker=worker)
        await service.start()
        try:
            server = HttpServer(
                create_app(service), listener, tls_files(settings), _announce, connection_limits(settings)
            )
            # What there is by now stays: the collector need not look through it again and again.
            gc.freeze()
            answering = asyncio.create_task(server.answer())
            await asyncio.wait(
                {answering, asyncio.create_task(asked.wait())}, return_when=asyncio.FIRST_COMPLETED
            )
            server.stop()
            await answering
        finally:
            await service.stop()
    click.echo("stopped")


async def _work(settings: Settings) -> None:
    from dutiful.service.wiring import Service

    with _until_signal() as asked:
        service = Service(settings)
        await service.start()
        click.echo(f"working on {settings.store}; stop with Ctrl-C")
        try:
            await asked.wait()
        finally:
            await service.stop()
    click.echo("stopped")


def _announce(url: str) -> None:
    click.echo(f"dutiful answers at {url}; stop with Ctrl-C")


@contextmanager
def _until_signal() -> Iterator[asyncio.Event]:
    """Yield what is set by the first signal; the next one ends the process as if nobody listened."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()

    def heard() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        asked.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, heard)
    try:
        yield asked
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
