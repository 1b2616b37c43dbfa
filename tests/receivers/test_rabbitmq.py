"""Celery on a real RabbitMQ, where its server is installed (Debian: `apt install rabbitmq-server`)."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from tests.launchers.metas import DAG, KEY, META
from tests.launchers.queues import launching
from tests.receivers.rig import publish, reporting
from tests.receivers.test_celery import effects, wait_until, worker
from tests.servers import program
from tests.servers.proxy import proxy_to

from dutiful.core.plan.outcome import Accepted, Unanswered, Unreached

pytestmark = pytest.mark.skipif(
    not program.RABBITMQ.exists() or shutil.which("epmd") is None, reason="RabbitMQ is not installed"
)


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory):
    server = program.RabbitMq(tmp_path_factory.mktemp("rabbitmq"))
    server.start()
    yield server
    server.close()


def url(port: int, name: str, password: str = "guest") -> str:
    return f"celery+amqp://guest:{password}@127.0.0.1:{port}//?task=app.run&queue={name}"


def test_a_run_is_accepted_when_the_broker_has_confirmed_it(rabbit, own_name):
    async def story():
        async with launching(url(rabbit.port, own_name)) as executor:
            return await executor.run(DAG, META), await executor.probe()

    assert asyncio.run(story()) == (Accepted(KEY), None)


def test_a_wrong_password_is_reported_and_not_shown(rabbit, own_name):
    async def story():
        async with launching(url(rabbit.port, own_name, "canary")) as executor:
            return await executor.run(DAG, META), await executor.probe()

    outcome, problem = asyncio.run(story())
    assert outcome == Unreached(problem)
    assert "ACCESS_REFUSED" in problem
    assert "canary" not in problem


def test_a_confirmation_that_is_lost_leaves_the_outcome_open(rabbit, own_name):
    async def story():
        with proxy_to(rabbit.port) as proxy:
            async with launching(url(proxy.port, own_name), timeout=2.0) as executor:
                first = await executor.run(DAG, META._replace(idempotency_key="first"))
                proxy.drop_answers = True
                lost = await executor.run(DAG, META)
                proxy.drop_answers = False
                proxy.cut()
                return first, lost, await executor.run(DAG, META._replace(attempt=3))

    first, lost, again = asyncio.run(story())
    assert (first, again) == (Accepted("first"), Accepted(KEY))
    assert isinstance(lost, Unanswered)


@pytest.mark.soak
def test_a_worker_does_what_was_confirmed_before_the_broker_was_killed(rabbit, tmp_path, own_name):
    asyncio.run(publish(url(rabbit.port, own_name), "a", "b"))
    rabbit.kill()
    rabbit.start()
    broker = f"amqp://guest:guest@127.0.0.1:{rabbit.port}//"
    with reporting() as reported, worker(tmp_path, broker, own_name, SERVICE=reported.url):
        asyncio.run(publish(url(rabbit.port, own_name), "a", attempt=2))
        wait_until(
            lambda: {"status": "SUCCESS", "attempt": 2} in reported.of("a") and reported.of("b"),
            lambda: (tmp_path / "worker.log").read_text()[-3000:],
        )
    assert effects(tmp_path) == ["a 1", "b 1"]
