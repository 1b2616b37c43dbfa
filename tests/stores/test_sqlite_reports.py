"""Reports through a store of their own: another process answers executors while one leads."""

from __future__ import annotations

import asyncio

from tests.stores.notation import T0, declare, pass_at, report, rows, schedule

from dutiful.core.changes import Changes
from dutiful.core.schedule import tick_key
from dutiful.stores.sqlite import SqliteStore


def with_two(path, scenario):
    async def run():
        leader, front = SqliteStore(path), SqliteStore(path)
        await leader.open()
        await front.open()
        try:
            return await scenario(leader, front)
        finally:
            await front.close()
            await leader.close()

    return asyncio.run(run())


def test_a_report_reaches_a_schedule_that_was_declared_anew_meanwhile(tmp_path):
    async def story(leader, front):
        heard = []
        await leader.lead("me")
        for _ in range(3):
            await leader.apply(Changes(removes=["a"]))
            await declare(leader, schedule())
            await pass_at(leader, T0)
            heard.append(await report(front, (await front.find(tick_key("a", T0))).run, T0 + 1))
        return heard, await rows(leader)

    assert with_two(tmp_path / "state.db", story) == ([True] * 3, [(0, "SUCCESS", "ended")])


def test_a_leader_leaves_out_a_move_that_a_report_has_overtaken(tmp_path):
    async def story(leader, front):
        await declare(leader, schedule(run_timeout=1000))
        await leader.lead("me")
        await pass_at(leader, T0)
        before = await leader.get("a")
        await report(front, (await front.find(tick_key("a", T0))).run, T0 + 999)
        assert (await leader.get("a")).version != before.version
        await pass_at(leader, T0 + 1000)
        return await rows(leader)

    assert with_two(tmp_path / "state.db", story) == [(0, "SUCCESS", "ended")]


def test_keys_are_those_of_the_namespace(tmp_path):
    async def story(leader, front):
        await declare(leader, schedule())
        await leader.lead("me")
        await pass_at(leader, T0)
        other = SqliteStore(tmp_path / "state.db", namespace="other")
        await other.open()
        found = [await store.find(tick_key("a", T0)) for store in (front, other)]
        recent = await other.recent(10)
        await other.close()
        return [run is not None for run in found], recent

    assert with_two(tmp_path / "state.db", story) == ([True, False], [])
