"""`dutiful run`: runs the registrations of a module in the foreground, until a signal.

MODULE:NAME on the command line is loaded here; every error in it says what to write.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib
import inspect
import logging
import os
import sys
import traceback
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.run_display import LiveTable, board_of, print_json_line, print_line, print_nothing
from dutiful.cli.signals import hear_signals
from dutiful.core.cron.dialect import DIALECTS
from dutiful.core.cron.zone import zone
from dutiful.core.errors import DutifulError, InvalidArgumentError
from dutiful.declarative.registration import check
from dutiful.declarative.scheduler import Scheduler
from dutiful.monitor import TraceFile
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo
    from types import ModuleType

    from dutiful.cli.run_display import Board
    from dutiful.declarative.observe import SchedulerEvent
    from dutiful.declarative.registration import Registered

    Show = Callable[[SchedulerEvent], None]


_FORM = "a list of (name, cron text, callback, retry delay)"


@click.command()
@click.argument("target", metavar="MODULE:NAME")
@click.option(
    "--store",
    default="sqlite:dutiful.db",
    show_default=True,
    help='"sqlite:FILE", "postgresql://…" or "memory:".',
)
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
    retry delay), or a function that returns one. The first signal waits for the runs in flight, a
    second one does not: runs that it interrupts start again next time.

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
    # The events are shown here; without a handler Python would print their warnings too.
    logging.getLogger("dutiful").addHandler(logging.NullHandler())
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
            # An error such as a full disk under the trace must not stop the other observers.
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
            # The store or its content is wrong, not the command line: exit code 1, not 2.
            raise click.ClickException("\n".join([str(error), *getattr(error, "__notes__", [])])) from error


def _last_words(board: Board) -> str:
    names = ", ".join(sorted(board.running))
    cut = f"cut short, to start again next time: {names}" if names else "nothing was running"
    return f"Stopped at once; {cut}"


class TargetError(click.UsageError):
    """The module or the name on the command line does not exist, or is not a list."""


def load_registrations(target: str) -> list[Any] | tuple[Any, ...]:
    """Return the list that `target` names in a module, or that the named function returns."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise TargetError(f"{target!r} names no list: write MODULE:NAME, such as tasks:REGISTRATIONS")
    value = _attribute(_module(module_name), name, target)
    if callable(value):
        value = _called(value, target)
    if not isinstance(value, list | tuple):
        raise TargetError(
            f"{target} is of type {type(value).__name__}; write {_FORM}, or a function that returns one"
        )
    return value


def check_registrations(target: str, registrations: Any, timezone: tzinfo, dialect: str) -> Registered:
    """Return the checked registrations, or raise the first error in them, with its index."""
    try:
        return check(registrations, timezone, dialect)
    except DutifulError as error:
        text = "\n".join([str(error), *getattr(error, "__notes__", [])])
        raise TargetError(f"{target}{_place(registrations, timezone, dialect)}: {text}") from error


def _place(registrations: Any, timezone: tzinfo, dialect: str) -> str:
    """Return the index of the first registration that is refused on its own; empty for duplicates."""
    for index, registration in enumerate(registrations):
        try:
            check([registration], timezone, dialect)
        except DutifulError:
            return f"[{index}]"
    return ""


def _module(name: str) -> ModuleType:
    if name.startswith(".") or "/" in name:
        raise TargetError(f"{name!r} is not the name of a module; write it with dots, such as jobs.nightly")
    # As with `python -m`, modules in the current directory come first.
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        raise TargetError(f"there is no module {name!r} here{_near(name, _modules_here())}") from None
    except Exception as error:
        raise _broken(name, error) from error


def _modules_here() -> list[str]:
    here = Path.cwd()
    return sorted(path.stem for path in (*here.glob("*.py"), *here.glob("*/__init__.py")))


def _attribute(value: Any, path: str, target: str) -> Any:
    for name in path.split("."):
        if not hasattr(value, name):
            where = getattr(value, "__name__", type(value).__name__)
            known = [known for known in dir(value) if not known.startswith("_")]
            raise TargetError(f"{target}: {where} has no {name!r}{_near(name, known)}")
        value = getattr(value, name)
    return value


def _called(function: Any, target: str) -> Any:
    try:
        answer = function()
    except Exception as error:
        raise _broken(target, error) from error
    if inspect.iscoroutine(answer):
        answer.close()
        raise TargetError(f"{target} is an async function; write a plain one that returns {_FORM}")
    return answer


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _broken(name: str, error: Exception) -> click.ClickException:
    """Return the user's exception with its traceback, without frames of dutiful and importlib."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
    text = "".join(traceback.format_list(own) + traceback.format_exception_only(error))
    return click.ClickException(f"{name} could not be loaded:\n{text.rstrip()}")
