"""A service whose queue is away says so."""

from __future__ import annotations

import asyncio
import os

from tests.ports import port_without_listener
from tests.servers import program
from tests.service.rig import play

from dutiful.service.declaration import ScheduleInput
from dutiful.service.settings import settings_from
from dutiful.service.wiring import Service
from dutiful.testing import VirtualClock

REASON = "the executor cannot be reached; the log and `dutiful doctor` say why"


def test_readiness_follows_the_broker(tmp_path):
    server = program.valkey(tmp_path)
    url = f"redis://:canary@127.0.0.1:{server.port}/0"

    async def story():
        clock = VirtualClock("2026-03-02T09:00:00+00:00")
        settings = settings_from(
            {"DUTIFUL_STORE": "memory:", "DUTIFUL_EXECUTOR": url.replace(":canary@", "")}
        )
        service = await Service(settings, clock).start()
        try:
            await clock.advance(1)
            found = [await service.health()]
            server.stop()
            # Asked again only after a while.
            found.append(await service.health())
            await clock.advance(5)
            found.append(await service.health())
            server.start()
            await clock.advance(5)
            return [*found, await service.health()]
        finally:
            await service.stop()

    server.start()
    try:
        found = asyncio.run(story())
    finally:
        server.close()
    assert [(health.ok, health.reason) for health in found] == [
        (True, None),
        (True, None),
        (False, REASON),
        (True, None),
    ]


def test_readiness_follows_the_queues_that_schedules_name(caplog):
    async def story(url):
        clock = VirtualClock("2026-03-02T09:00:00+00:00")
        settings = settings_from({"DUTIFUL_STORE": "memory:", "DUTIFUL_EXECUTOR": "command:true"})
        service = await Service(settings, clock).start()
        own = ScheduleInput("w", 1, "ada", "0 0 1 1 *", schedule_id="s", executor=url)
        try:
            await clock.advance(1)
            found = [await service.health()]
            await service.registrar.upsert_schedule(own)
            await clock.advance(5)
            found.append(await service.health())
            await service.registrar.pause_schedule("s", paused=True)
            await clock.advance(5)
            return [*found, await service.health()]
        finally:
            await service.stop()

    with port_without_listener() as port:
        found = asyncio.run(story(f"redis://:canary@127.0.0.1:{port}/0"))
    # A paused schedule hands nothing over, so its queue may be away.
    assert [(health.ok, health.reason) for health in found] == [(True, None), (False, REASON), (True, None)]
    assert f"no connection to redis://127.0.0.1:{port}/0" in caplog.text
    assert "canary" not in caplog.text


def test_a_store_that_has_failed_is_not_reported_as_an_executor_that_is_away(caplog):
    async def story(rig):
        await rig.clock.advance(1)
        os.remove(f"{rig.path}-wal")
        await rig.clock.advance(6)
        return (await rig.service.readiness()).reason, await rig.service.executor_problem()

    assert play(story) == ("the store cannot be reached; the log says why", None)
    assert "executor" not in caplog.text
