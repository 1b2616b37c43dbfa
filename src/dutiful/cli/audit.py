"""`dutiful audit`: verifies that the lines of an audit log are unchanged."""

from __future__ import annotations

import click

from dutiful.cli.output import Form, reading, show
from dutiful.httpd.audit import AuditFileError, ChainedFile, TornRecordError, Verified, verify


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--repair", is_flag=True, help="Mark a record that was cut off at the end of the last file.")
@reading
def audit(files: tuple[str, ...], repair: bool, form: Form) -> None:
    """Verify an audit log: each line has the hash of the one before.

    Name all files of a rotated log together, the oldest first. Lines removed from the end leave no
    trace in the log: store the last hash in another place, and compare.

    A record that a crash cut off is reported differently from a line that was changed. --repair marks
    it as torn, as the service does when it writes the next line; nothing is removed.

    Example: dutiful audit audit.jsonl.1 audit.jsonl
    """
    try:
        found = _mended(files) if repair else verify(files)
    except AuditFileError as error:
        raise click.ClickException(str(error)) from error
    document = {**found._asdict(), "torn": [each._asdict() for each in found.torn]}
    show(form, document, lambda: _print(found, files[0]))


def _print(found: Verified, first: str) -> None:
    if found.lines and first not in found.beginnings:
        click.echo(
            f"{first} goes on from a file that is not named here, or lines at its beginning were taken out"
        )
    for path in found.beginnings:
        if path != first:
            click.echo(f"{path} goes on from no other file")
    for path, line, size in found.torn:
        click.echo(f"{path}, line {line}: a record that was cut off after {size} bytes, marked as such")
    click.echo(f"{found.lines} lines follow each other; the hash of the last is {found.last}")


def _mended(files: tuple[str, ...]) -> Verified:
    """Return the verified chain, after marking a torn record at the end of the last file."""
    try:
        return verify(files)
    except TornRecordError as error:
        # Repair only the end of the last file: older files and changed lines must not be written to.
        if error.details["path"] != files[-1]:
            raise
        file = ChainedFile(files[-1])
        file.mend()
        file.close()
        return verify(files)
