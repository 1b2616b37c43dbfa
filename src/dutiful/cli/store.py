"""`dutiful store`: prepares a store, checks it, or copies it to another one."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.output import Form, Group, as_json, print_json, print_table, progress_bar, reading, show
from dutiful.core.errors import InvalidArgumentError
from dutiful.runtime.cluster_ports import Sharded
from dutiful.stores.integrity import inconsistencies
from dutiful.stores.transfer import TABLES, copy
from dutiful.stores.url import sqlite_path, store_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from dutiful.runtime.cluster_ports import View

# The default of DUTIFUL_SHARDS; a test compares the two.
_SHARDS_OF_A_SERVICE = 16
_url = click.argument("url", metavar="URL")
_namespace = click.option("--namespace", default="default", show_default=True)


@click.group(cls=Group)
def store() -> None:
    """Make a store ready, look it over, or copy it to another one.

    URL is "sqlite:FILE" or "postgresql://USER@HOST/DATABASE". Default namespaces: `default` for tasks of a
    program, `service` for the service, `fleet` for a fleet.

    Example: dutiful store check sqlite:dutiful.db
    """


@store.command()
@_url
def migrate(url: str) -> None:
    """Bring the schema of a store up to date, and make the store where there is none.

    Every process does this when it starts. By itself it lets a user with the right to make tables prepare a
    database for processes that have no such right.

    Example: dutiful store migrate postgresql://postgres@localhost/jobs
    """
    asyncio.run(_migrate(url))
    click.echo("The schema is up to date.")


async def _migrate(url: str) -> None:
    async with _opened(url, "default"):
        pass


@store.command()
@_url
@_namespace
@reading
def check(url: str, namespace: str, form: Form) -> None:
    """Look a store over: rows, leaders, and what cannot be read or does not fit; exit 1 if there is any.

    Reads every row. Finds schedules and runs that cannot be read, states and declarations without each other
    and, in PostgreSQL, wrong counts of open runs and schedules in a wrong shard.

    Example: dutiful store check sqlite:state.db
    """
    _refuse_missing(url)
    with progress_bar("reading every schedule"):
        found = asyncio.run(_check(url, namespace))
    counts = [{"table": table, "rows": count} for table, count in found["rows"].items()]
    show(form, found, lambda: _print_check(found, namespace), lines=counts)
    if found["damaged"] or found["inconsistent"]:
        raise click.exceptions.Exit(1)


def _print_check(found: dict[str, Any], namespace: str) -> None:
    _print_rows(found["rows"], namespace)
    if len(found["shards"]) > 1:
        print_table(
            ["shard", "leader", "epoch"],
            [[str(each["shard"]), each["leader"] or "none", str(each["epoch"])] for each in found["shards"]],
        )
    else:
        click.echo(f"leader: {found['leader'] or 'none'}")
    for wrong in found["damaged"] + found["inconsistent"]:
        click.echo(f"{wrong['id']}: {wrong['problem']}")


async def _check(url: str, namespace: str) -> dict[str, Any]:
    async with _opened(url, namespace) as opened:
        # Read every schedule, to find damage that no pass has met yet.
        await opened.every()
        leader = await opened.leader()
        return {
            "rows": {table: await opened.count_rows(table) for table in TABLES if table != "texts"},
            "leader": None if leader is None else f"process {leader.pid}",
            "shards": _leaders(await opened.look()) if isinstance(opened, Sharded) else [],
            "damaged": [{"id": id_, "problem": problem} for id_, problem in await opened.damaged()],
            "inconsistent": [wrong._asdict() for wrong in await inconsistencies(opened)],
        }


def _print_rows(counts: dict[str, int], namespace: str) -> None:
    print_table(["table", "rows"], [[table, f"{count:,}"] for table, count in counts.items()])
    if not any(counts.values()):
        click.echo(
            f"The namespace {namespace!r} is empty; --namespace names another, such as service or fleet."
        )


def _leaders(view: View) -> list[dict[str, Any]]:
    names = {member.owner: member.name for member in view.members}
    return [
        {"shard": shard, "leader": None if owner is None else names.get(owner, owner), "epoch": epoch}
        for shard, (owner, epoch) in enumerate(zip(view.owners, view.epochs, strict=True))
    ]


@store.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@_namespace
@click.option("--to-namespace", help="The namespace to write [default: the same one].")
@click.option(
    "--shards", type=click.IntRange(1, 256), default=None,
    help="Shards of a new PostgreSQL namespace [default: 16 for a service, otherwise 1].",
)  # fmt: skip
@as_json
def copy_(
    source: str, target: str, namespace: str, to_namespace: str | None, shards: int | None, as_json: bool
) -> None:
    """Copy a namespace to another store, with its whole ledger, and compare the numbers of rows.

    No process may lead either store meanwhile. PostgreSQL refuses edits and reports of other processes while
    it is read from, and a copy during which anything was written fails. Runs that were in flight are adopted
    by the next leader of the copy, and ticks that are owed stay owed. The source is left as it is: start
    nothing on it afterwards, or its ticks run twice.

    Example: dutiful store copy sqlite:state.db postgresql://postgres@localhost/jobs
    """
    _refuse_missing(source)
    with progress_bar("copying rows") as progress:
        counts = asyncio.run(_copy(source, target, namespace, to_namespace or namespace, shards, progress))
    if as_json:
        print_json(counts)
        return
    _print_rows(counts, namespace)
    click.echo("Both stores have these rows. Start your processes on the copy only.")


async def _copy(
    source: str,
    target: str,
    namespace: str,
    to_namespace: str,
    shards: int | None,
    progress: Callable[[float], None] | None,
) -> dict[str, int]:
    async with AsyncExitStack() as both:
        read = await both.enter_async_context(_opened(source, namespace))
        if shards is None:
            facts = await read.begin_transfer()
            shards = _SHARDS_OF_A_SERVICE if facts is not None and facts.door == "service" else 1
        written = await both.enter_async_context(_opened(target, to_namespace, shards))
        return await copy(read, written, progress)


@asynccontextmanager
async def _opened(url: str, namespace: str, shards: int = 1) -> AsyncIterator[Any]:
    if url.startswith("memory:"):
        raise InvalidArgumentError(
            "store", url, "only its own process can look into it; name a file or a database"
        )
    opened = store_for(url, namespace, shards=shards)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


def _refuse_missing(url: str) -> None:
    """Raise InvalidArgumentError for a file that does not exist: opening it would create an empty one."""
    import os

    if url.startswith("sqlite:") and not os.path.exists(sqlite_path(url)):
        raise InvalidArgumentError("store", url, "there is no such file")
