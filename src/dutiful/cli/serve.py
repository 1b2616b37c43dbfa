"""`dutiful serve` and `dutiful worker`: the service in the foreground, until a signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.signals import hear_signals
from dutiful.core.errors import DutifulError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from dutiful.httpd.server import HttpServer
    from dutiful.service.settings import Settings
    from dutiful.service.wiring import Service
    from dutiful.service.worker_process import WorkerProcess

logger = logging.getLogger("dutiful.service")

config_option = click.option(
    "--config", "config_file", metavar="FILE", help="TOML file of settings; variables override it."
)
_log = click.option(
    "--log", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the log."
)


@click.command()
@click.option("--no-worker", is_flag=True, help="Answer requests, and leave the firing to `dutiful worker`.")
@config_option
@_log
def serve(no_worker: bool, config_file: str | None, log: str) -> None:
    """Run the service, HTTP and a worker in a process of its own, until SIGINT or SIGTERM.

    Settings come from the environment and from a file; `dutiful config` shows what is in force. Without
    auth it listens on this machine only.

    Example: DUTIFUL_EXECUTOR=command:./run-dag dutiful serve
    """
    settings = _prepared(log, config_file)
    options = ["--log", log, *([] if config_file is None else ["--config", config_file])]
    _run(_serve(settings, None if no_worker else options, say=_sayer(log)))


@click.command()
@config_option
@_log
@click.option("--lifeline", type=int, hidden=True, help="Socket to the `dutiful serve` that started this.")
def worker(config_file: str | None, log: str, lifeline: int | None) -> None:
    """Run a worker without HTTP, in the same environment as the service, until SIGINT or SIGTERM.

    Any number may run on one store: one of them leads, the others take over when it dies.

    Example: DUTIFUL_EXECUTOR=command:./run-dag dutiful worker
    """
    if lifeline is None:
        _run(_work(_prepared(log, config_file), say=_sayer(log)))
    else:
        _run(_work_for(lifeline, _settings(log, config_file)))


def environment(config_file: str | None) -> dict[str, str]:
    """Return the environment, with the file of the option --config added."""
    return {**os.environ, **({} if config_file is None else {"DUTIFUL_CONFIG": config_file})}


def _settings(log: str, config_file: str | None) -> Settings:
    from dutiful.cli.logs import log_to_stdout
    from dutiful.service.settings import settings_from

    settings = settings_from(environment(config_file))
    log_to_stdout(log, logging.getLevelNamesMapping()[settings.log_level.upper()])
    return settings


def _prepared(log: str, config_file: str | None) -> Settings:
    settings = _settings(log, config_file)
    if settings.executor is None:
        logger.warning("there is no executor: runs fail with launch_refused until DUTIFUL_EXECUTOR is set")
    return settings


def _sayer(log: str) -> Callable[[str], None]:
    """Return the function for status messages; a log of JSON lines must have no plain lines."""
    return logger.info if log == "json" else click.echo


def _run(main: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(main)
    except DutifulError as error:
        # The settings were read before, so the address, the store or a file is wrong.
        raise click.ClickException(str(error)) from error


async def _serve(
    settings: Settings, worker_options: Sequence[str] | None, say: Callable[[str], None]
) -> None:
    asked = asyncio.Event()
    async with _worker_of(settings, worker_options) as worker:
        # The worker process loads beside these imports.
        from dutiful.httpd.server import HttpServer, listen
        from dutiful.service.http_settings import connection_limits, tls_files
        from dutiful.service.wiring import Service
        from dutiful.web.app import create_app

        with listen(settings.host, settings.port) as listener, hear_signals(asked, _last_words):
            service = Service(settings, worker=worker)
            # Check every file and address before the worker can lead: a start that fails must fire nothing.
            server = HttpServer(
                create_app(service),
                listener,
                tls_files(settings),
                lambda url: say(f"dutiful answers at {url}; stop with Ctrl-C"),
                connection_limits(settings),
            )
            server.config.load()
            cut = await _answer(service, server, asked)
    _say_goodbye(cut, say)


async def _answer(service: Service, server: HttpServer, asked: asyncio.Event) -> list[str]:
    """Answer requests until a stop is asked for; return the schedules whose runs were cut short."""
    from dutiful.service.settings import without_secrets

    cut: list[str] = []
    try:
        await service.start()
        store, schedules = service.settings.store, (await service.board.census()).schedules
        # A mistake in the name of a store makes an empty one.
        advice = "" if schedules else "; if there were some, check DUTIFUL_STORE"
        logger.info("store %s, schedules %d%s", without_secrets(store), schedules, advice)
        # Objects made so far live as long as the process, so exclude them from garbage collection.
        gc.freeze()
        answering = asyncio.create_task(server.answer())
        await asyncio.wait(
            {answering, asyncio.create_task(asked.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        server.stop()
        await answering
    finally:
        cut = await service.stop()
    return cut


@asynccontextmanager
async def _worker_of(
    settings: Settings, options: Sequence[str] | None
) -> AsyncIterator[bool | WorkerProcess]:
    """Yield the worker of a server, in a process of its own unless the store is in memory of this one."""
    if options is None or settings.store == "memory:":
        yield options is not None
        return
    from dutiful.runtime.clock import SystemClock
    from dutiful.service.worker_process import WorkerProcess

    command = [*_this_program(), "worker", *options, "--lifeline"]
    worker = WorkerProcess(command, SystemClock(), settings.drain_s)
    try:
        await worker.spawn()
        yield worker
    finally:
        await worker.stop()


def _this_program() -> list[str]:
    """Return the command that runs this program again, with the same import path."""
    installed = os.path.basename(sys.argv[0]) == "dutiful"
    return [sys.executable, *([sys.argv[0]] if installed else ["-m", "dutiful"])]


async def _work_for(lifeline: int, settings: Settings) -> None:
    """Work until the process at the other end of the lifeline says stop; signals are for that process."""
    from dutiful.service.wiring import Service
    from dutiful.service.worker_process import Lifeline

    for number in (signal.SIGINT, signal.SIGTERM):
        # A function, not SIG_IGN: programs that the worker starts would ignore the signals, too.
        signal.signal(number, lambda *_: None)
    await Lifeline(lifeline, lambda: Service(settings, watches=False)).obey()


async def _work(settings: Settings, say: Callable[[str], None]) -> None:
    from dutiful.service.settings import without_secrets
    from dutiful.service.wiring import Service

    asked = asyncio.Event()
    with hear_signals(asked, _last_words):
        service = Service(settings)
        cut: list[str] = []
        try:
            await service.start()
            say(f"working on {without_secrets(settings.store)}; stop with Ctrl-C")
            await asked.wait()
        finally:
            cut = await service.stop()
    _say_goodbye(cut, say)


def _last_words() -> str:
    return "ended at once; the next start recovers the runs that were cut short"


def _say_goodbye(cut: list[str], say: Callable[[str], None]) -> None:
    if cut:
        raise click.ClickException(f"stopped; runs were cut short, of: {', '.join(sorted(set(cut)))}")
    say("stopped")
