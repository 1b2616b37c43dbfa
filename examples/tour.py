"""A short tour in the terminal: what `make tour` shows. Needs no network and changes nothing."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from dutiful import Cron
from dutiful.cli.main import cli

STOPS = [
    (
        "A cron text in English, with everything that decides when it fires.",
        'cron explain "0 9 * * 1-5" --timezone Europe/Berlin --from 2026-03-27T12:00',
    ),
    (
        "A backup at half past two. On 8 March 2026 New York has no 02:30, and the default is literal.",
        'cron next "30 2 * * *" --timezone America/New_York --from 2026-03-07 --count 2',
    ),
    (
        "A backup should run once a day. The preset moves it out of the gap.",
        'cron next "30 2 * * *" --timezone America/New_York --from 2026-03-07 --count 3 --dst vixie',
    ),
    (
        "In autumn the clocks go back, and half past one comes twice.",
        'cron next "30 1 * * *" --timezone America/New_York --from 2026-11-01 --count 3',
    ),
    (
        "A text that is refused says what to write instead.",
        'cron next "*/20 8-18 * * 1-5" --timezone Europe/Berlin',
    ),
    (
        "A date that cannot exist is refused at once, not searched for in vain.",
        'cron next "0 0 30 2 *"',
    ),
    (
        "A text that is legal, but probably not meant.",
        'cron lint "0 8 1 * 1" --from 2026-01-01',
    ),
]
SIMULATION = (
    "Three days in March, with an hour missing and a process that dies: every tick is accounted for.",
    "simulate examples/schedules.toml --from 2026-03-07T12:00Z --for 3d",
)
HOW_TO_READ = """\
The report of 8 March ran at 07:00Z, which is 03:00 in New York: that day had no 02:30. On 9 March the
process was down from 05:00 to 14:00: the report was caught up with, the index was not, and both are
written down.
"""
NEXT = """\
Try next:
  .venv/bin/dutiful cron next "0 9 * * 1-5" --timezone Asia/Tokyo
  .venv/bin/dutiful cron lint "30 2 * * *" --timezone Europe/Berlin
  .venv/bin/dutiful simulate examples/schedules.toml --from 2026-01-01 --for 365d
  .venv/bin/dutiful --help
Then read docs/start.md and docs/guides/simulate.md. `make test` checks everything."""


def main() -> None:
    """Walk through all stops, then say where to go from here."""
    for number, (title, arguments) in enumerate(STOPS, 1):
        announce(number, title)
        show(arguments)
    announce(len(STOPS) + 1, "The same from Python.")
    count_the_backups()
    title, arguments = SIMULATION
    announce(len(STOPS) + 2, title)
    show(arguments)
    click.echo(HOW_TO_READ)
    click.echo(NEXT)


def announce(number: int, title: str) -> None:
    """Print the heading of a stop."""
    click.secho(f"{number}. {title}", bold=True)


def show(arguments: str) -> None:
    """Print one `dutiful` command and what it prints; refusals and findings are part of the tour."""
    click.secho(f"$ dutiful {arguments}", fg="cyan")
    # So that the tour can be started from anywhere.
    real = arguments.replace("examples/", f"{shlex.quote(str(Path(__file__).parent))}/")
    try:
        cli.main(shlex.split(real), prog_name="dutiful", standalone_mode=False)
    except click.UsageError as error:
        click.secho(f"Error: {error.format_message()}", fg="red")
    except SystemExit as found:
        click.echo(f"(exit code {found.code:d})")
    click.echo()


def count_the_backups() -> None:
    """Print how often a backup at 01:30 and 02:30 runs on the two odd days under each rule."""
    new_york = ZoneInfo("America/New_York")
    odd_days = {
        "8 March": datetime(2026, 3, 8, tzinfo=new_york),
        "1 November": datetime(2026, 11, 1, tzinfo=new_york),
    }
    for rules in ({}, {"gap": "run_after"}, {"fold": "first"}, {"dst": "vixie"}):
        backup = Cron.parse("30 1,2 * * *", timezone=new_york, **rules)
        settings = "".join(f", {name}={value!r}" for name, value in rules.items())
        click.echo(f"Cron.parse({backup.text!r}, timezone=new_york{settings})")
        for name, start in odd_days.items():
            ticks = backup.between(start, start + timedelta(days=1))
            click.echo(f"    {name:10}  " + "  ".join(f"{tick:%H:%M %z}" for tick in ticks))
    click.echo()


if __name__ == "__main__":
    main()
