"""`dutiful cron`: ask a cron text when it fires, what it means and what is odd about it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.output import Form, Group, print_table, reading, show
from dutiful.core.cron.cron import Cron
from dutiful.core.cron.dialect import DIALECTS, legal_dialect
from dutiful.core.cron.lint import DstEffect, Finding, dst_effects, lint
from dutiful.core.cron.zone import DAY_SECONDS, read_instant
from dutiful.core.errors import (
    CronCalculationError,
    InvalidCronExpressionError,
)
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

_COUNT_MAX = 1000


def _cron_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments and options that every command about a cron text takes."""
    options = [
        click.argument("expression"),
        click.option("--timezone", "-z", default="UTC", show_default=True, help="IANA name of the zone."),
        click.option(
            "--dialect", "-d", type=click.Choice(list(DIALECTS)), default="posix", show_default=True
        ),
        click.option(
            "--gap",
            type=click.Choice(["skip", "run_after"]),
            help="Times that DST removes [default: skip].",
        ),
        click.option(
            "--fold",
            type=click.Choice(["both", "first", "last"]),
            help="Times DST repeats [default: both].",
        ),
        click.option(
            "--dst",
            type=click.Choice(["vixie"]),
            help="Preset: fixed times once a day, wildcards as they come.",
        ),
        click.option(
            "--from",
            "-f",
            "since",
            metavar="ISO",
            help="Instant or local time to start from [default: now].",
        ),
        reading,
    ]
    for option in reversed(options):
        command = option(command)
    return command


_count = click.option("--count", "-n", type=click.IntRange(1, _COUNT_MAX), default=5, show_default=True)


@click.group(cls=Group)
def cron() -> None:
    """Ask a cron text when it fires, what it means and what is odd about it.

    Example: dutiful cron explain "0 9 * * 1-5"
    """


@cron.command("next")
@_cron_options
@_count
def next_(expression: str, since: str | None, count: int, form: Form, **settings: Any) -> None:
    """Print the next ticks, with the ones that DST touches marked.

    Example: dutiful cron next "30 2 * * *" --timezone America/New_York --count 3
    """
    parsed = _parse(expression, settings)
    start = _instant(since, parsed)
    _print_ticks(parsed, start, _walk(parsed.next_epoch, start, count, step=0), form)


@cron.command("previous")
@_cron_options
@_count
def previous(expression: str, since: str | None, count: int, form: Form, **settings: Any) -> None:
    """Print the last ticks up to now, the newest first.

    Example: dutiful cron previous "0 9 * * 1-5" --timezone Europe/Berlin
    """
    parsed = _parse(expression, settings)
    start = _instant(since, parsed)
    _print_ticks(parsed, start, _walk(parsed.previous_epoch, start, count, step=-1), form)


@cron.command()
@_cron_options
def explain(expression: str, since: str | None, form: Form, **settings: Any) -> None:
    """Say in English what a cron text means.

    Example: dutiful cron explain "0 9 * * 1-5"
    """
    parsed = _parse(expression, settings)
    try:
        upcoming = parsed.next_epoch(_instant(since, parsed))
    except CronCalculationError:
        upcoming = None
    found = _heading(parsed) | {"next": None if upcoming is None else _iso(parsed, upcoming)}
    show(form, found, lambda: _print_meaning(parsed, upcoming))


def _print_meaning(parsed: Cron, upcoming: int | None) -> None:
    click.echo(parsed.describe())
    click.echo(f"{_settings_line(parsed)}; next {'never' if upcoming is None else _local(parsed, upcoming)}")


@cron.command("lint")
@_cron_options
def lint_(expression: str, since: str | None, form: Form, **settings: Any) -> None:
    """Report what is probably not meant; exit 1 if there is a warning.

    Example: dutiful cron lint "*/7 * * * *" --dialect standard
    """
    try:
        parsed = _parse(expression, settings)
        findings = lint(parsed, datetime.fromtimestamp(_instant(since, parsed), UTC))
    except InvalidCronExpressionError as error:
        findings = [Finding("invalid", "warning", str(error))]
    lines = [asdict(finding) for finding in findings]
    said = [f"{finding.level}: {finding.message} [{finding.code}]" for finding in findings]
    text = "\n".join(said) if said else f"ok: {parsed.describe()}"
    document = {"expression": expression, "findings": lines}
    show(form, document, lambda: click.echo(text), lines=lines, fields=("code", "level", "message"))
    sys.exit(any(finding.level == "warning" for finding in findings))


