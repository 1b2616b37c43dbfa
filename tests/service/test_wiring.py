"""The service as a whole: its life, its health, its upkeep, and what it does without an executor."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from contextlib import closing

import pytest
from tests.service.rig import Rig, after, given, play

from dutiful.core.errors import InvalidArgumentError, StoreError
from dutiful.core.plan.outcome import Succeeded
from dutiful.service import Health, Service, settings_from
from dutiful.testing import VirtualClock


async def done(_):
    return Succeeded()


def test_a_service_without_executor_refuses_every_run_and_says_what_to_do(tmp_path):
    async def story():
        settings = settings_from({"DUTIFUL_STORE": f"sqlite:{tmp_path}/s.db"})
        clock = VirtualClock("2026-01-05T10:00:00+00:00")
        service = await Service(settings, clock).start()
        await service.workflows.save_dag("report", 1, {})
        await service.registrar.upsert_schedule(given())
        await clock.advance(60)
        [run] = (await service.registrar.runs("job")).items
        await service.stop()
        return run.status, run.reason, run.detail

    assert asyncio.run(story()) == (
        "FAILED",
        "launch_refused",
        "there is no executor: set DUTIFUL_EXECUTOR",
    )


def test_an_executor_that_is_given_is_used_on_the_hosts_clock_too(tmp_path):
    called = threading.Event()

    class Mine:
        async def run(self, _dag, _meta):
            called.set()
            return Succeeded()

    async def story():
        settings = settings_from({"DUTIFUL_STORE": f"sqlite:{tmp_path}/s.db", "TICK_MS": "10"})
        service = await Service(settings, executor=Mine()).start()
        await service.workflows.save_dag("report", 1, {})
        await service.registrar.upsert_schedule(given())
        await service.registrar.trigger("job")
        was_called = await asyncio.to_thread(called.wait, 60)
        # The pass of the first run is over when the second run begins.
        called.clear()
        await service.registrar.trigger("job")
        was_called = was_called and await asyncio.to_thread(called.wait, 60)
        pass_s = service.metric("dutiful_pass_seconds")
        await service.stop()
        return was_called, 0 < pass_s < 60

    assert asyncio.run(story()) == (True, True)


def test_a_service_lives_in_memory_too():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(60)
        run = await rig.registrar.report((await rig.registrar.recent(1))[0].idempotency_key, "SUCCESS")
        return run.status, rig.calls.dags

    assert play(story, DUTIFUL_STORE="memory:") == ("SUCCESS", [{"nodes": []}])


def test_health_tells_of_the_last_pass_and_of_trouble():
    async def story(rig):
        before = await Service(rig.settings, rig.clock).health()
        first = await rig.service.health()
        await rig.clock.advance(3)
        well = await rig.service.health()
        os.rename(rig.path, f"{rig.path}.away")
        await rig.clock.advance(60)
        ill = await rig.service.health()
        os.rename(f"{rig.path}.away", rig.path)
        await rig.clock.advance(2)
        again = await rig.service.health()
        return before, first, well, ill, again

    before, first, well, ill, again = play(story)
    assert before == Health(False, False, None, "the worker is not running")
    assert first.ok == (first.last_pass_at is not None)
    assert well == Health(True, True, after(3 / 60), None)
    assert (ill.ok, again.ok, again.reason) == (False, True, None)
    assert ill.reason == "passes fail; the log of the service says why"
    assert "was deleted or replaced" in ill.error


def test_the_ledger_is_pruned_now_and_then():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr="*/10 * * * * *", overlap_policy="allow"))
        await rig.clock.advance(4 * 3600)
        with closing(sqlite3.connect(rig.path)) as connection:
            return connection.execute("SELECT count(*) FROM runs").fetchone()[0]

    # Six a minute for four hours are 1440; a thousand stay, and those of the last ten minutes.
    assert 1000 <= play(story, behave=done, TICK_MS="10000") <= 1061


def test_a_stop_gives_up_on_launches_that_hang_and_the_next_start_takes_them_up():
    async def hang_once(meta):
        if meta.attempt == 1:
            await asyncio.Event().wait()
        return Succeeded()

    async def story(rig):
        await rig.registrar.upsert_schedule(given(end_at=after(1)))
        await rig.clock.advance(61)
        await rig.restart(1)
        await rig.clock.advance(1)
        return await rig.rows(), [meta.attempt for meta in rig.calls.metas]

    assert play(story, behave=hang_once, DUTIFUL_DRAIN_S="0.05") == (["10:01 SUCCESS"], [1, 2])


def test_a_store_that_cannot_be_opened_is_reported_at_the_start(tmp_path):
    path = tmp_path / "not.db"
    path.write_bytes(b"x" * 1000)

    async def story():
        service = Service(
            settings_from({"DUTIFUL_STORE": f"sqlite:{path}"}), VirtualClock("2026-01-05T10:00:00Z")
        )
        try:
            await service.start()
        finally:
            await service.stop()

    with pytest.raises(StoreError, match="is not a SQLite database"):
        asyncio.run(story())


def test_a_folder_of_outputs_that_cannot_be_used_is_reported_at_the_start(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError) as caught:
        Service(settings_from({"DUTIFUL_OUTPUT_DIR": f"{tmp_path}/file"}))
    flaw = "is no folder, and cannot be made one: File exists"
    assert str(caught.value) == f"Invalid DUTIFUL_OUTPUT_DIR '{tmp_path}/file': {flaw}"
    Service(settings_from({"DUTIFUL_OUTPUT_DIR": f"{tmp_path}/new/outputs"}))
    assert (tmp_path / "new/outputs").is_dir()


def test_what_is_in_the_store_outlives_the_service():
    async def run():
        async with Rig() as rig:
            await rig.registrar.upsert_schedule(given(labels={"a": "b"}))
            await rig.registrar.pause_schedule("job", True, "why")
            before = await rig.registrar.get_schedule("job")
            await rig.restart(0)
            return before, await rig.registrar.get_schedule("job")

    before, now = asyncio.run(run())
    assert before == now
