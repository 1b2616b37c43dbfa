"""What people are shown of all schedules at once: counts and a few rows, read along indexes."""

# ruff: noqa: S608 - the statements are made of conditions written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import CodecError
from dutiful.core.policy import Reason
from dutiful.core.run import Status
from dutiful.core.tally import Tally, in_order, spread
from dutiful.stores.sqlite.reads import ID_AND_RUN, readable_run, some

if TYPE_CHECKING:
    import sqlite3

    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.policy import Policy
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Due
    from dutiful.stores.sqlite.reads import Damage
    from dutiful.stores.sqlite.texts import Texts

# ?1 is the namespace and ?2 the owner; NULL stands for all owners.
_OWNED = (
    "declarations.namespace = ?1 AND (?2 IS NULL OR (json_valid(payload) AND payload ->> '$.user_id' = ?2))"
)
_END_OF_TIME = 2**63 - 1
_OF_ITS_SCHEDULE = f"CROSS JOIN declarations ON declarations.number = runs.schedule WHERE {_OWNED}"
_TALLIES = (
    "SELECT run_at - run_at % ?5, status, reason, sum(ticks) FROM runs NOT INDEXED"
    f" {_OF_ITS_SCHEDULE} AND run_at >= ?3 AND run_at < ?4 AND run_until IS NULL"
    " AND created_at IS NOT NULL GROUP BY 1, 2, 3"
)
# A stretch may have begun long before the time in question.
_STRETCHES = (
    "SELECT status, reason, run_at, run_until, ticks FROM runs INDEXED BY runs_stretches"
    f" {_OF_ITS_SCHEDULE} AND run_until >= ?3 AND run_at < ?4 AND created_at IS NOT NULL"
)
_OPEN = (
    f"SELECT {ID_AND_RUN} INDEXED BY runs_open {_OF_ITS_SCHEDULE} AND runs.phase <> 'ended'"
    " AND created_at IS NOT NULL ORDER BY runs.run_at, id, runs.kind LIMIT ?3"
)
# The condition is that of the index states_troubled.
_TROUBLED = (
    "declarations.number IN (SELECT number FROM states INDEXED BY states_troubled WHERE namespace = ?1 AND"
    " (quarantine IS NOT NULL OR failed_at > coalesce(succeeded_at, 0)"
    " OR (skipped_ticks >= 3 AND skipped_reason <> 'paused')))"
    " AND (?2 IS NULL OR (json_valid(payload) AND payload ->> '$.user_id' = ?2)) ORDER BY id LIMIT ?3"
)
_CADENCES = (
    "SELECT cadence_number, policy_number, count(*) FROM declarations"
    f" WHERE damage IS NULL AND paused = 0 AND {_OWNED} GROUP BY 1, 2"
)


_FIND_IDS = (
    f"SELECT id FROM declarations WHERE {_OWNED} AND id > ?3 AND instr(id, ?4) > 0 AND damage IS NULL"
    " ORDER BY id LIMIT ?5"
)


def tallies(
    connection: sqlite3.Connection,
    namespace: str,
    owner: str | None,
    since: Instant,
    until: Instant,
    width: int,
) -> list[Tally]:
    """Return how many recorded ticks ended how, in buckets of time."""
    counts: dict[tuple[Instant, str, str | None], int] = {}
    for at, status, reason, ticks in connection.execute(_TALLIES, (namespace, owner, since, until, width)):
        counts[at, status, reason] = ticks
    for status, reason, first, last, ticks in connection.execute(
        _STRETCHES, (namespace, owner, since, until)
    ):
        for at, share in spread(first, last, ticks, width):
            if since <= at < until:
                counts[at, status, reason] = counts.get((at, status, reason), 0) + share
    return in_order(
        Tally(at, Status(status), None if reason is None else Reason(reason), ticks)
        for (at, status, reason), ticks in counts.items()
    )


def open_runs(connection: sqlite3.Connection, namespace: str, owner: str | None, limit: int) -> list[Run]:
    """Return runs that have not ended, the oldest first."""
    rows = connection.execute(_OPEN, (namespace, owner, limit))
    return [readable_run(schedule_id, row) for schedule_id, *row in rows]


def find_ids(
    connection: sqlite3.Connection, namespace: str, owner: str | None, part: str, after: str, limit: int
) -> list[str]:
    """Return ids that contain a text and come after another id."""
    return [row[0] for row in connection.execute(_FIND_IDS, (namespace, owner, after, part, limit))]


def troubled(
    connection: sqlite3.Connection, texts: Texts, namespace: str, owner: str | None, limit: int
) -> tuple[list[Due], list[Damage]]:
    """Return schedules that need somebody, and those found damaged."""
    return some(connection, texts, namespace, _TROUBLED, (owner, limit))


def cadences(
    connection: sqlite3.Connection, texts: Texts, namespace: str, owner: str | None
) -> list[tuple[Cadence, Policy, int]]:
    """Return each cadence and policy that can be read, with the number of schedules that are not paused."""
    found = []
    for cadence_number, policy_number, count in connection.execute(_CADENCES, (namespace, owner)):
        try:
            cadence, policy, _ = texts[cadence_number, policy_number]
        except CodecError:
            continue
        found.append((cadence, policy, count))
    return found
