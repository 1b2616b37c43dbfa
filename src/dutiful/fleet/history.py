"""The history of a fleet, from its store: the last runs of a schedule, of an agent or of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.runtime.ports import RunFilter

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.run import Run
    from dutiful.runtime.ports import Store

# Most schedules of one agent whose history is read.
_SCHEDULES_MAX = 100_000


async def last_runs(
    store: Store, agent: str | None, schedule: str | None, limit: int, *, failed: bool
) -> list[Run]:
    """Return at most `limit` runs, newest first: of a schedule, of an agent, or of all; or the failed ones.

    Schedules that the fleet no longer has are included.
    """
    if agent is None:
        return await _last_failed(store, None, limit) if failed else await store.recent(limit)
    ids = await _ids_of(store, agent) if schedule is None else [f"{agent}/{schedule}"]
    if failed:
        found = [run for id_ in ids for run in await _last_failed(store, id_, limit)]
    else:
        found = [run for runs in (await store.latest(ids, limit)).values() for run in runs]
    return sorted(found, key=lambda run: run.run_at, reverse=True)[:limit]


async def manual_run(store: Store, agent: str, schedule: str, run_at: Instant) -> Run | None:
    """Return the manual run of a schedule that has this key, or None."""
    rows = await store.ledger(f"{agent}/{schedule}", run_at, 1, "manual")
    return next((run for run in rows if run.run_at == run_at), None)


async def _ids_of(store: Store, agent: str) -> list[str]:
    # The names of other agents may end with the name of this one.
    found = await store.find_ids(f"{agent}/", "", _SCHEDULES_MAX)
    return [id_ for id_ in found if id_.startswith(f"{agent}/")]


async def _last_failed(store: Store, id_: str | None, limit: int) -> list[Run]:
    found: list[Run] = []
    after = None
    while len(found) < limit:
        page = await store.runs(RunFilter(status="FAILED", schedule_id=id_), after, limit - len(found))
        found += page.runs
        after = page.more_after
        if after is None:
            break
    return found