def _parse(expression: str, settings: dict[str, Any]) -> Cron:
    try:
        return Cron.parse(expression, **settings)
    except InvalidCronExpressionError as error:
        legal = legal_dialect(expression)
        reason = error.reason if legal is None else f"{error.reason} (legal with --dialect {legal})"
        raise InvalidCronExpressionError(expression, error.field, reason) from error


def _instant(since: str | None, parsed: Cron) -> int:
    at = SystemClock().now() if since is None else read_instant("--from", since, parsed.zone.tzinfo)
    return int(at.timestamp() // 1)


def _walk(ask: Callable[[int], int], start: int, count: int, step: int) -> list[int]:
    """Return up to `count` ticks; fewer only at the end of the calendar."""
    ticks: list[int] = []
    try:
        for _ in range(count):
            start = ask(start)
            ticks.append(start)
            start += step
    except CronCalculationError as error:
        if not ticks:
            raise
        click.echo(f"no more: {error.details['cause']}", err=True)
    return ticks


def _print_ticks(parsed: Cron, start: int, ticks: list[int], form: Form) -> None:
    low, high = min(start, *ticks), max(start, *ticks)
    effects = list(dst_effects(parsed, low - DAY_SECONDS, high + DAY_SECONDS))
    rows = [
        {"at": _iso(parsed, t), "utc": _utc(t), "epoch": t, "dst": _mark(parsed, effects, t)} for t in ticks
    ]
    document = _heading(parsed) | {"from": _iso(parsed, start), "ticks": rows}
    show(form, document, lambda: _print_table_of_ticks(parsed, start, ticks, effects), lines=rows)


def _print_table_of_ticks(parsed: Cron, start: int, ticks: list[int], effects: list[DstEffect]) -> None:
    low, high = min(start, *ticks), max(start, *ticks)
    click.echo(f"{parsed.describe()}\n{_settings_line(parsed)}\n")
    rows_ = [(t, True, [_local(parsed, t), _utc(t), _note(parsed, effects, t)]) for t in ticks]
    # A skipped time comes before the tick at the end of its gap, though both have the same instant.
    rows_ += [
        (e.at, False, _skipped_row(e))
        for e in effects
        if parsed.gap == "skip" and e.kind == "gap" and low < e.at <= high
    ]
    rows_.sort(key=lambda row: row[:2], reverse=ticks[-1] < start)
    print_table(["local time", "UTC", ""], [row for *_, row in rows_])


def _mark(parsed: Cron, effects: list[DstEffect], tick: int) -> str | None:
    moves = {"fold"} if parsed.gap == "skip" else {"gap", "fold"}
    return next((effect.kind for effect in effects if effect.kind in moves and effect.touches(tick)), None)


def _note(parsed: Cron, effects: list[DstEffect], tick: int) -> str:
    notes = {
        "gap": "DST: moved out of the gap",
        "fold": f"DST: this time happens twice (fold={parsed.fold})",
    }
    return notes.get(_mark(parsed, effects, tick) or "", "")


def _skipped_row(effect: DstEffect) -> list[str]:
    shown = _wall(datetime.fromtimestamp(effect.first, UTC))
    return [shown, "-", "DST: this time does not exist, skipped (gap=skip)"]


def _heading(parsed: Cron) -> dict[str, Any]:
    return {
        "expression": parsed.text,
        "dialect": parsed.dialect,
        "timezone": parsed.zone.name,
        "gap": parsed.gap,
        "fold": parsed.fold,
        "description": parsed.describe(),
    }


def _settings_line(parsed: Cron) -> str:
    return f"{parsed.zone.name}, {parsed.dialect} dialect, gap={parsed.gap}, fold={parsed.fold}"


def _iso(parsed: Cron, tick: int) -> str:
    return datetime.fromtimestamp(tick, parsed.zone.tzinfo).isoformat()


def _utc(tick: int) -> str:
    return datetime.fromtimestamp(tick, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _local(parsed: Cron, tick: int) -> str:
    at = datetime.fromtimestamp(tick, parsed.zone.tzinfo)
    return f"{_wall(at)} {at.isoformat()[19:]}"


def _wall(at: datetime) -> str:
    return at.strftime("%a %Y-%m-%d %H:%M:%S" if at.second else "%a %Y-%m-%d %H:%M")
