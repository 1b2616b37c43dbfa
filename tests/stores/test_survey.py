"""A survey, reconciled, is what comparing every stored schedule with the declaration gives."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stores.notation import MINUTE, MINUTELY, T0, put

from dutiful.core.cadence import Every, OnDemand
from dutiful.core.changes import Changes
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.reconcile import Difference, reconcile
from dutiful.core.policy import Policy, Reason
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status
from dutiful.core.schedule import Schedule, SkippedRange, State, Task, Window
from dutiful.stores.memory import MemoryStore
from dutiful.stores.sqlite import SqliteStore

FIELDS = ("task", "cadence", "policy", "window")
IDS = [*"abcde"]
SCHEDULES = st.builds(
    Schedule,
    st.sampled_from(IDS),
    st.builds(Task, st.sampled_from("tu"), st.sampled_from(["", "p"])),
    st.sampled_from([MINUTELY, MINUTELY, Cron.parse("0 * * * *"), Every(MINUTE), OnDemand()]),
    st.builds(Policy, grace=st.sampled_from([0, 0, 5])),
    st.builds(Window, st.sampled_from([None, None, 1]), st.none()),
    st.booleans(),
    st.sampled_from([None, T0 + MINUTE]),
)
STATES = st.sampled_from(
    [{}, {"attempted_at": T0, "failed_at": T0}, {"skipped": SkippedRange(T0, Reason.MISSED, 1)}]
)
PHASES = st.sampled_from([None, None, Phase.LAUNCHED, Phase.ACCEPTED, Phase.RETRY, Phase.QUEUED])
STORED = st.lists(st.tuples(SCHEDULES, STATES, PHASES), unique_by=lambda each: each[0].id)
# Nearly as stored, or anything.
DECLARED = st.lists(SCHEDULES, unique_by=lambda each: each.id)
STORES = {"memory": lambda _: MemoryStore(), "sqlite": lambda folder: SqliteStore(Path(folder, "state.db"))}


def run(id_, phase):
    return Run(id_, T0, "schedule", Status.STARTED, phase, T0, created_at=T0, updated_at=T0)


def compared(declared, every):
    """Return (differences, (schedule, version) of the puts, removes), each schedule compared by hand."""
    differences, puts, stored = [], [], {due.schedule.id: due for due in every}
    for new in declared:
        due = stored.pop(new.id, None)
        if due is None:
            differences.append(Difference(new.id, "added"))
            puts.append((new, 0))
            continue
        old = due.schedule
        changed = tuple(
            (f, getattr(old, f), getattr(new, f)) for f in FIELDS if getattr(old, f) != getattr(new, f)
        )
        orphaned = any(each.phase in IN_FLIGHT for each in due.runs)
        if orphaned or changed:
            differences.append(Difference(new.id, "orphaned" if orphaned else "overridden", changed))
        if changed:
            puts.append((new._replace(paused=old.paused, pause_until=old.pause_until), due.version))
    differences += [Difference(id_, "removed") for id_ in stored]
    return differences, puts, [*stored]


async def story(store, stored, declared):
    await store.open()
    try:
        for schedule, state, phase in stored:
            rows = [] if phase is None else [run(schedule.id, phase)]
            await store.apply(Changes([put(schedule, **state)], rows=rows))
        expected = compared(declared, await store.every())
        differences, changes = reconcile(await store.survey(declared), lambda _: State(T0))
        found = differences, [(each.schedule, each.version) for each in changes.puts], [*changes.removes]
        assert found == expected
        await store.apply(changes)
        after = [(due.schedule[:-2], bool(due.runs)) for due in await store.some(IDS)]
        open_ids = {schedule.id for schedule, _, phase in stored if phase is not None}
        assert after == [(each[:-2], each.id in open_ids) for each in sorted(declared)]
    finally:
        await store.close()


@pytest.mark.parametrize("new_store", STORES.values(), ids=STORES)
@settings(
    max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=[*HealthCheck]
)
@given(stored=STORED, data=st.data())
def test_a_survey_leads_to_the_changes_that_comparing_everything_leads_to(new_store, stored, data):
    declared = data.draw(DECLARED)
    kept = data.draw(st.lists(st.sampled_from([each for each, _, _ in stored]))) if stored else []
    declared = [*{each.id: each for each in (*declared, *kept)}.values()]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(story(new_store(folder), stored, declared))
