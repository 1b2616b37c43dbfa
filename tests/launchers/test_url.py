"""The executor that each URL names, and the refusals of other texts."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import pytest
from tests.launchers.metas import DAG, META, SETTINGS

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Accepted
from dutiful.launchers.celery import CeleryExecutor
from dutiful.launchers.command import CommandExecutor
from dutiful.launchers.http import HttpExecutor
from dutiful.launchers.nats import NatsExecutor
from dutiful.launchers.python import PythonExecutor
from dutiful.launchers.redis import RedisExecutor
from dutiful.launchers.url import Executors, check_url, executor_for

FORMS = (
    "write command:PROGRAM ARGS, http(s)://HOST/PATH, python:MODULE:FUNCTION, celery+BROKER_URL?task=NAME,"
    " nats://HOST:PORT or redis://HOST:PORT/DB"
)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("command:true", CommandExecutor),
        (" command: sh -c 'exit 0' ", CommandExecutor),
        ("http://127.0.0.1:9000/run", HttpExecutor),
        ("HTTPS://executor.example/run", HttpExecutor),
        ("python:tests.launchers.executor_functions:told", PythonExecutor),
        ("nats://127.0.0.1:4222", NatsExecutor),
        ("tls://127.0.0.1:4222?stream=RUNS&subject=my.runs", NatsExecutor),
        ("redis://127.0.0.1:6379/0?stream=dutiful:runs", RedisExecutor),
        ("rediss://u:p@queue.example/1", RedisExecutor),
        ("valkey://127.0.0.1:6379/0", RedisExecutor),
        ("celery+redis://127.0.0.1:6379/0?task=app.run&queue=q", CeleryExecutor),
        ("celery+amqp://guest:guest@127.0.0.1:5672//?task=app.run", CeleryExecutor),
    ],
)
def test_the_scheme_chooses(url, kind):
    assert type(executor_for(url, SETTINGS)) is kind


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", f"Invalid executor '': {FORMS}"),
        ("true", f"Invalid executor 'true': {FORMS}"),
        ("ftp://u:canary@h/x", f"Invalid executor 'ftp': {FORMS}"),
        ("comand:true", "Invalid executor 'comand': did you mean command:…?"),
        ("pyhton:a:b", "Invalid executor 'pyhton': did you mean python:…?"),
        ("htps://x/", "Invalid executor 'htps': did you mean https:…?"),
        ("amqp://u:canary@h", f"Invalid executor 'amqp': {FORMS}"),
        ("nast://u:canary@h", "Invalid executor 'nast': did you mean nats:…?"),
        (
            "celery://u:canary@h/0",
            (
                "Invalid executor 'celery': name the broker too: one of"
                " celery+redis, celery+rediss, celery+amqp, celery+amqps"
            ),
        ),
    ],
)
def test_a_url_of_no_executor_is_refused_with_what_to_write(url, told):
    with pytest.raises(InvalidArgumentError) as caught:
        executor_for(url, SETTINGS)
    assert str(caught.value) == told
    assert "canary" not in str(caught.value.details)


QUEUES = {
    "nats": "nats://HOST:PORT?stream=DUTIFUL&subject=dutiful.runs",
    "redis": "redis://HOST:PORT/DB?stream=dutiful:runs",
    "celery": "celery+redis://HOST:PORT/DB?task=app.run&queue=celery",
}


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nats://", f"Invalid executor 'nats://': write {QUEUES['nats']}"),
        ("nats://u:canary@h:x", f"Invalid executor 'nats://h:x': write {QUEUES['nats']}"),
        ("nats://h?stream=a.b", f"Invalid executor 'stream=a.b': write {QUEUES['nats']}"),
        ("nats://h?subject=a.*", f"Invalid executor 'subject=a.*': write {QUEUES['nats']}"),
        (
            "nats://u:canary@h?steam=A",
            "Invalid executor 'steam': there is no such option of this queue; did you mean stream=?",
        ),
        (
            "tls://h?ca=/no/such/file",
            (
                "Invalid executor 'tls://h': ca, cert and key must name PEM files that can be read:"
                " [Errno 2] No such file or directory"
            ),
        ),
        ("redis://h:1,h:2/0", f"Invalid executor 'redis://h:1,h:2/0': write {QUEUES['redis']}"),
        ("redis://:canary@h/zero", f"Invalid executor 'redis://h/zero': write {QUEUES['redis']}"),
        ("redis://h/0?waitaof=maybe", "Invalid executor 'waitaof=maybe': write true or false"),
        (
            "redis://h/0?z=1",
            f"Invalid executor 'z': there is no such option of this queue; write {QUEUES['redis']}",
        ),
        ("celery+redis://h/0", f"Invalid executor 'task=': name the task: {QUEUES['celery']}"),
        ("celery+redis://h/0?task=a-b", f"Invalid executor 'task=a-b': name the task: {QUEUES['celery']}"),
    ],
)
def test_the_url_of_a_queue_is_refused_with_what_to_write_and_without_its_secrets(url, told):
    with pytest.raises(InvalidArgumentError) as caught:
        executor_for(url, SETTINGS)
    assert str(caught.value) == told
    assert "canary" not in str(caught.value) + str(caught.value.details)


@pytest.mark.parametrize(
    ("url", "module", "blocked", "extra"),
    [
        ("nats://h", "nats", "nats.aio.client", "nats"),
        ("valkey://h", "redis", "redis.asyncio", "redis"),
        ("celery+amqp://h?task=t", "celery", "celery", "celery"),
    ],
)
def test_a_missing_client_is_reported_with_the_extra_that_brings_it(monkeypatch, url, module, blocked, extra):
    monkeypatch.delitem(sys.modules, f"dutiful.launchers.{module}", raising=False)
    monkeypatch.setitem(sys.modules, blocked, None)
    with pytest.raises(InvalidArgumentError) as caught:
        executor_for(url, SETTINGS)
    assert str(caught.value).endswith(f"the package {module!r} is missing; install dutiful[{extra}]")


def test_an_executor_is_made_once_for_each_url_and_the_default_for_none():
    own = executor_for("command:true", SETTINGS)
    executors, url = Executors(own, SETTINGS), "python:tests.launchers.executor_functions:yes"
    other = used(executors, url)
    assert (used(executors, None), used(executors, url)) == (own, other)
    assert (executors.descriptors, other is own) == (own.descriptors, False)


def used(executors, *urls):
    """Use executors one after the other, and return the last one."""

    async def story():
        for url in urls:
            async with executors.using(url) as executor:
                last = executor
        return last

    return asyncio.run(story())


def test_a_url_that_names_no_executor_is_refused_when_it_is_used():
    with pytest.raises(InvalidArgumentError, match="there is no such program"):
        used(Executors(object(), SETTINGS), "command:no-such-program-anywhere")


def test_of_more_executors_than_are_kept_the_one_used_least_recently_is_closed():
    executors = Executors(object(), SETTINGS)
    first, *others = (f"http://127.0.0.1/{number}" for number in range(256))
    kept, busy = used(executors, first), "http://127.0.0.1/busy"
    used(executors, *others)

    async def story():
        async with executors.using(busy) as one:
            used_while_busy = [first, *(f"http://127.0.0.1/later/{number}" for number in range(300)), first]
            for url in used_while_busy:
                async with executors.using(url) as last:
                    pass
            async with executors.using(busy) as same:
                return one is same, last

    is_kept_while_busy, last = asyncio.run(story())
    assert (is_kept_while_busy, last is kept) == (True, False)
    assert len(executors._named) == 256
    asyncio.run(executors.close())
    assert not executors._named


def test_more_executors_than_are_kept_may_run_at_once():
    async def accept(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def story():
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        executors = Executors(object(), SETTINGS)

        async def run(number):
            async with executors.using(f"{base}/{number}") as executor:
                return await executor.run(DAG, META)

        # The runs of the second half make room by closing executors of the first, all at the same time.
        outcomes = [
            *await asyncio.gather(*map(run, range(150))),
            *await asyncio.gather(*map(run, range(150, 300))),
        ]
        kept = len(executors._named)
        await executors.close()
        server.close()
        return outcomes, kept

    assert asyncio.run(story()) == ([Accepted(None)] * 300, 256)


@pytest.mark.parametrize(
    "url",
    ["http://", "https://a b/", "http://[::1", "http://me@host/", "command:", "command:  ", "command:'x"],
)
def test_a_text_that_names_no_executor_on_any_machine_is_refused_at_once(url):
    with pytest.raises(InvalidArgumentError, match="executor"):
        check_url(url)


@pytest.mark.parametrize("url", ["command:./later", "python:later:run", "HTTP://host/x", " nats://h"])
def test_whether_an_executor_is_there_is_for_the_worker_to_say(url):
    check_url(url)
