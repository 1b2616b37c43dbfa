"""What every store promises of runs that users ask for; see `contract.py`."""

from __future__ import annotations

from tests.stores.notation import MINUTE, T0, declare, due_at, end, pass_at, put, rows, schedule, stored

from dutiful.core.changes import Changes
from dutiful.core.policy import Overlap
from dutiful.core.run import Phase, Run, Status
from dutiful.runtime.ports import Retention


def wanted(key: str, now: int = T0, id_: str = "a", **facts: object) -> Run:
    """Return a manual run as a registrar asks for it."""
    return Run(
        id_, now, "manual", Status.ENQUEUED, Phase.DELAYED, now,
        own_key=key * 32, created_at=now, updated_at=now, **facts,
    )  # fmt: skip


class RequestContract:
    """A run that a user asks for is one write; runs that were asked for are kept."""

    @stored
    async def test_a_run_that_is_asked_for_makes_its_schedule_due(self, store):
        await store.apply(Changes([put(schedule(), T0 + MINUTE)]))
        asked = await store.request(wanted("ab", input='{"day":1}'))
        assert asked == wanted("ab", input='{"day":1}') == (await store.find("ab" * 32)).run
        assert await due_at(store, T0) == ["a"]
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        assert (launch.run.key, launch.run.input) == ("ab" * 32, '{"day":1}')

    @stored
    async def test_runs_asked_for_at_one_instant_have_instants_of_their_own(self, store):
        await declare(store, schedule())
        asked = [await store.request(wanted(key)) for key in ("aa", "bb", "cc")]
        assert [run.run_at for run in asked] == [T0, T0 + 1, T0 + 2]

    @stored
    async def test_a_key_that_is_known_is_answered_with_its_run(self, store):
        await declare(store, schedule())
        first = await store.request(wanted("aa"))
        assert await store.request(wanted("aa", T0 + 5)) == first
        assert await rows(store) == [(0, "ENQUEUED", "delayed")]

    @stored
    async def test_no_run_is_made_of_a_schedule_that_is_not_there(self, store):
        assert await store.request(wanted("aa", id_="gone")) is None

    @stored
    async def test_a_move_that_was_planned_before_the_request_is_not_made(self, store):
        await declare(store, schedule())
        await store.lead("me")
        before = await store.get("a")
        await store.request(wanted("aa"))
        assert (await store.get("a")).version > before.version

    @stored
    async def test_runs_that_were_asked_for_are_not_pruned(self, store):
        await declare(store, schedule(overlap=Overlap.ALLOW))
        await store.lead("me")
        await store.request(wanted("aa"))
        for launch in await pass_at(store, T0):
            await end(store, launch, T0 + 1)
        assert await store.prune(T0 + 10**12, Retention(0, 0)) == 1
        assert [row.kind for row in await store.ledger("a", None, 10)] == ["manual"]

    @stored
    async def test_a_schedule_may_keep_more_or_less_than_the_others(self, store):
        kept = [schedule("less", retention_rows=1), schedule("more", retention_age=10**13, retention_rows=9)]
        await declare(store, schedule("usual"), *kept)
        await store.lead("me")
        for now in (T0, T0 + MINUTE, T0 + 2 * MINUTE):
            for launch in await pass_at(store, now):
                await end(store, launch, now + 1)
        assert await store.prune(T0 + 2 * MINUTE, Retention(MINUTE, 2)) == 3
        counts = {id_: len(await store.ledger(id_, None, 10)) for id_ in ("usual", "less", "more")}
        assert counts == {"usual": 2, "less": 1, "more": 3}

    @stored
    async def test_rows_of_one_kind_are_read_alone(self, store):
        await declare(store, schedule())
        await store.lead("me")
        await store.request(wanted("aa"))
        await pass_at(store, T0)
        found = {kind: await store.ledger("a", None, 10, kind) for kind in ("schedule", "manual", None)}
        assert {kind: [row.kind for row in rows] for kind, rows in found.items()} == {
            "schedule": ["schedule"],
            "manual": ["manual"],
            None: ["schedule", "manual"],
        }
