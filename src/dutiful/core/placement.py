"""Which shards a process takes and gives, decided from one look at the cluster.

Every process decides for itself, from its own view. Equal views give equal decisions, so processes that see
the same thing never work against each other; where views differ, the locks and the fence of the store decide.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dutiful.core.cadence import Instant

# A process counts as a member after this many ms. So a process that dies while it starts moves no shard, and
# a process that has regained its session takes back its shards before others give it more.
_COUNTS_AFTER = 2500
# A shard is free while its owner replaces a lost session; other processes leave it alone for this many ms.
_RETURNS_WITHIN = 1000
# If the chosen process has not taken a free shard after this many ms, any other process may take it.
_TAKEN_WITHIN = 1000


class Placement(NamedTuple):
    """A decision: the shards (by place) to lead from now on, and the shards to release."""

    take: tuple[int, ...] = ()
    give: tuple[int, ...] = ()


class Seen(NamedTuple):
    """The instants since which a process has seen each member, and each shard free, in every look."""

    now: Instant = 0
    members: Mapping[str, Instant] = {}
    free: Mapping[int, Instant] = {}

    def after(self, now: Instant, members: Collection[str], owners: Sequence[str | None]) -> Seen:
        """Return the memory after one more look, made at `now`."""
        free = [place for place, owner in enumerate(owners) if owner is None]
        return Seen(
            now,
            {member: self.members.get(member, now) for member in members},
            {place: self.free.get(place, now) for place in free},
        )


class Scene(NamedTuple):
    """The input of `place`: one look at the cluster, and the memory after it."""

    me: str
    # Living processes that may lead. Draining processes are left out, unless all of them drain.
    members: Collection[str]
    # By place: the process that holds the lock, and the process that the row of the shard names.
    owners: Sequence[str | None]
    claims: Sequence[str | None]
    seen: Seen
    # Whether this process has just regained its own session. After a restart of the database all processes
    # come back at different moments, so each takes only the shards that it had.
    regained: bool = False
    # Places that this process has released because it could not serve them.
    shunned: Collection[int] = ()


def place(scene: Scene) -> Placement:
    """Return which free shards this process takes and which of its own it gives away."""
    mine = [place for place, owner in enumerate(scene.owners) if owner == scene.me]
    if scene.me not in scene.members:
        return Placement(give=tuple(mine))
    free = [place for place, owner in enumerate(scene.owners) if owner is None and place not in scene.shunned]
    if scene.regained:
        return Placement(take=tuple(place for place in free if scene.claims[place] == scene.me))
    goals = spread(scene.owners, _counted(scene))
    take = [place for place in free if _may_take(scene, place, goals[place])]
    return Placement(tuple(take), tuple(place for place in mine if goals[place] != scene.me))


def _counted(scene: Scene) -> list[str]:
    """Return the members that count, this process always among them, in a stable order."""
    known = scene.seen.now - _COUNTS_AFTER
    return sorted(
        member
        for member in scene.members
        if member == scene.me or member in scene.owners or scene.seen.members[member] <= known
    )


def _may_take(scene: Scene, place: int, goal: str | None) -> bool:
    claim, waited = scene.claims[place], scene.seen.now - scene.seen.free[place]
    if claim == scene.me:
        return True
    # A claim that was not released belongs to a process that may be about to reconnect.
    waits = _RETURNS_WITHIN if claim in scene.members else 0
    return waited >= waits and (goal == scene.me or waited >= waits + _TAKEN_WITHIN)


def spread(owners: Sequence[str | None], members: Sequence[str]) -> list[str | None]:
    """Return the process that should own each shard: loads differ by at most one, and few shards move.

    Free shards go to the poorest member first. Shards of processes that are not among the members stay where
    they are: such a process gives them away itself, or loses its locks when it dies.
    """
    goals = list(owners)
    loads = {member: owners.count(member) for member in members}
    free = [shard for shard, owner in enumerate(owners) if owner is None]
    while free and loads:
        _assign(goals, loads, free.pop(0))
    while loads and max(loads.values()) - min(loads.values()) >= 2:
        richest = min(loads, key=lambda member: (-loads[member], member))
        held = [shard for shard, goal in enumerate(goals) if goal == richest]
        loads[richest] -= 1
        _assign(goals, loads, min(held, key=lambda shard: weight(richest, shard)))
    return goals


def _assign(goals: list[str | None], loads: dict[str, int], shard: int) -> None:
    """Assign a shard to the member with the fewest shards."""
    poorest = min(loads, key=lambda member: (loads[member], -weight(member, shard), member))
    goals[shard] = poorest
    loads[poorest] += 1


def weight(member: str, shard: int) -> int:
    """Return the rendezvous weight of a member for a shard: the same in every process."""
    return int.from_bytes(sha256(f"{member}:{shard}".encode()).digest()[:8])
