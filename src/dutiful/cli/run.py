"""`dutiful run`: run the registrations of a module in the foreground, until a signal says stop."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.board import board_of
from dutiful.cli.signals import hear_signals
from dutiful.cli.target import check_registrations, load_registrations
from dutiful.cli.view import LiveTable, print_json_line, print_line, print_nothing
from dutiful.core.cron.dialect import DIALECTS
from dutiful.core.cron.zone import zone
from dutiful.core.errors import DutifulError, InvalidArgumentError
from dutiful.declarative.scheduler import Scheduler
from dutiful.monitor import TraceFile
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from dutiful.cli.board import Board
    from dutiful.declarative.observe import SchedulerEvent

    Show = Callable[[SchedulerEvent], None]


@click.command()
@click.argument("target", metavar="MODULE:NAME")
@click.option("--store", default="sqlite:dutiful.db", show_default=True, help='"sqlite:FILE" or "memory:".')
@click.option("--namespace", default="default", show_default=True, help="What the list is the whole list of.")
@click.option("--timezone", "-z", metavar="IANA", help="Zone of the cron texts [default: the host's].")
@click.option("--dialect", type=click.Choice([*DIALECTS]), default="posix", show_default=True)
@click.option("--ledger", is_flag=True, help="Keep every run and skipped tick, for `dutiful tasks history`.")
@click.option("--trace", type=click.Path(dir_okay=False), help="Add events to a file for `dutiful monitor`.")
@click.option("--json-lines", is_flag=True, help="Print events as JSON lines.")
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors.")
def run(target: str, trace: str | None, json_lines: bool, quiet: bool, **settings: Any) -> None:
    """Run the tasks that a Python module registers, until SIGINT or SIGTERM.

    MODULE is looked for in the current directory first. NAME is a list of (name, cron text, callback,
    retry delay), or a function that returns one. The first signal waits for what runs, a second one
    does not: what it cuts short starts again next time.

    Exit code 1 if the store cannot be used, the module fails to load, or a second signal came.

    Example: dutiful run tasks:REGISTRATIONS --store sqlite:state.db
    """
    if quiet and json_lines:
        raise InvalidArgumentError("--quiet", True, "prints nothing, so not together with --json-lines")
    registrations = load_registrations(target)
    clock = SystemClock()
    where = zone(settings.pop("timezone") or clock.timezone).tzinfo
    schedules = check_registrations(target, registrations, where, settings["dialect"]).schedules
    board = board_of(schedules, clock.now().astimezone(where))
    with ExitStack() as opened:
        show: Show = print_nothing if quiet else print_json_line if json_lines else print_line
        if show is print_line and sys.stdout.isatty():
            show = _live_table(board, f"dutiful run {target}, {settings['store']}, {where}", clock, opened)
        # Record before showing, so that after a kill the trace holds everything that was shown.
        recorder = _recorder(trace, registrations, where, settings["dialect"], opened)
        observers: list[Show] = [board.see, *recorder, show]
        scheduler = Scheduler(clock=clock, timezone=where, observer=_to_all(observers), **settings)
        asyncio.run(_serve(scheduler, registrations, board))


def _recorder(
    trace: str | None, registrations: Any, where: tzinfo, dialect: str, opened: ExitStack
) -> list[Show]:
    if trace is None:
        return []
    record = TraceFile(trace, registrations, where, dialect)
    opened.callback(record.close)
    return [record]


def _live_table(board: Board, title: str, clock: SystemClock, opened: ExitStack) -> Show:
    table = LiveTable(board, title, clock.now)
    opened.enter_context(table.live)
    return table.show


def _to_all(observers: list[Show]) -> Show:
    def observe(event: SchedulerEvent) -> None:
        for observer in observers:
            # A trace on a full disk must not keep the table from being drawn.
            with suppress(Exception):
                observer(event)

    return observe


async def _serve(scheduler: Scheduler, registrations: Any, board: Board) -> None:
    asked = asyncio.Event()
    with hear_signals(asked, lambda: _last_words(board)):
        try:
            await scheduler.initialize(registrations)
            await asked.wait()
            await scheduler.stop()
        except DutifulError as error:
            # The store or its content is at fault, not the command line: exit code 1, not 2.
            raise click.ClickException("\n".join([str(error), *getattr(error, "__notes__", [])])) from error


def _last_words(board: Board) -> str:
    names = ", ".join(sorted(board.running))
    cut = f"cut short, to start again next time: {names}" if names else "nothing was running"
    return f"Stopped at once; {cut}"
