"""Checks of derived columns: counts of open runs, the shard of each state, states of no declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.stores.integrity import Inconsistency

if TYPE_CHECKING:
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.edits import Places

# One statement, and therefore one snapshot: a pass changes runs and counts in one transaction.
_COUNTS = (
    "SELECT id, open_runs, in_flight, open_from, count(phase) AS open,"
    " count(phase) FILTER (WHERE phase IN ('launched', 'accepted')) AS flying, min(run_at) AS first"
    " FROM declarations JOIN states USING (number) LEFT JOIN runs ON schedule = number AND phase <> 'ended'"
    " WHERE namespace = $1 GROUP BY number, id, open_runs, in_flight, open_from"
    " HAVING open_runs <> count(phase) OR min(run_at) < coalesce(open_from, min(run_at) + 1)"
    " OR in_flight <> count(phase) FILTER (WHERE phase IN ('launched', 'accepted'))"
)
_PLACED = "SELECT id, capacity_group, shard FROM declarations JOIN states USING (number) WHERE namespace = $1"
_UNDECLARED = (
    "SELECT states.number FROM states JOIN shards USING (shard)"
    " LEFT JOIN declarations ON declarations.number = states.number"
    " WHERE shards.namespace = $1 AND declarations.number IS NULL"
)


async def inconsistencies(session: Session, namespace: str, places: Places) -> list[Inconsistency]:
    """Return the schedules whose derived columns are not what they should be."""
    found = [
        Inconsistency(
            row["id"],
            f"its state has open_runs {row['open_runs']}, in_flight {row['in_flight']} and open_from"
            f" {row['open_from']}, and its ledger {row['open']}, {row['flying']} and {row['first']}",
        )
        for row in await session.rows(_COUNTS, namespace)
    ]
    for schedule_id, group, shard in await session.rows(_PLACED, namespace):
        right = places.shards[places.place(schedule_id, group)]
        if shard != right:
            found.append(Inconsistency(schedule_id, f"is in shard {shard}, and belongs to shard {right}"))
    rows = await session.rows(_UNDECLARED, namespace)
    return found + [Inconsistency("", f"the state {number} has no declaration") for (number,) in rows]
