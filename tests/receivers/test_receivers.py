"""Receivers on real queues: each run once, its end reported, and only then acknowledged."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import nats
import pytest
import redis
from tests.launchers.queues import QUEUES, Files
from tests.receivers.rig import SECRET, Consumer, publish, receiving, reporting

from dutiful.receivers import NatsReceiver, SqliteSeen, StreamReceiver


class Queue:
    """One kind of queue under a name of the test's own."""

    def __init__(self, kind: str, address: str, name: str) -> None:
        self.kind, self.address, self.name = kind, address, name
        query = f"stream={name}&subject={name}" if kind == "nats" else f"stream={name}"
        self.url = f"{address}?{query}"
        self.receiver = NatsReceiver if kind == "nats" else StreamReceiver

    async def unacknowledged(self) -> int:
        if self.kind == "nats":
            client = await nats.connect(self.address)
            info = await client.jetstream().consumer_info(self.name, "dutiful")
            await client.close()
            return info.num_ack_pending + info.num_pending
        with redis.Redis.from_url(self.address) as client:
            return client.xpending(self.name, "dutiful")["pending"] + client.xlen(self.name)


@pytest.fixture(params=["nats", "valkey"])
def queue(request, own_name):
    return Queue(request.param, request.getfixturevalue(f"{request.param}_url"), own_name)


@pytest.fixture
def seen(tmp_path):
    return SqliteSeen(tmp_path / "seen.db")


async def until_acknowledged(queue: Queue) -> None:
    async with asyncio.timeout(30):
        while await queue.unacknowledged():  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.02)


def test_runs_are_done_once_reported_and_acknowledged(queue, seen):
    async def story():
        with reporting() as reported:
            await publish(queue.url, "a", "b", "c")
            consumer = Consumer()
            async with receiving(queue.receiver(queue.url, consumer, seen=seen, service=reported.url)):
                await consumer.has(3)
                await until_acknowledged(queue)
        return consumer.done, [reported.of(key)[-1] for key in "abc"]

    done, reports = asyncio.run(story())
    assert sorted(done) == [("a", 1), ("b", 1), ("c", 1)]
    assert reports == [{"status": "SUCCESS", "attempt": 1}] * 3


def test_a_run_that_raises_is_reported_as_failed_with_its_text(queue, seen):
    async def story():
        with reporting() as reported:
            await publish(queue.url, "a", dag={"fail": "no paper"})
            consumer = Consumer()
            async with receiving(queue.receiver(queue.url, consumer, seen=seen, service=reported.url)):
                await consumer.has(1)
                await until_acknowledged(queue)
        return consumer.done, reported.of("a")[-1]

    wanted = {"status": "FAILED", "attempt": 1, "error": "RuntimeError: no paper"}
    assert asyncio.run(story()) == ([("a", 1)], wanted)


def test_a_second_message_of_a_key_is_reported_again_and_not_done_again(queue, seen):
    async def story():
        with reporting() as reported:
            await publish(queue.url, "a")
            consumer = Consumer()
            receiver = queue.receiver(queue.url, consumer, seen=seen, service=reported.url, concurrency=1)
            async with receiving(receiver):
                await consumer.has(1)
                await until_acknowledged(queue)
                await resend(queue, "a")
                await publish(queue.url, "after")
                await consumer.has(2)
                await until_acknowledged(queue)
        return consumer.done, reported.of("a")[-1]

    done, said = asyncio.run(story())
    assert done == [("a", 1), ("after", 1)]
    assert said == {"status": "SUCCESS", "attempt": 2}


async def resend(queue: Queue, key: str) -> None:
    """Publish a run again past the duplicate window of the broker."""
    if queue.kind == "valkey":
        await publish(queue.url, key, attempt=2)
        return
    client = await nats.connect(queue.address)
    stream = client.jetstream()
    await stream.purge_stream(queue.name)
    before = (await stream.stream_info(queue.name)).state.last_seq
    async with asyncio.timeout(30):
        # The broker forgets the ids of messages by a timer of its own, some time after the window.
        while (await stream.stream_info(queue.name)).state.last_seq == before:
            for window in (0.1, 600):
                await asyncio.sleep(0.2)
                await stream.update_stream(
                    name=queue.name, subjects=[f"{queue.name}.>"], duplicate_window=window
                )
            await publish(queue.url, key, attempt=2)
    await client.close()


def test_the_report_is_repeated_until_the_service_answers_and_comes_before_the_acknowledgement(queue, seen):
    async def story():
        with reporting(refusals=4) as reported:
            await publish(queue.url, "a")
            consumer = Consumer()
            async with receiving(queue.receiver(queue.url, consumer, seen=seen, service=reported.url)):
                await consumer.has(1)
                assert await queue.unacknowledged()
                await until_acknowledged(queue)
        return consumer.done, len(reported.all), reported.of("a")

    done, posts, ended = asyncio.run(story())
    assert done == [("a", 1)]
    assert posts >= 5
    assert ended == [{"status": "SUCCESS", "attempt": 1}]


