"""`dutiful cluster`: look at the workers that share one database, and move their shards."""

from __future__ import annotations

from typing import Any

import click

from dutiful.cli.api import ask
from dutiful.cli.output import Form, Group, as_json, print_json, print_table, reading, show
from dutiful.cli.schedule_text import moment

_ALONE = "The store of this service is for one machine; PostgreSQL is for many."
_NO_WORKER = "No worker has joined; start one with `dutiful worker`."


@click.group(cls=Group)
def cluster() -> None:
    """Look at the workers that share one database, and move their shards.

    DUTIFUL_URL says where the service is [default: http://127.0.0.1:8787], DUTIFUL_TOKEN is the
    token to send.

    Example: dutiful cluster status
    """


@cluster.command()
@reading
def status(form: Form) -> None:
    """Show the workers, how many shards each leads, and what is late; exit 1 if a shard has no leader.

    Example: dutiful cluster status
    """
    answer = ask("GET", "/cluster")
    nodes, fields = answer["nodes"], ("node_id", "name", "shards", "draining", "joined_at", "release", "pid")
    show(form, answer, lambda: _print_status(answer), lines=nodes, fields=fields)
    if any(shard["node"] is None for shard in answer["shards"]):
        raise SystemExit(1)


@cluster.command()
@reading
def shards(form: Form) -> None:
    """List the shards: who leads each, under which epoch, and how late it is.

    Example: dutiful cluster shards
    """
    found = ask("GET", "/cluster")["shards"]
    fields = ("shard", "node", "epoch", "lag_s")
    show(form, found, lambda: _print_shards(found), lines=found, fields=fields)


def _print_shards(found: list[dict[str, Any]]) -> None:
    rows = [
        [str(shard["shard"]), shard["node"] or "-", str(shard["epoch"]), f"{shard['lag_s']:.1f}"]
        for shard in found
    ]
    print_table(["shard", "led by", "epoch", "late by (s)"], rows, empty=_ALONE)


@cluster.command()
@click.argument("node")
@as_json
def drain(node: str, as_json: bool) -> None:
    """Have a worker give its shards away and take no others; NODE is a name or an id of `status`.

    A shard goes when none of its runs is in flight. `dutiful cluster rebalance` ends it.

    Example: dutiful cluster drain worker-2
    """
    _show(ask("POST", "/cluster/drain", body={"node": node}), as_json)


@cluster.command()
@as_json
def rebalance(as_json: bool) -> None:
    """End every drain, so that the shards spread over all workers again.

    Example: dutiful cluster rebalance
    """
    _show(ask("POST", "/cluster/rebalance"), as_json)


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        _print_status(answer)


def _print_status(answer: dict[str, Any]) -> None:
    rows = [
        [
            node["name"],
            str(len(node["shards"])),
            "draining" if node["draining"] else "working",
            moment(node["joined_at"]),
            node["release"],
        ]
        for node in answer["nodes"]
    ]
    empty = _NO_WORKER if answer["shards"] else _ALONE
    print_table(["node", "shards", "state", "joined (UTC)", "release"], rows, empty=empty)
    if answer["shards"]:
        click.echo(_account(answer))


def _account(answer: dict[str, Any]) -> str:
    """Return one line: how many shards have a leader, how late they are, and the answering host's clock."""
    listed = answer["shards"]
    led = sum(shard["node"] is not None for shard in listed)
    late = max(shard["lag_s"] for shard in listed)
    clock = _clock(answer["clock_offset_ms"])
    return f"{led} of {len(listed)} shards are led; late by {late:.1f} s; clock of the answering host {clock}"


def _clock(offset_ms: int | None) -> str:
    if not offset_ms:
        return "as the database's"
    return f"{abs(offset_ms)} ms {'ahead of' if offset_ms > 0 else 'behind'} the database's"
