"""`dutiful top`: schedules on a terminal, redrawn every second."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dutiful.cli.output import color
from dutiful.cli.top_frame import SORTS, Screen, frame, in_order
from dutiful.cli.top_sources import FleetSource, ServiceSource, Source, StoreSource
from dutiful.core.errors import DutifulError, quoted
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.text import Text

    from dutiful.cli.top_frame import Row, Shown

_SECONDS = 1.0
_ROWS = 100
_ARROWS = {"\x1b[A": "k", "\x1b[B": "j", "\x1bOA": "k", "\x1bOB": "j", "\r": "\n"}


@click.command()
@click.option("--fleet", "fleet_file", metavar="FILE", help="Watch the fleet of this file.")
@click.option("--store", metavar="URL", help='Watch the tasks of a library: "sqlite:FILE".')
@click.option("--namespace", default="default", show_default=True, help="With --store.")
@click.option(
    "--view", type=click.Choice(["needs", "running", "next", "all", "fleet"]), help="The first view."
)
@click.option("--plain", is_flag=True, help="Print a line for each change, and draw nothing.")
@color
def top(fleet_file: str | None, store: str | None, namespace: str, view: str | None, plain: bool) -> None:
    """Watch schedules on a terminal: what needs you, what runs, what is next, and why.

    Watches the service at DUTIFUL_URL, a fleet, or the tasks of a library. Into a file or a pipe it prints
    one frame. The key ? lists the keys.

    Example: dutiful top --view next
    """
    source = _source(fleet_file, store, namespace)
    if view is not None and view not in source.views:
        raise click.UsageError(f"--view {view} is for a fleet; name its file with --fleet")
    screen = Screen(view=view or source.first_view, views=source.views)
    try:
        if plain:
            asyncio.run(_print_changes(source, screen))
        elif sys.stdout.isatty() and sys.stdin.isatty():
            asyncio.run(Watch(source, screen, _console()).run())
        else:
            _print_once(source, screen)
    except (KeyboardInterrupt, asyncio.CancelledError):
        # Ctrl-C is the usual way to quit, not a failure. Before the first step of a task it cancels the task.
        return


def _source(fleet_file: str | None, store: str | None, namespace: str) -> Source:
    if fleet_file and store:
        raise click.UsageError("--fleet and --store name two things to watch; give one of them")
    if fleet_file:
        from pathlib import Path

        return FleetSource(Path(fleet_file))
    return StoreSource(store, namespace) if store else ServiceSource()


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, no_color=click.get_current_context().color is False or None)


def _print_once(source: Source, screen: Screen) -> None:
    console = _console()
    screen.width, screen.ascii = console.width, not _is_utf(console)
    shown = source.look(screen.view, "", _ROWS)
    screen.height = len(shown.rows) + 12
    lines = [line.plain.rstrip() for line in frame(shown, screen)[:-1]]
    click.echo("\n".join(lines).rstrip())


async def _print_changes(source: Source, screen: Screen) -> None:
    """Print the state of the service and of each schedule whenever it has changed."""
    clock, before, known = SystemClock(), "", dict[str, tuple[str, str]]()
    while True:
        shown = await asyncio.to_thread(source.look, screen.view, "", _ROWS)
        at = f"{shown.now:%H:%M:%S}"
        # Leave out the age of the last pass, which changes with every look.
        health = shown.health.partition(",")[0]
        if health != before:
            click.echo(f"{at} {health}")
        rows = {row.id: (row.state, row.note) for row in shown.rows}
        for name in sorted(rows.keys() | known.keys()):
            if rows.get(name) != known.get(name):
                state = " ".join(filter(None, rows.get(name, ("no longer listed", ""))))
                click.echo(f"{at} {quoted(name)} {quoted(state)}")
        before, known = health, rows
        await clock.sleep(_SECONDS)


class Watch:
    """The screen, kept up to date: one query of the source per second, one drawing per change."""

    def __init__(self, source: Source, screen: Screen, console: Console) -> None:
        self._source, self._screen, self._console = source, screen, console
        self._shown: Shown | None = None
        self._changed, self._look_now = asyncio.Event(), asyncio.Event()
        # The meaning of the next keys: a text for `_typed`, or the answer to a question.
        self._typing: str | None = None
        self._typed: Callable[[str], None] = self._find
        self._label = ""
        self._asked: tuple[str, Row] | None = None
        self._ended = False

    async def run(self) -> None:
        """Draw until the user quits. Raises ClickException if the first query of the source fails."""
        from rich.live import Live

        loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
        await self._read()
        with _raw_keys(fd), Live(console=self._console, screen=True, auto_refresh=False) as live:
            loop.add_reader(fd, self._read_keys, fd)
            loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
            looking = asyncio.create_task(self._keep_looking())
            try:
                while not self._ended:
                    live.update(_Drawn(self._lines()), refresh=True)
                    self._changed.clear()
                    await self._changed.wait()
            finally:
                looking.cancel()
                loop.remove_reader(fd)
                loop.remove_signal_handler(signal.SIGWINCH)

    def _lines(self) -> list[Text]:
        assert self._shown is not None
        screen, size = self._screen, self._console.size
        screen.width, screen.height, screen.ascii = size.width, size.height, not _is_utf(self._console)
        screen.chosen = max(0, min(screen.chosen, len(self._shown.rows) - 1))
        return frame(self._shown, screen)

    async def _keep_looking(self) -> None:
        clock, wait = SystemClock(), _SECONDS
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look_now.wait(), wait)
            self._look_now.clear()
            began = clock.monotonic()
            await self._look()
            # Query a slow source less often, so that watching takes at most a tenth of its time.
            wait = max(_SECONDS, 9 * (clock.monotonic() - began))
            self._changed.set()

    async def _look(self) -> None:
        """Query the source; if it does not answer, show the problem and keep the last result."""
        try:
            await self._read()
            self._screen.problem = ""
        except (click.ClickException, DutifulError) as error:
            self._screen.problem = _message(error)

    async def _read(self) -> None:
        screen = self._screen
        shown = await asyncio.to_thread(self._source.look, screen.view, screen.find, _ROWS)
        self._shown = replace(shown, rows=in_order(shown.rows, screen.sort))

    # Keys

    def _read_keys(self, fd: int) -> None:
        typed = os.read(fd, 64).decode(errors="ignore")
        for sequence, key in _ARROWS.items():
            typed = typed.replace(sequence, key)
        for key in typed:
            self._press(key)
        self._changed.set()

    def _press(self, key: str) -> None:
        if self._typing is not None:
            self._type(key)
        elif self._asked is not None:
            self._answer(key)
        else:
            self._command(key)

    def _type(self, key: str) -> None:
        """Process a key of a text; Enter uses it, Escape cancels."""
        assert self._typing is not None
        if key in "\n\x1b":
            text, self._typing, self._screen.prompt = self._typing.strip(), None, ""
            if key == "\n":
                self._typed(text)
            return
        self._typing = self._typing[:-1] if key in "\x7f\b" else self._typing + key
        self._screen.prompt = f"{self._label}{self._typing}_"

    def _ask_for_text(self, label: str, use: Callable[[str], None]) -> None:
        self._typing, self._label, self._typed = "", label, use
        self._screen.prompt = f"{label}_"

    def _find(self, text: str) -> None:
        self._screen.find, self._screen.chosen = text, 0
        self._look_now.set()

    def _answer(self, key: str) -> None:
        assert self._asked is not None
        action, row = self._asked
        self._asked, self._screen.prompt = None, ""
        if key in "yY":
            self._do(getattr(self._source, action), row)

    def _command(self, key: str) -> None:
        screen, row = self._screen, self._row()
        if key.isdigit() and 1 <= int(key) <= len(screen.views):
            screen.view, screen.chosen, screen.why = [*screen.views][int(key) - 1], 0, ""
            self._look_now.set()
        elif key in "jk":
            screen.chosen, screen.why = screen.chosen + (1 if key == "j" else -1), ""
        elif key == "q":
            self._ended = True
        elif key == "?":
            screen.help = not screen.help
        elif key == "/":
            self._ask_for_text("find: ", self._find)
        elif key == "s":
            screen.sort = SORTS[(SORTS.index(screen.sort) + 1) % len(SORTS)]
            screen.chosen, screen.why = 0, ""
            self._look_now.set()
        elif row is not None:
            self._command_for(key, row)

    def _command_for(self, key: str, row: Row) -> None:
        if key == "\n":
            self._do(self._source.why, row)
        elif key == "t":
            self._ask("run_now", row, f"Run {quoted(row.id)} now? y or n")
        elif key == "p":
            self._ask_to_pause(row)
        elif key == "o":
            self._do(self._source.open_page, row)
        elif key == "e":
            self._do(self._source.edit, row)

    def _ask_to_pause(self, row: Row) -> None:
        """Ask why, where a pause has a note; else ask for a yes."""
        if row.state != "paused" and self._source.takes_note:
            self._ask_for_text(f"Pause {quoted(row.id)}, because: ", lambda note: self._pause(row, note))
            return
        verb = "Resume" if row.state == "paused" else "Pause"
        self._ask("pause", row, f"{verb} {quoted(row.id)}? y or n")

    def _pause(self, row: Row, note: str) -> None:
        if not note:
            self._screen.why = f"{quoted(row.id)} is not paused: say why, so that others know"
            return
        self._do(lambda row: self._source.pause(row, note), row)

    def _ask(self, action: str, row: Row, question: str) -> None:
        self._asked, self._screen.prompt = (action, row), question

    def _do(self, action: Callable[[Row], str], row: Row) -> None:
        """Run an action in a thread; its answer, or its error, is shown as the reason."""

        async def done() -> None:
            try:
                self._screen.why = await asyncio.to_thread(action, row)
            except (click.ClickException, DutifulError) as error:
                self._screen.why = _message(error)
            self._look_now.set()
            self._changed.set()

        self._doing = asyncio.create_task(done())

    def _row(self) -> Row | None:
        rows = self._shown.rows if self._shown is not None else ()
        return rows[self._screen.chosen] if 0 <= self._screen.chosen < len(rows) else None


def _message(error: click.ClickException | DutifulError) -> str:
    return error.message if isinstance(error, click.ClickException) else str(error)


class _Drawn:
    """Lines that are drawn unchanged, without a blank line at the end of the screen."""

    def __init__(self, lines: list[Text]) -> None:
        self._lines = lines

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text("\n").join(self._lines)


@contextmanager
def _raw_keys(fd: int) -> Iterator[None]:
    """Deliver keys one by one and without echo; Ctrl-C still interrupts."""
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _is_utf(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")
