"""`dutiful plan` and `dutiful apply`: schedules in files, and the fire times that they would change."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dutiful.cli.api import Refused, ask, path_of
from dutiful.cli.output import (
    Form,
    as_json,
    color,
    counted,
    print_json,
    print_table,
    progress_bar,
    reading,
    show,
)
from dutiful.cli.schedule_files import FiledSchedule, read_schedules
from dutiful.core.errors import InvalidArgumentError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set

_files = click.argument("files", metavar="FILE…", nargs=-1, required=True)
_prune = click.option(
    "--prune",
    metavar="NAME=VALUE",
    help="Also delete the schedules with this label that no file has; those in the files need the label.",
)
# The service previews at most so many schedules in one request, and stores so many.
_PREVIEWED, _STORED = 100, 10_000
_PAGE = 1000
_ORDER = ("delete", "change", "new", "unchanged")
_TO_DO = {"new": "new", "change": "to change", "delete": "to delete"}
_DONE = {"new": "new", "change": "changed", "delete": "deleted"}
_FIELDS = (
    *("schedule_id", "action", "changed", "added", "removed", "moved", "compared_until"),
    *("warnings", "place"),
)


class Planned(NamedTuple):
    """What applying the files does to one schedule: `action` is delete, change, new or unchanged.

    `body` is the upsert, None for a schedule to delete; `found` is the preview of the service, or the view of
    the schedule to delete.
    """

    schedule_id: str
    action: str
    place: str
    body: dict[str, Any] | None
    found: dict[str, Any]

    @property
    def warnings(self) -> list[str]:
        """Return what is odd about a cron text that is not stored yet, and why runs would fail."""
        findings = () if self.action == "unchanged" else self.found.get("findings", ())
        odd = [one["message"] for one in findings if one["level"] == "warning"]
        return [*odd, *self.found.get("warnings", ())]

    def as_json(self) -> dict[str, Any]:
        """Return the plan of this schedule as a document."""
        told = {"schedule_id": self.schedule_id, "action": self.action, "place": self.place}
        if self.body is None:
            return {**told, "preview": self.found["preview"], "warnings": []}
        return {**self.found, **told, "warnings": self.warnings}


@click.command()
@_files
@_prune
@click.option("--check", is_flag=True, help="Exit with 1 if anything would change.")
@reading
def plan(files: tuple[str, ...], prune: str | None, check: bool, form: Form) -> None:
    """Say what schedules in files would change, and which fire times; store nothing.

    A file is TOML or JSON with the keys of an upsert; - is standard input, JSON. A schedule that no file has
    is left alone, unless --prune finds it.

    Example: dutiful plan schedules.toml --prune team=billing --check
    """
    planned = _planned(read_schedules(files), prune)
    lines = [one.as_json() for one in planned]
    show(form, _document(planned), lambda: _print(planned), lines=lines, fields=_FIELDS)
    if check and _changes(planned):
        raise SystemExit(1)


@click.command()
@_files
@_prune
@click.option("--yes", is_flag=True, help="Do not ask.")
@color
@as_json
def apply(files: tuple[str, ...], prune: str | None, yes: bool, as_json: bool) -> None:
    """Store the schedules of files, all or none, after showing the plan and asking.

    Nothing is stored, with exit code 1, if one of the schedules was changed since the plan was made.

    Example: dutiful apply schedules.toml --prune team=billing --yes
    """
    if "-" in files and not yes:
        raise click.UsageError("- is standard input, which cannot answer a question too: give --yes")
    planned = _planned(read_schedules(files), prune)
    changes = _changes(planned)
    if not as_json:
        _print(planned)
    if changes and not yes:
        click.confirm("Apply these changes?", abort=True, err=True)
    _store(changes, prune)
    if as_json:
        print_json(_document(planned))
    elif changes:
        click.echo(f"applied: {_totals(planned, _DONE)}")


def _planned(filed: Sequence[FiledSchedule], prune: str | None) -> list[Planned]:
    """Return what applying does to each schedule: deletions first, then changes and what is new."""
    leftover = [] if prune is None else _leftover(filed, prune)
    planned = [Planned(one["schedule_id"], "delete", "", None, one) for one in leftover]
    with progress_bar("comparing schedules") as progress:
        for first in range(0, len(filed), _PREVIEWED):
            some = filed[first : first + _PREVIEWED]
            answer = _ask_about(some, "/schedules/bulk/preview", [one.body for one in some])
            for one, found in zip(some, answer["schedules"], strict=True):
                planned.append(Planned(one.schedule_id, _action(found), one.place, one.body, found))
            if progress is not None:
                progress((first + len(some)) / len(filed))
    return sorted(planned, key=lambda one: _ORDER.index(one.action))


def _ask_about(some: Sequence[FiledSchedule | Planned], path: str, body: Any) -> Any:
    """Return the answer to a bulk; a refusal names the place of a schedule in its file, not in the bulk."""
    try:
        return ask("POST", path, body=body)
    except Refused as error:
        message = re.sub(r"\bschedules\.(\d+)\b", lambda found: some[int(found[1])].place, error.message)
        raise Refused(error.code, message) from error


def _action(found: dict[str, Any]) -> str:
    return "new" if found["created"] else "change" if found["changed"] else "unchanged"


def _leftover(filed: Sequence[FiledSchedule], prune: str) -> list[dict[str, Any]]:
    """Return the stored schedules with the label that no file has.

    Raises InvalidArgumentError where a schedule of the files lacks the label: it would not be found once it
    is removed from its file.
    """
    name, equals, value = prune.partition("=")
    if not name or not equals:
        raise InvalidArgumentError(
            "--prune", prune, "write NAME=VALUE, a label of all schedules in the files"
        )
    without = [one.place for one in filed if (one.body.get("labels") or {}).get(name) != value]
    if without:
        advice = f"every schedule in the files needs this label; {without[0]} has it not"
        raise InvalidArgumentError("--prune", prune, advice)
    known = {one.schedule_id for one in filed}
    labelled = _labelled(prune, {str(one.body["user_id"]) for one in filed})
    return [one for one in labelled if one["schedule_id"] not in known]


def _labelled(label: str, users: Set[str]) -> list[dict[str, Any]]:
    """Return the stored schedules with a label that the caller may see, of these users at least.

    A list without a user has those of all users only for a token that acts for all, else the caller's own.
    """
    found = [*_listed(label, None)]
    for user in sorted(users - {one["user_id"] for one in found}):
        found += _listed(label, user)
    return found


def _listed(label: str, user: str | None) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        query = {"label": label, "user_id": user, "limit": _PAGE, "cursor": cursor}
        page = ask("GET", "/schedules", query)
        yield from page["schedules"]
        if (cursor := page["next_cursor"]) is None:
            return


def _changes(planned: Sequence[Planned]) -> list[Planned]:
    return [one for one in planned if one.action != "unchanged"]


def _store(changes: Sequence[Planned], prune: str | None) -> None:
    """Store what is new or changed in one bulk, then delete; refuse an outdated plan before either."""
    upserts = [one for one in changes if one.body is not None]
    deletions = [one for one in changes if one.body is None]
    if len(upserts) > _STORED:
        raise click.UsageError(f"{len(upserts):,} schedules would change; apply at most {_STORED:,} at once")
    if deletions and prune is not None:
        # Deleting takes no revision, so look again just before.
        labelled = _labelled(prune, {one.found["user_id"] for one in deletions})
        now = {one["schedule_id"]: one["updated_at"] for one in labelled}
        for one in deletions:
            if now.get(one.schedule_id) != one.found["updated_at"]:
                raise _outdated(
                    f"The schedule {quoted(one.schedule_id)!r} was changed since the plan was made"
                )
    if upserts:
        body = {
            "schedules": [one.body for one in upserts],
            "revisions": {one.schedule_id: one.found["revision"] for one in upserts},
        }
        try:
            with progress_bar("storing schedules"):
                _ask_about(upserts, "/schedules/bulk", body)
        except Refused as error:
            raise _outdated(error.message) if error.code == "outdated_plan" else error from error
    _delete(deletions)


def _delete(deletions: Sequence[Planned]) -> None:
    """Delete schedules one by one; the error of one says how many are left."""
    for done, one in enumerate(deletions):
        try:
            ask("DELETE", path_of(one.schedule_id))
        except click.ClickException as error:
            # Another apply may have been faster.
            if isinstance(error, Refused) and error.code == "unknown_schedule":
                continue
            left = f"{len(deletions) - done:,} of {counted(len(deletions), 'schedule')} to delete are left"
            told = f"{error.message}\nThe changes are stored; {left}: apply again."
            failure = Refused(error.code, told) if isinstance(error, Refused) else click.ClickException(told)
            raise failure from error


def _outdated(message: str) -> click.ClickException:
    return click.ClickException(f"{message.partition(';')[0]}. Nothing is stored: look at the plan again.")


def _document(planned: Sequence[Planned]) -> dict[str, Any]:
    counts = {action: sum(one.action == action for one in planned) for action in _ORDER}
    return {"schedules": [one.as_json() for one in planned], "counts": counts}


def _print(planned: Sequence[Planned]) -> None:
    head = ["schedule", "plan", "settings", "fire times"]
    rows = [[one.schedule_id, one.action, _settings(one), _fire_times(one)] for one in planned]
    print_table(head, rows, soft=head.index("settings"))
    for one in planned:
        for warning in one.warnings:
            click.echo(f"warning: {one.schedule_id}: {warning}")
    if not _changes(planned):
        click.echo(f"nothing changes: {counted(len(planned), 'schedule')} as in the files")
        return
    same = sum(one.action == "unchanged" for one in planned)
    click.echo(f"{_totals(planned, _TO_DO)}, {same:,} unchanged")


def _totals(planned: Sequence[Planned], words: dict[str, str]) -> str:
    counts = {action: sum(one.action == action for one in planned) for action in words}
    return ", ".join(f"{counts[action]:,} {word}" for action, word in words.items())


def _settings(one: Planned) -> str:
    return ", ".join(one.found["changed"]) if one.action == "change" else ""


def _fire_times(one: Planned) -> str:
    """Return the fire times that change, in words, and whether they are held up or let go."""
    told = _first(one) if one.action in ("delete", "new") else _moves(one.found)
    is_paused = one.body is not None and one.body.get("paused")
    if is_paused and (one.action == "new" or "paused" in one.found["changed"]):
        return f"{told}; none fires while it is paused"
    return f"{told}; resumed" if "paused" in one.found.get("changed", ()) else told


def _first(one: Planned) -> str:
    if not one.found["preview"]:
        return "never"
    verb = "next was" if one.action == "delete" else "first"
    return f"{_meaning(one.found)}{verb} {_at(one.found['preview'][0])}"


def _moves(found: dict[str, Any]) -> str:
    counts = [f"{len(found[name]):,} {name}" for name in ("moved", "removed", "added") if found[name]]
    if not counts:
        return "unchanged"
    until = "" if found["compared_until"] is None else f" until {found['compared_until'][:10]}"
    return f"{', '.join(counts)}{until}; first {_difference(found)}"


def _meaning(found: dict[str, Any]) -> str:
    return f"{found['meaning']}; " if "meaning" in found else ""


def _difference(found: dict[str, Any]) -> str:
    """Return the first fire time that differs, as it is now and as it becomes."""
    differences: list[tuple[datetime, str]] = []
    told: dict[str, Callable[[Any], tuple[str, str]]] = {
        "moved": lambda one: (one["before"], f"{_at(one['before'])} moves to {_at(one['after'])}"),
        "removed": lambda one: (one, f"{_at(one)} goes"),
        "added": lambda one: (one, f"{_at(one)} is new"),
    }
    for name, tell in told.items():
        for one in found[name][:1]:
            instant, text = tell(one)
            differences.append((datetime.fromisoformat(instant), text))
    return min(differences, key=lambda each: each[0].astimezone(UTC))[1]


def _at(text: str) -> str:
    at = datetime.fromisoformat(text)
    return f"{at:%a %Y-%m-%d %H:%M:%S} {at.isoformat()[-6:]}"
