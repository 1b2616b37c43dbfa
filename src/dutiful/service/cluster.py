"""The cluster as operators see it: its nodes, who leads which shard, how late each shard is."""

from __future__ import annotations

import os
import socket
import uuid
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from dutiful.runtime.cluster_ports import Member
from dutiful.service.errors import AmbiguousNodeError, UnknownNodeError
from dutiful.service.views import moment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dutiful.runtime.cluster_ports import View


class NodeView(NamedTuple):
    """A worker of the cluster."""

    # A new id at every start of the process; `name` is for people.
    node_id: str
    name: str
    release: str
    pid: int
    joined_at: datetime
    draining: bool
    shards: tuple[int, ...]


class ShardView(NamedTuple):
    """A shard, the name of the node that leads it, and how long its most overdue schedule has waited."""

    shard: int
    node: str | None
    epoch: int
    lag_s: float


class ClusterView(NamedTuple):
    """The cluster at one moment. A store for one machine has neither nodes nor shards to show."""

    now: datetime
    # How many ms the clock of the answering host is ahead of the database's clock.
    clock_offset_ms: int | None = None
    nodes: Sequence[NodeView] = ()
    shards: Sequence[ShardView] = ()


def this_node(name: str | None) -> Member:
    """Return this process as a member, under the given name or under its host and process id."""
    pid = os.getpid()
    return Member(uuid.uuid4().hex, name or f"{socket.gethostname()}:{pid}", version("dutiful"), pid)


def cluster_view(view: View, clock_offset_ms: int | None) -> ClusterView:
    """Return the nodes and shards of a look, as operators see them."""
    names = {member.owner: member.name for member in view.members}
    nodes = [
        NodeView(
            member.owner,
            member.name,
            member.release,
            member.pid,
            moment(member.joined_at),
            member.draining,
            tuple(shard for shard, owner in enumerate(view.owners) if owner == member.owner),
        )
        for member in view.members
    ]
    shards = [
        ShardView(shard, None if owner is None else names.get(owner, owner), epoch, _lag_s(view, shard))
        for shard, (owner, epoch) in enumerate(zip(view.owners, view.epochs, strict=True))
    ]
    return ClusterView(moment(view.now_ms), clock_offset_ms, nodes, shards)


def _lag_s(view: View, shard: int) -> float:
    wake = view.wakes.get(shard)
    return 0.0 if wake is None else max(0, view.now_ms - wake) / 1000


def member_named(view: View, node: str) -> Member:
    """Return the member with this name or id; raise UnknownNodeError, or AmbiguousNodeError for several."""
    found = [member for member in view.members if node in (member.owner, member.name)]
    if not found:
        raise UnknownNodeError(node, [member.name for member in view.members])
    if len(found) > 1:
        raise AmbiguousNodeError(node, [member.owner for member in found])
    return found[0]
