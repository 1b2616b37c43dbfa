"""What every durable store does with rows that a person or a disk has changed: each stops its schedule alone.

Bind it like the contract, with `edit`, which runs SQL on the database behind the store's back.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.stores.notation import MINUTE, T0, declare, due_at, ending, pass_at, put, schedule

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes
from dutiful.core.errors import ImpossibleKey, MissingKey, StoreError
from dutiful.core.plan.reconcile import Survey
from dutiful.core.policy import Capacity
from dutiful.runtime.ports import RunFilter
from dutiful.stores.codec import encode_cadence

CHECKSUM = "declaration: the row was changed outside dutiful: its checksum does not match"
A, B, C = schedule("a"), schedule("b"), schedule("c", Every(5000))
PERIODLESS = '{"v":1,"kind":"every","anchor":"start"}'
OF_A = "WHERE number = (SELECT cadence_number FROM declarations WHERE id = 'a')"
LATER = T0 + 10**9


async def lead_and_rearm(store):
    await store.lead("me")
    await store.rearm(0, 1)


READS = {
    "get": lambda store: store.get("a"),
    "some": lambda store: store.some(["a", "b"]),
    "page": lambda store: store.page("", 10),
    "every": lambda store: store.every(),
    "soonest": lambda store: store.soonest(10),
    "survey": lambda store: store.survey([A, B]),
    "load": lambda store: store.load(T0 + 10**10, 10),
    "rearm": lead_and_rearm,
}
LEDGERS = {
    "ledger": lambda store: store.ledger("a", None, 10),
    "latest": lambda store: store.latest(["a"], 10),
    "recent": lambda store: store.recent(10),
    "runs": lambda store: store.runs(RunFilter(), None, 10),
    "open_runs": lambda store: store.open_runs(10),
}


async def found_damaged(store):
    """Look at every row, and return those that cannot be read."""
    await store.every()
    return await store.damaged()


async def declare_for_later(store):
    await store.apply(Changes([put(A, LATER), put(B, LATER)]))


async def run_two(store):
    await declare(store, A, B)
    await store.lead("me")
    await store.settle([ending(launch, T0) for launch in await pass_at(store, T0)], 1)


class DamageContract:
    """Subclass and give it `new_store(directory)` and `edit(directory, statement)`."""

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path):
        self.directory = tmp_path

    def alter(self, statement):
        self.edit(self.directory, statement)

    def live(self, scenario):
        """Run a scenario over a store that is opened for it, as a process does."""

        async def run():
            store = self.new_store(self.directory)
            await store.open()
            try:
                return await scenario(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def spoil(self, id_="a"):
        self.alter(f"UPDATE declarations SET payload = 'spoilt' WHERE id = '{id_}'")

    def mend(self, id_="a"):
        self.alter(f"UPDATE declarations SET payload = 'hello {id_}' WHERE id = '{id_}'")

    # Declarations

    def test_a_changed_declaration_stops_its_schedule_alone(self):
        self.live(run_two)
        self.spoil()

        async def go_on(store):
            await store.lead("me")
            return await store.get("a"), await due_at(store, T0 + MINUTE), await found_damaged(store)

        assert self.live(go_on) == self.live(go_on) == (None, ["b"], [("a", CHECKSUM)])

    def test_a_damaged_schedule_is_found_without_being_due_and_is_not_counted(self):
        self.live(declare_for_later)
        self.spoil()

        async def look(store):
            before = await store.count()
            found = await found_damaged(store)
            loaded = await store.load(T0 + 10**10, 10)
            return before, found, await store.count(), [each.schedule.id for each in loaded.batch.due]

        assert self.live(look) == (2, [("a", CHECKSUM)], 1, ["b"])

    @pytest.mark.parametrize("read", READS.values(), ids=READS)
    def test_any_read_that_finds_a_schedule_damaged_marks_it(self, read):
        self.live(declare_for_later)
        self.spoil()

        async def look(store):
            assert await store.damaged() == []
            await read(store)
            return await store.damaged()

        assert self.live(look) == [("a", CHECKSUM)]

    def test_a_repaired_schedule_goes_on_with_the_next_leader(self):
        self.live(run_two)
        self.spoil()
        self.live(lambda store: due_at(store, T0 + MINUTE))
        self.mend()

        async def go_on(store):
            marked = await store.damaged()
            await store.lead("me")
            return marked, await found_damaged(store), await due_at(store, 0)

        assert self.live(go_on) == ([("a", CHECKSUM)], [], ["a"])

    def test_declaring_a_damaged_schedule_anew_repairs_it_and_keeps_its_history(self):
        self.live(run_two)
        self.spoil()

        async def repair(store):
            assert len(await found_damaged(store)) == 1
            await declare(store, A)
            found = await store.get("a")
            return await found_damaged(store), found.schedule, len(await store.ledger("a", None, 10))

        assert self.live(repair) == ([], A, 1)

    def test_a_schedule_deleted_by_hand_is_gone_with_all_that_belongs_to_it(self):
        self.live(run_two)
        self.alter("DELETE FROM declarations WHERE id = 'a'")

        async def go_on(store):
            due = await due_at(store, T0 + MINUTE)
            runs = [run.schedule_id for run in await store.recent(10)]
            return due, runs, await store.ledger("a", None, 10)

        assert self.live(go_on) == (["b"], ["b"], [])

    def test_a_damaged_schedule_is_read_again_for_the_key_that_is_to_blame(self):
        async def look(store):
            return [await store.faulty_key(id_) for id_ in ("a", "b", "nobody's")]

        self.live(run_two)
        assert self.live(look) == [None, None, None]
        self.spoil()
        assert self.live(look) == [None, None, None]
        self.alter(f"UPDATE texts SET text = '{PERIODLESS}' {OF_A}")
        assert self.live(look) == [MissingKey("cadence.period"), MissingKey("cadence.period"), None]

    # States and runs

    def test_a_state_that_cannot_be_read_stops_its_schedule_alone(self):
        self.live(run_two)
        self.alter(
            "UPDATE states SET skipped_at = 1, skipped_reason = 'bored'"
            " WHERE number = (SELECT number FROM declarations WHERE id = 'a')"
        )

        async def look(store):
            others = [due.schedule.id for due in await store.every()]
            return others, await store.damaged(), await store.faulty_key("a")

        unknown = ImpossibleKey("state.reason", "bored", "is unknown")
        assert self.live(look) == (["b"], [("a", "state: the reason 'bored' is unknown")], unknown)

    def test_a_run_that_cannot_be_read_stops_its_schedule_alone(self):
        async def launch(store):
            await declare(store, A, B)
            await store.lead("me")
            await pass_at(store, T0)

        self.live(launch)
        self.alter(
            "UPDATE runs SET phase = 'lunched'"
            " WHERE schedule = (SELECT number FROM declarations WHERE id = 'a')"
        )

        async def go_on(store):
            await store.lead("me")
            return await due_at(store, T0), await found_damaged(store)

        assert self.live(go_on) == (["b"], [("a", f"run at {T0}: the word 'lunched' is unknown")])

    @pytest.mark.parametrize("read", LEDGERS.values(), ids=LEDGERS)
    def test_a_ledger_that_cannot_be_read_names_its_schedule(self, read):
        async def launch(store):
            await declare(store, A)
            await store.lead("me")
            await pass_at(store, T0)

        self.live(launch)
        self.alter("UPDATE runs SET phase = 'lunched'")
        with pytest.raises(
            StoreError, match=r"The ledger of 'a' cannot be read: .*repair the row in the tab"
        ):
            self.live(read)

    def test_a_run_of_a_damaged_schedule_holds_no_place_in_its_group(self):
        one_place = Capacity("agent", 1)

        async def launch(store):
            await declare(store, schedule("a", capacity=one_place), schedule("b", capacity=one_place))
            await store.lead("me")
            assert [launch.run.schedule_id for launch in await pass_at(store, T0)] == ["a"]

        self.live(launch)
        self.spoil()

        async def go_on(store):
            epoch = await store.lead("me")
            return [launch.run.schedule_id for launch in await pass_at(store, T0 + MINUTE, epoch)]

        assert self.live(go_on) == ["b"]

    # Texts

    def test_a_changed_text_stops_all_that_refer_to_it_and_no_others(self):
        self.live(lambda store: declare(store, A, B, C))
        self.alter(f"UPDATE texts SET text = replace(text, '* *', '1 *') {OF_A}")

        async def look(store):
            return await due_at(store, T0), await store.damaged()

        assert self.live(look) == (["c"], [("a", CHECKSUM), ("b", CHECKSUM)])

    @pytest.mark.parametrize(
        "damage",
        [f"UPDATE texts SET text = replace(text, '* *', '1 *') {OF_A}", f"DELETE FROM texts {OF_A}"],
        ids=["changed", "deleted"],
    )
    def test_a_schedule_of_a_changed_text_differs_from_any_declaration(self, damage):
        self.live(lambda store: declare(store, A, B, C))
        self.alter(damage)

        async def look(store):
            survey = await store.survey([A, B, C])
            return survey, [id_ for id_, _ in await store.damaged()]

        assert self.live(look) == (Survey([(A, None), (B, None)], []), ["a", "b"])

    @pytest.mark.parametrize(
        "changed", ["'soon'", "replace(text, ':', ': ')"], ids=["no-text", "same-meaning"]
    )
    def test_declaring_a_changed_text_anew_repairs_it_for_all_schedules(self, changed):
        self.live(lambda store: declare(store, A, B))
        self.alter(f"UPDATE texts SET text = {changed} {OF_A}")

        async def heal(store):
            assert [id_ for id_, _ in await found_damaged(store)] == ["a", "b"]
            await declare(store, A)
            assert [id_ for id_, _ in await store.damaged()] == ["b"]
            assert (await store.get("a")).schedule == A
            await store.lead("me")
            return await due_at(store, T0), await store.damaged()

        assert self.live(heal) == (["b", "a"], [])

    @pytest.mark.parametrize("column", ["cadence", "policy"])
    def test_a_schedule_without_its_text_is_reported(self, column):
        self.live(lambda store: declare(store, A, B))
        self.alter(f"UPDATE declarations SET {column}_number = 7 WHERE id = 'a'")
        problem = f"{column}: the table texts has no number 7, where its text should be"
        assert self.live(found_damaged) == [("a", problem)]

    def test_texts_that_were_deleted_come_back_with_a_declaration(self):
        self.live(lambda store: declare(store, A, B))
        self.alter("DELETE FROM texts")

        async def heal(store):
            assert [id_ for id_, _ in await found_damaged(store)] == ["a", "b"]
            await declare(store, A, B)
            return await found_damaged(store), await due_at(store, T0)

        assert self.live(heal) == ([], ["a", "b"])

    def test_a_text_that_was_changed_is_not_kept(self):
        self.live(lambda store: declare(store, A))
        longer = encode_cadence(A.cadence).replace(":", ": ")
        self.alter(f"UPDATE texts SET text = '{longer}' {OF_A}")
        assert self.live(found_damaged) == [("a", CHECKSUM)]
        self.alter(f"UPDATE texts SET text = '{encode_cadence(A.cadence)}' {OF_A}")

        async def repaired(store):
            await store.lead("me")
            return await found_damaged(store)

        assert self.live(repaired) == []
