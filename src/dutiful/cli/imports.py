"""`dutiful import`: schedule files made from what other schedulers run, with everything that differs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dutiful.cli.output import Group, counted, print_json, write_file
from dutiful.core.cron.zone import zone
from dutiful.core.errors import quoted
from dutiful.importers.apscheduler import read_jobs
from dutiful.importers.celery_beat import read_beat_schedule
from dutiful.importers.crontab import read_crontab
from dutiful.importers.imported import NotImportableError, Target, common, to_toml

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.importers.imported import Imported


class Chosen(NamedTuple):
    """The options of every import."""

    file: str
    output: Path | None
    timezone: str
    workflow: str | None
    user: str
    as_json: bool

    def target(self, source: str) -> Target:
        """Return the ids and the zone of the schedules; the format names their workflow by default."""
        zone(self.timezone)
        return Target(self.workflow or source, self.user, self.timezone)


def _importing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the file and the options of every import to a command."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print schedules and differences, as JSON."),
        click.option("--user", default="import", show_default=True, help="The user_id of the schedules."),
        click.option("--workflow", metavar="ID", help="Their workflow_id [default: the format]."),
        click.option(
            *("--timezone", "-z"),
            default="UTC",
            show_default=True,
            help="The zone of texts for which FILE names none.",
        ),
        click.option(
            *("--output", "-o"),
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write here, TOML or JSON by the suffix [default: TOML on standard output].",
        ),
        click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True)),
    ):
        command = option(command)
    return command


@click.group("import", cls=Group)
def import_() -> None:
    """Make a schedule file from what another scheduler runs, and list what differs.

    The file is for `dutiful plan` and `apply`. Differences go to standard error, and into the file as
    comments. What cannot be imported is listed, and the exit code is 1. No foreign code is run.

    Example: dutiful import crontab /etc/crontab --system --output schedules.toml
    """


@import_.command()
@click.option("--system", is_flag=True, help="Each line has a user after its fields, as in /etc/crontab.")
@_importing
def crontab(system: bool, **options: Any) -> None:
    """Read a crontab (- for standard input).

    Example: crontab -l | dutiful import crontab - --timezone Europe/Berlin
    """
    _import("crontab", options, lambda text, target: read_crontab(text, target, system=system))


@import_.command()
@_importing
def kubernetes(**options: Any) -> None:
    """Read the CronJobs in a YAML file (- for standard input), with any number of documents.

    Example: kubectl get cronjobs -o yaml | dutiful import kubernetes -
    """
    try:
        from dutiful.importers.kubernetes import read_cron_jobs
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        message = 'dutiful import kubernetes needs yaml, which is not installed: pip install "dutiful[fleet]"'
        raise click.ClickException(message) from error
    _import("kubernetes", options, read_cron_jobs)


@import_.command()
@_importing
def celery(**options: Any) -> None:
    """Read the beat_schedule that a Python module sets, or one in a JSON file. The module is not run.

    Example: dutiful import celery celery_app.py --output schedules.toml
    """
    is_json = options["file"].endswith(".json")
    _import("celery", options, lambda text, target: read_beat_schedule(text, target, is_json=is_json))


@import_.command()
@_importing
def apscheduler(**options: Any) -> None:
    """Read the jobs that a Python module adds to APScheduler 3. The module is not run.

    Example: dutiful import apscheduler jobs.py --timezone Europe/Berlin
    """
    _import("apscheduler", options, read_jobs)


def _import(source: str, options: dict[str, Any], read: Callable[[str, Target], Imported]) -> None:
    """Write the file, tell what differs, and exit with 1 if something could not be imported."""
    chosen = Chosen(**options)
    imported = read(_text(chosen.file), chosen.target(source))
    if chosen.as_json:
        print_json(_document(imported))
    elif imported.schedules:
        _write(chosen.output, imported)
    if not chosen.as_json:
        _tell(imported)
    if imported.refused:
        raise SystemExit(1)


def _text(path: str) -> str:
    try:
        with click.open_file(path, encoding="utf-8-sig") as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"{quoted(path, 4096)} cannot be read: {reason}") from error


def _write(output: Path | None, imported: Imported) -> None:
    if output is not None and output.suffix == ".json":
        content = json.dumps({"schedules": imported.schedules}, indent=2, ensure_ascii=False) + "\n"
    else:
        try:
            content = to_toml(imported)
        except NotImportableError as error:
            raise click.UsageError(str(error)) from error
    if output is None:
        click.echo(content, nl=False)
    else:
        write_file("--output", output, [content])


def _document(imported: Imported) -> dict[str, Any]:
    return {
        "schedules": imported.schedules,
        "differences": [
            {"schedule_id": schedule_id, **each._asdict()}
            for schedule_id, found in imported.differences.items()
            for each in found
        ],
        "refused": [each._asdict() for each in imported.refused],
    }


def _tell(imported: Imported) -> None:
    """Print what differs, for all schedules and for each, and what could not be imported."""
    shared = common(imported)
    told = [("all of them", each) for each in shared]
    for schedule_id, found in imported.differences.items():
        told += [(schedule_id, each) for each in found if each not in shared]
    sys.stdout.flush()
    for name, each in told:
        click.echo(f"{name}: {each}", err=True)
    for refused in imported.refused:
        place = f" ({refused.place})" if refused.place else ""
        click.echo(f"not imported: {quoted(refused.name)}{place}: {quoted(refused.reason, 1000)}", err=True)
    done = counted(len(imported.schedules), "schedule")
    click.echo(f"{done} imported, {len(imported.refused):,} not; {len(told):,} differences", err=True)
