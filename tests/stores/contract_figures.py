"""What every store can say of all schedules at once: counts, tallies, trouble; see `contract.py`."""

from __future__ import annotations

from tests.stores.notation import MINUTE, MINUTELY, T0, declare, end, pass_at, put, schedule, stored

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes
from dutiful.core.plan.outcome import Failed
from dutiful.core.policy import Policy, Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import ALWAYS, Alike, Schedule, SkippedRange, Task, Window
from dutiful.core.tally import Tally

HOUR = 60 * MINUTE
BUCKET = T0 - T0 % HOUR


def owned(id_: str, owner: str, **more) -> Schedule:
    return Schedule(id_, Task("workflow", f'{{"user_id":"{owner}"}}'), MINUTELY, Policy(), **more)


def skipped(run_at: int, run_until: int, ticks: int, id_: str = "a") -> Run:
    return Run(
        id_, run_at, "schedule", Status.SKIPPED, Phase.ENDED, run_at, Reason.OVERLAP,
        run_until=run_until, ticks=ticks, created_at=run_at, updated_at=run_until,
    )  # fmt: skip


class FiguresContract:
    """Schedules and ticks are counted without listing them."""

    @stored
    async def test_an_empty_store_counts_nothing(self, store):
        assert await store.tallies(BUCKET, BUCKET + HOUR, HOUR) == []
        assert await store.open_runs(10) == await store.troubled(10) == await store.cadences() == []

    @stored
    async def test_ticks_are_tallied_by_bucket_status_and_reason(self, store):
        await declare(store, owned("a", "ada"), owned("b", "bob"))
        await store.lead("me")
        first, second = await pass_at(store, T0)
        await end(store, first, T0 + 1)
        await end(store, second, T0 + 1, Failed("boom"))
        both = [
            Tally(BUCKET, Status.FAILED, Reason.TASK_FAILED, 1),
            Tally(BUCKET, Status.SUCCESS, None, 1),
        ]
        assert await store.tallies(BUCKET, BUCKET + HOUR, HOUR) == both
        assert await store.tallies(BUCKET, BUCKET + HOUR, HOUR, "ada") == both[1:]
        assert await store.tallies(BUCKET + HOUR, BUCKET + 2 * HOUR, HOUR) == []

    @stored
    async def test_the_latest_rows_of_many_schedules_are_those_of_each_ledger(self, store):
        await declare(store, owned("a", "ada"), owned("b", "bob"), schedule("c"), owned("idle", "ada"))
        await store.lead("me")
        for minute in range(4):
            at = T0 + minute * MINUTE
            for run in await pass_at(store, at):
                # Runs of the last minute stay open; a schedule without a ledger has them in its state.
                if minute < 3:
                    await end(store, run, at + 1)
        ids = ["a", "b", "c", "idle", "unknown", "no\0text"]
        ledgers = {each: await store.ledger(each, None, 2) for each in ids}
        assert [len(ledgers[each]) for each in ("a", "b")] == [2, 2]
        assert await store.latest(ids, 2) == {each: rows for each, rows in ledgers.items() if rows}
        assert await store.latest([], 2) == {}

    @stored
    async def test_the_ticks_of_a_stretch_are_spread_over_the_buckets_that_it_covers(self, store):
        stretch = skipped(BUCKET, BUCKET + 3 * HOUR - MINUTE, 180)
        await store.apply(Changes([put(schedule("a"))], rows=[stretch]))
        assert await store.tallies(BUCKET + HOUR, BUCKET + 3 * HOUR, HOUR) == [
            Tally(BUCKET + HOUR, Status.SKIPPED, Reason.OVERLAP, 60),
            Tally(BUCKET + 2 * HOUR, Status.SKIPPED, Reason.OVERLAP, 60),
        ]

    @stored
    async def test_runs_that_have_not_ended_are_listed_oldest_first(self, store):
        await declare(store, owned("b", "bob"), owned("a", "ada"))
        await store.lead("me")
        launches = await pass_at(store, T0)
        found = await store.open_runs(10)
        assert [run.schedule_id for run in found] == ["a", "b"]
        assert {run.run_at for run in found} == {T0}
        assert [run.schedule_id for run in await store.open_runs(1)] == ["a"]
        assert [run.schedule_id for run in await store.open_runs(10, "bob")] == ["b"]
        for launch in launches:
            await end(store, launch, T0 + 1)
        assert await store.open_runs(10) == []

    @stored
    async def test_ids_are_found_by_a_part_of_them(self, store):
        await declare(store, owned("a.one", "ada"), owned("b.one", "bob"), owned("c.two", "ada"))
        assert await store.find_ids("one", "", 10) == ["a.one", "b.one"]
        assert await store.find_ids("one", "a.one", 10) == ["b.one"]
        assert await store.find_ids("", "", 2) == ["a.one", "b.one"]
        assert await store.find_ids("one", "", 10, "bob") == ["b.one"]
        assert await store.find_ids("%", "", 10) == []

    @stored
    async def test_schedules_in_trouble_are_found(self, store):
        growing = SkippedRange(T0, Reason.OVERLAP, 3)
        await store.apply(
            Changes(
                [
                    put(owned("broken", "ada"), quarantine="no such zone"),
                    put(owned("failed", "bob"), failed_at=T0, succeeded_at=T0 - 1),
                    put(owned("mended", "ada"), failed_at=T0 - 1, succeeded_at=T0),
                    put(owned("new", "ada")),
                    put(owned("paused", "ada"), skipped=SkippedRange(T0, Reason.PAUSED, 9)),
                    put(owned("skipping", "ada"), skipped=growing),
                    put(owned("twice", "ada"), skipped=growing._replace(ticks=2)),
                ]
            )
        )
        assert [due.schedule.id for due in await store.troubled(10)] == ["broken", "failed", "skipping"]
        assert [due.schedule.id for due in await store.troubled(1)] == ["broken"]
        assert [due.schedule.id for due in await store.troubled(10, "bob")] == ["failed"]

    @stored
    async def test_each_cadence_is_counted_once_with_its_schedules(self, store):
        await declare(
            store,
            owned("a", "ada"),
            owned("b", "bob"),
            owned("c", "bob", paused=True),
            schedule("d", Every(90_000, "start"), grace=1),
            owned("e", "eve", window=Window(T0, T0 + HOUR)),
        )
        found = await store.cadences()
        assert sorted(found, key=lambda each: each.first_id) == [
            Alike(MINUTELY, Policy(), ALWAYS, 2, "a"),
            Alike(Every(90_000, "start"), Policy(grace=1), ALWAYS, 1, "d"),
            Alike(MINUTELY, Policy(), Window(T0, T0 + HOUR), 1, "e"),
        ]
        assert await store.cadences("bob") == [Alike(MINUTELY, Policy(), ALWAYS, 1, "b")]
