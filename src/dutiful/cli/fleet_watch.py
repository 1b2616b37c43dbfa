"""`dutiful fleet status --watch`: the same again every second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 1.0


def watch_status(draw: Callable[[], str], *, live: bool) -> None:
    """Show the text of `draw` again and again: in place on a terminal, else below the last one."""
    clock = SystemClock()
    if not live:
        while True:
            click.echo(draw())
            asyncio.run(clock.sleep(_SECONDS))
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(Text(draw()), console=console, auto_refresh=False, vertical_overflow="crop") as shown:
        while True:
            asyncio.run(clock.sleep(_SECONDS))
            shown.update(Text(draw()), refresh=True)
