"""`dutiful audit`: whether the lines of an audit log are those that were written."""

from __future__ import annotations

import click

from dutiful.httpd.audit_chain import AuditFileError, verify


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def audit(files: tuple[str, ...]) -> None:
    """Verify an audit log: each line has the hash of the one before.

    Name the files of a log that was moved away now and then together, the oldest first. Lines taken
    off its end leave no trace in it: keep the last hash elsewhere, and compare.

    Example: dutiful audit audit.jsonl.1 audit.jsonl
    """
    try:
        found = verify(files)
    except AuditFileError as error:
        raise click.ClickException(str(error)) from error
    for path in found.beginnings:
        if path != files[0]:
            click.echo(f"{path} goes on from no other file")
    click.echo(f"{found.lines} lines follow each other; the hash of the last is {found.last}")