def test_a_message_that_is_not_signed_is_dropped(queue, seen):
    async def story():
        with reporting() as reported:
            await publish(queue.url, "forged")
            await publish(queue.url, "signed", secret=SECRET)
            consumer = Consumer()
            receiver = queue.receiver(queue.url, consumer, seen=seen, service=reported.url, secret=SECRET)
            async with receiving(receiver):
                await consumer.has(1)
                await until_acknowledged(queue)
        return consumer.done, {key for key, _ in reported.all}

    assert asyncio.run(story()) == ([("signed", 1)], {"signed"})


def test_a_foreign_message_is_dropped_and_the_others_are_done(queue, seen):
    async def story():
        await publish(queue.url, "first")
        if queue.kind == "nats":
            client = await nats.connect(queue.address)
            await client.jetstream().publish(f"{queue.name}.report", b"hello")
            await client.close()
        else:
            with redis.Redis.from_url(queue.address) as client:
                client.xadd(queue.name, {"body": b"\xff"})
        await publish(queue.url, "last")
        consumer = Consumer()
        async with receiving(queue.receiver(queue.url, consumer, seen=seen)):
            await consumer.has(2)
            await until_acknowledged(queue)
        return sorted(consumer.done)

    assert asyncio.run(story()) == [("first", 1), ("last", 1)]


def test_a_plain_function_is_called_on_a_thread(queue, seen):
    async def story():
        await publish(queue.url, "a")
        called = asyncio.Event()
        loop = asyncio.get_running_loop()

        def handle(delivery):
            assert delivery.key == "a"
            loop.call_soon_threadsafe(called.set)

        async with receiving(queue.receiver(queue.url, handle, seen=seen)):
            await asyncio.wait_for(called.wait(), 30)
            await until_acknowledged(queue)

    asyncio.run(story())


def test_a_receiver_that_is_cancelled_leaves_its_runs_to_the_next(queue, seen, tmp_path):
    async def story():
        await publish(queue.url, "a")
        begun = asyncio.Event()

        async def hang(_):
            begun.set()
            await asyncio.Event().wait()

        settings = {"silent": 0.1} if queue.kind == "valkey" else {}
        first = asyncio.create_task(queue.receiver(queue.url, hang, seen=seen, **settings).run())
        await asyncio.wait_for(begun.wait(), 30)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        if queue.kind == "nats":
            # The server delivers again after 30 s of silence; a test does not wait for that.
            await redeliver_soon(queue)
        consumer = Consumer()
        other = queue.receiver(queue.url, consumer, seen=SqliteSeen(tmp_path / "seen.db"), **settings)
        async with receiving(other):
            await consumer.has(1)
            await until_acknowledged(queue)
        return consumer.done

    assert asyncio.run(story()) == [("a", 1)]


@pytest.mark.parametrize(("kind", "receiver"), [("nats", NatsReceiver), ("stream", StreamReceiver)])
def test_a_receiver_speaks_tls_with_a_password_and_a_client_certificate(
    kind, receiver, seen, tmp_path, own_name
):
    queue, files = QUEUES[kind], Files.made_in(tmp_path)
    query = f"&ca={files.authority}&cert={files.client[0]}&key={files.client[1]}"

    async def story(url):
        await publish(url, "a")
        consumer = Consumer()
        async with receiving(receiver(url, consumer, seen=seen)):
            await consumer.has(1)
        return consumer.done

    with queue.tls_server(tmp_path, files, "canary") as port:
        url = queue.url(port, own_name, f"{queue.user}:canary@", tls=True, query=query)
        assert asyncio.run(story(url)) == [("a", 1)]


async def first_warning(caplog) -> str:
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "dutiful.receivers"]

    async with asyncio.timeout(30):
        while not told():  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.02)
    return told()[0]


@pytest.mark.parametrize(("kind", "receiver"), [("nats", NatsReceiver), ("stream", StreamReceiver)])
@pytest.mark.parametrize("fault", ["nobody listens", "wrong password"])
def test_a_receiver_without_a_queue_says_why_and_can_be_stopped(
    kind, receiver, fault, seen, tmp_path, own_name, caplog
):
    queue = QUEUES[kind]
    server = queue.server(tmp_path, "right")
    if fault == "wrong password":
        server.start()

    async def story():
        url = queue.url(server.port, own_name, f"{queue.user}:canary@")
        async with receiving(receiver(url, print, seen=seen)):
            return await first_warning(caplog)

    try:
        told = asyncio.run(story())
    finally:
        server.close()
    assert told.startswith("the queue does not answer, trying again: ")
    reasons = (
        ("Connect call failed",) if fault == "nobody listens" else ("Authorization", "username-password")
    )
    assert any(reason in told for reason in reasons)
    assert "canary" not in told


async def redeliver_soon(queue: Queue) -> None:
    client = await nats.connect(queue.address)
    jetstream = client.jetstream()
    info = await jetstream.consumer_info(queue.name, "dutiful")
    await jetstream.delete_consumer(queue.name, "dutiful")
    assert info.num_ack_pending == 1
    await client.close()
