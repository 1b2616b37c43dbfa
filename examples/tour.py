"""A short tour in the terminal: what `make run` shows. Needs no network and changes nothing."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import click

from dutiful import Cron
from dutiful.cli.main import cli

STOPS = [
    (
        "A cron text in English, with everything that decides when it fires.",
        'explain "0 9 * * 1-5" --timezone Europe/Berlin --from 2026-03-27T12:00',
    ),
    (
        "A backup at half past two. On 8 March 2026 New York has no 02:30, and the default is literal.",
        'next "30 2 * * *" --timezone America/New_York --from 2026-03-07 --count 2',
    ),
    (
        "A backup should run once a day. The preset moves it out of the gap.",
        'next "30 2 * * *" --timezone America/New_York --from 2026-03-07 --count 3 --dst vixie',
    ),
    (
        "In autumn the clocks go back, and half past one comes twice.",
        'next "30 1 * * *" --timezone America/New_York --from 2026-11-01 --count 3',
    ),
    (
        "A text that is refused says what to write instead.",
        'next "*/20 8-18 * * 1-5" --timezone Europe/Berlin',
    ),
    (
        "A date that cannot exist is refused at once, not searched for in vain.",
        'next "0 0 30 2 *"',
    ),
    (
        "A text that is legal, but probably not meant.",
        'lint "0 8 1 * 1" --from 2026-01-01',
    ),
]
NEXT = """\
Try next:
  .venv/bin/dutiful cron next "0 9 * * 1-5" --timezone Asia/Tokyo
  .venv/bin/dutiful cron lint "30 2 * * *" --timezone Europe/Berlin
  .venv/bin/dutiful cron --help
Then read docs/start.md. `make test` checks everything; the scheduler itself is still to come."""


def main() -> None:
    """Walk through all stops, then say where to go from here."""
    for number, (title, arguments) in enumerate(STOPS, 1):
        click.secho(f"{number}. {title}", bold=True)
        show(arguments)
    click.secho(f"{len(STOPS) + 1}. The same from Python.", bold=True)
    count_the_backups()
    click.echo(NEXT)


def show(arguments: str) -> None:
    """Print one `dutiful cron` command and what it prints; refusals and findings are part of the tour."""
    click.secho(f"$ dutiful cron {arguments}", fg="cyan")
    try:
        cli.main(["cron", *shlex.split(arguments)], prog_name="dutiful", standalone_mode=False)
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
