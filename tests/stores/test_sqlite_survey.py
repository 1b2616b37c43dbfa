"""A survey of a file that was edited by hand: rows whose columns do not settle the matter are decoded."""

from __future__ import annotations

from datetime import timedelta, tzinfo

import pytest
from tests.stores.notation import T0, checksum, declare, schedule
from tests.stores.sqlite_rig import edit, own_text, run_all, with_store

from dutiful.core.cron.cron import Cron
from dutiful.core.plan.reconcile import Survey
from dutiful.core.schedule import Task
from dutiful.stores.codec import declare as encode
from dutiful.stores.sqlite import SqliteStore

CHECKSUM = "declaration: the row was changed outside dutiful: its checksum does not match"
DAMAGES = {
    "UPDATE declarations SET payload = 'hello' WHERE id = 'a'": CHECKSUM,
    "UPDATE declarations SET checksum = checksum + 1 WHERE id = 'a'": CHECKSUM,
    "UPDATE declarations SET paused = 1 WHERE id = 'a'": CHECKSUM,
    "UPDATE declarations SET pause_until = 5 WHERE id = 'a'": CHECKSUM,
    "UPDATE declarations SET payload = CAST(x'ff' AS TEXT) WHERE id = 'a'": CHECKSUM,
    "; ".join(own_text("cadence", "'{}'")): ("cadence: has version 'None'; this release reads version 1"),
    "; ".join(own_text("policy", "'{}'")): "policy: has version 'None'; this release reads version 1",
    "UPDATE declarations SET cadence_number = 7 WHERE id = 'a'": (
        "cadence: the table texts has no number 7, where its text should be"
    ),
    "UPDATE declarations SET policy_number = 7 WHERE id = 'a'": (
        "policy: the table texts has no number 7, where its text should be"
    ),
    "UPDATE declarations SET damage = 'was unreadable' WHERE id = 'a'": "was unreadable",
    "UPDATE states SET skipped_at = 1, skipped_reason = 'bored' WHERE number = 1": (
        "state: the reason 'bored' is unknown"
    ),
    "UPDATE runs SET phase = 'lunched' WHERE schedule = 1": f"run at {T0}: the word 'lunched' is unknown",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


async def live(store):
    await declare(store, schedule("a"), schedule("b"))
    await store.lead("me")
    await run_all(store, T0, 1)


@pytest.mark.parametrize(("damage", "problem"), DAMAGES.items())
def test_a_damaged_schedule_is_marked_and_differs_from_any_declaration(path, damage, problem):
    with_store(path, live)
    edit(path, *damage.split("; "))

    async def look(store):
        survey = await store.survey([schedule("a"), schedule("b")])
        assert await store.damaged() == [("a", problem)]
        assert await store.survey([schedule("a"), schedule("b")]) == survey
        return survey

    assert with_store(path, look) == Survey([(schedule("a"), None)], [])


def test_a_damaged_schedule_that_is_not_declared_is_marked_and_left_alone(path):
    with_store(path, lambda store: declare(store, schedule("a"), schedule("b"), schedule("c")))
    edit(path, "UPDATE declarations SET payload = 'hello' WHERE id = 'a'")

    async def look(store):
        return await store.survey([schedule("b")]), await store.damaged()

    assert with_store(path, look) == (Survey([], ["c"]), [("a", CHECKSUM)])


@pytest.mark.parametrize(
    "times",
    [
        "attempted_at = NULL, succeeded_at = 5",
        "attempted_at = NULL, failed_at = 5",
        "attempted_at = -1",
        "attempted_at = 253402300800000",
        "attempted_at = 5, succeeded_at = -1",
        "attempted_at = 5, failed_at = 253402300800000",
    ],
)
def test_times_that_no_engine_has_written_are_shown(path, times):
    with_store(path, lambda store: declare(store, schedule("a"), schedule("b")))
    edit(path, f"UPDATE states SET {times} WHERE number = 1")

    async def look(store):
        return await store.survey([schedule("a"), schedule("b")]), await store.get("a")

    survey, known = with_store(path, look)
    assert survey == Survey([(schedule("a"), known)], [])


def test_a_declaration_without_a_state_is_none(path):
    with_store(path, lambda store: declare(store, schedule("a"), schedule("b")))
    edit(path, "DELETE FROM states WHERE number = 1")
    declared = [schedule("a"), schedule("b")]
    assert with_store(path, lambda store: store.survey(declared)) == Survey([(schedule("a"), None)], [])


def test_a_namespace_sees_its_own(path):
    with_store(path, lambda store: declare(store, schedule("a"), schedule("b")))

    async def look(_):
        other = SqliteStore(path, namespace="other")
        await other.open()
        try:
            await declare(other, schedule("c"))
            return await other.survey([schedule("a")])
        finally:
            await other.close()

    assert with_store(path, look) == Survey([(schedule("a"), None)], ["c"])


def test_texts_of_a_later_release_are_compared_by_their_meaning(path):
    with_store(path, lambda store: declare(store, schedule("a")))

    columns = encode(schedule("a"))
    longer = columns._replace(policy=columns.policy.replace('"v":1', '"v":1,"shiny":2'))
    edit(path, *own_text("policy", f"'{longer.policy}'"))
    edit(path, f"UPDATE declarations SET checksum = {checksum('a', longer)}")

    async def look(store):
        return await store.survey([schedule("a")]), await store.get("a"), await store.damaged()

    survey, known, damaged = with_store(path, look)
    assert (known.schedule, damaged) == (schedule("a"), [])
    assert survey == Survey([(schedule("a"), known)], [])


class Nowhere(tzinfo):
    """A zone without a name, which no file can hold."""

    def utcoffset(self, _):
        return timedelta(0)

    dst = utcoffset


def test_a_declaration_that_no_row_can_hold_differs(path):
    nowhere = schedule("a", Cron.parse("* * * * *", "posix", Nowhere()))
    texts = schedule("b")._replace(task=Task("greet", "\0"))

    async def look(store):
        await declare(store, schedule("a"), schedule("b"))
        return await store.survey([nowhere, texts]), [await store.get("a"), await store.get("b")]

    survey, [a, b] = with_store(path, look)
    assert survey == Survey([(nowhere, a), (texts, b)], [])
