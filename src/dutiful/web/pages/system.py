"""The page of the system: the leader, its punctuality, the settings in force, and the latest changes."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from dutiful.httpd.audit_reader import READ_MAX, Wanted, read_back
from dutiful.service.board import spread
from dutiful.service.settings import in_force
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.strip import histogram
from dutiful.web.pages import words
from dutiful.web.pages.rendering import LIVE, page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.runtime.ports import Leader
    from dutiful.service.cluster import ClusterView, NodeView
    from dutiful.service.wiring import Service
    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

_FIGURES = (
    "dutiful_schedules_damaged",
    "dutiful_launches_in_flight",
    "dutiful_passes_failed_total",
    "dutiful_pass_seconds",
    "dutiful_executor_answer_seconds",
    "dutiful_store_bytes",
)
_LATEST, _LATEST_BYTES = 5, 65_536


class Node(NamedTuple):
    """A worker of a cluster, and what it does."""

    name: str
    does: str
    release: str
    since: datetime


@router.get("/ui/system", dependencies=[LIVE])
async def system(request: Request, authorized: Reader) -> HTMLResponse:
    """Show the leader, whether it is on time, and the settings in force."""
    authorized.caller.require("admin")
    service = authorized.service
    health = await service.health()
    await service.count_damaged()
    cluster, delays = await service.cluster(), await service.board.delays()
    now = service.clock.now().astimezone(UTC)
    return page(
        "system.html",
        request,
        every=15,
        health=health,
        leaders=leaders_of(cluster, await service.leader(), now, health.leading),
        nodes=nodes_of(cluster),
        figures={name: service.metric(name) for name in _FIGURES},
        store=service.settings.store.partition(":")[0],
        certificates=await service.certificates(),
        drift=spread(delays),
        histogram=histogram(delays),
        census=await service.board.census(),
        settings=in_force(service.settings),
        size_said=size_said,
        expiry_said=expiry_said,
    )


async def leaders_said(service: Service, leading: bool) -> str:
    """Return who leads now and how many stand by; `leading` is whether this process does."""
    return leaders_of(await service.cluster(), await service.leader(), None, leading)


def leaders_of(
    cluster: ClusterView, leader: Leader | None, now: datetime | None, leading: bool = False
) -> str:
    """Return who leads and how many stand by, in a few words; with `now` also since when a process leads."""
    if not cluster.nodes:
        if leader is None:
            # Other processes cannot see who leads a store in memory.
            return "this process leads" if leading else "nobody leads"
        since = None if now is None else words.near(datetime.fromtimestamp(leader.since / 1000, UTC), now)
        return f"process {leader.pid} leads" + ("" if since is None else f" since {since} UTC")
    names = [node.name for node in cluster.nodes if node.shards]
    if len(names) > 1:
        total = words.in_words(len(cluster.nodes)).lower()
        return f"{words.in_words(len(names)).lower()} of {total} nodes lead"
    idle = len(cluster.nodes) - len(names)
    beside = f", {words.in_words(idle).lower()} {'stands' if idle == 1 else 'stand'} by" if idle else ""
    return f"{names[0] if names else 'nobody'} leads{beside}"


def nodes_of(cluster: ClusterView) -> list[Node]:
    """Return the workers of a cluster; a store of one machine has none."""
    epochs = {shard.shard: shard.epoch for shard in cluster.shards}
    return [Node(each.name, _does(each, epochs), each.release, each.joined_at) for each in cluster.nodes]


def _does(node: NodeView, epochs: Mapping[int, int]) -> str:
    if not node.shards:
        return "gives its shards away" if node.draining else "stands by"
    epoch = max(epochs[shard] for shard in node.shards)
    leads = f"leads {len(node.shards)} of {words.counted(len(epochs), 'shard')}, epoch {epoch}"
    return f"{leads}, gives them away" if node.draining else leads


def size_said(size: float) -> str:
    """Return a number of bytes in the unit that gives one to three figures before the point."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}" if size < 10 * scale else f"{size / scale:.0f} {unit}"
    return f"{size / 1000:.0f} kB"


def expiry_said(ends: datetime, now: datetime) -> str:
    """Return how long a certificate is still valid, and until when."""
    left = ends - now
    until = f"{words.moment(ends, now)} UTC"
    if left <= timedelta(0):
        return f"expired, {until}"
    said = words.counted(left.days, "day") if left.days else f"{left.seconds // 3600} h"
    return f"{said}, until {until}"


async def latest_changes(
    authorized: AuthorizedService, schedule_id: str | None = None
) -> list[dict[str, Any]] | None:
    """Return the newest changes, of all schedules or of one.

    None where no file is kept or the caller may not read it.
    """
    path = authorized.service.settings.audit_log
    if path is None or not authorized.caller.may("admin"):
        return None
    size = _LATEST_BYTES if schedule_id is None else READ_MAX
    wanted = Wanted(schedule_id=schedule_id or "")
    return (await asyncio.to_thread(read_back, path, wanted, _LATEST, None, size)).lines
