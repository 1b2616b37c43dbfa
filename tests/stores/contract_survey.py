"""What every store promises of a survey; see `contract.py`."""

from __future__ import annotations

from dataclasses import replace

from tests.stores.notation import MINUTE, T0, declare, end, pass_at, put, schedule, stored

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes
from dutiful.core.cron.cron import Cron
from dutiful.core.plan.edit import paused_until
from dutiful.core.plan.reconcile import Survey
from dutiful.core.policy import Reason
from dutiful.core.schedule import SkippedRange, Task, Window

EDITS = {
    "task": {"task": Task("scold", "hello a")},
    "payload": {"task": Task("greet", "hello")},
    "cadence": {"cadence": Cron.parse("0 * * * *")},
    "kind of cadence": {"cadence": Every(MINUTE)},
    "policy": {"policy": replace(schedule().policy, grace=1)},
    "start": {"window": Window(T0, None)},
    "end": {"window": Window(None, T0 + MINUTE)},
}


class SurveyContract:
    """A survey names what is not stored as declared, or not at rest; and nothing else."""

    @stored
    async def test_nothing_declared_and_nothing_stored_differ_in_nothing(self, store):
        assert await store.survey([]) == Survey([], [])

    @stored
    async def test_a_schedule_stored_as_declared_is_not_in_the_survey(self, store):
        kept = [schedule("b"), schedule("a", Every(MINUTE)), schedule("c")._replace(window=Window(T0, None))]
        await declare(store, *kept)
        assert await store.survey(kept) == Survey([], [])
        # The declared schedule is equal to the stored one, and another object.
        again = [schedule("c")._replace(window=Window(T0, None)), schedule("b", Cron.parse("* * * * *"))]
        assert await store.survey(again) == Survey([], ["a"])

    @stored
    async def test_declared_schedules_that_are_not_stored_come_in_the_order_of_the_declaration(self, store):
        declared = [schedule("z"), schedule("b"), schedule("y"), schedule("a")]
        await declare(store, schedule("b"))
        assert await store.survey(declared) == Survey([(declared[n], None) for n in (0, 2, 3)], [])

    @stored
    async def test_stored_schedules_that_are_not_declared_come_in_the_order_of_storing(self, store):
        await declare(store, *map(schedule, ["z", "b", "y", "a"]))
        await declare(store, schedule("z", grace=1))
        assert await store.survey([schedule("b")]) == Survey([], ["z", "y", "a"])
        assert await store.survey([]) == Survey([], ["z", "b", "y", "a"])

    @stored
    async def test_each_declared_field_counts(self, store):
        for name, edit in EDITS.items():
            await declare(store, schedule("a"), schedule("b"))
            edited = schedule("a")._replace(**edit)
            known = await store.get("a")
            assert await store.survey([schedule("b"), edited]) == Survey([(edited, known)], []), name
            # And back again.
            await declare(store, edited)
            known = await store.get("a")
            assert await store.survey([schedule("a"), schedule("b")]) == Survey(
                [(schedule("a"), known)], []
            ), name

    @stored
    async def test_a_pause_is_no_part_of_a_declaration(self, store):
        await declare(store, schedule("a", paused=True), schedule("b"))
        assert await store.survey([schedule("a"), schedule("b", paused=True)]) == Survey([], [])
        await declare(store, paused_until(schedule("a"), T0 + MINUTE))
        assert await store.survey([schedule("a"), schedule("b")]) == Survey([], [])

    @stored
    async def test_a_schedule_with_open_runs_is_in_the_survey_with_its_runs(self, store):
        await declare(store, schedule("a"), schedule("b"), schedule("later", Every(10 * MINUTE)))
        declared = [schedule("later", Every(10 * MINUTE)), schedule("b"), schedule("a")]
        await store.lead("me")
        a, b = await pass_at(store, T0)
        await end(store, b, T0 + 1)
        survey = await store.survey(declared)
        assert survey == Survey([(schedule("a"), await store.get("a"))], [])
        assert [[*known.runs] for _, known in survey.differing] == [[a.run]]
        await end(store, a, T0 + 1)
        assert await store.survey(declared) == Survey([], [])

    @stored
    async def test_a_history_is_no_difference(self, store):
        skipped = SkippedRange(T0, Reason.MISSED, 6)
        times = {"attempted_at": T0, "succeeded_at": T0 + 1, "failed_at": T0 - 1, "ended_at": T0 + 1}
        states = [{}, times, {"skipped": skipped}, {"quarantine": "broken"}, {"attempted_at": T0}]
        declared = [schedule(f"s{n}") for n in range(len(states))]
        await store.apply(Changes([put(each, **state) for each, state in zip(declared, states, strict=True)]))
        assert await store.survey(declared) == Survey([], [])
