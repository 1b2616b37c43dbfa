"""Connections that are kept: used again for the same place only, and never when they may be dead."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.still_loop import run_still

from dutiful.outbound import Allowed, ForbiddenTargetError, HttpClient, NoAnswerError, Outbound

OPEN = Allowed.parse(["127.0.0.0/8", "job.internal", "other.internal"])
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers every request with the same bytes, and counts its connections by the address they came to."""

    def __init__(self, answer: bytes, once: bool) -> None:
        self._answer, self._once = answer, once
        self.connections: list[str] = []
        self.hosts: list[str] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader, writer) -> None:
        self.writers.append(writer)
        self.connections.append(writer.get_extra_info("sockname")[0])
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.hosts.append(head.partition(b"Host: ")[2].partition(b":")[0].decode())
                await reader.readexactly(int(head.partition(b"Content-Length: ")[2].partition(b"\r")[0]))
                writer.write(self._answer)
                if self._once:
                    break
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        writer.close()


@asynccontextmanager
async def serving(answer: bytes = OK, once: bool = False):
    served = Server(answer, once)
    server = await asyncio.start_server(served.serve, "0.0.0.0", 0)
    async with server:
        try:
            yield served, server.sockets[0].getsockname()[1]
        finally:
            for writer in served.writers:
                writer.transport.abort()


def asked(urls, answer=OK, addresses=("127.0.0.1",), **settings):
    """Send to each of the URLs in turn; the name leads to the next of the addresses each time."""
    found = iter(addresses * len(urls))

    async def resolver(_host, _port):
        return [next(found)]

    async def story():
        client = HttpClient()
        outbound = Outbound(allowed=OPEN, resolver=resolver, client=client, **settings)
        async with serving(answer) as (served, port):
            answers = [await outbound.send("POST", url.format(port=port), {}) for url in urls]
            await client.close()
        return served, answers

    return run_still(story())


def test_requests_in_turn_share_a_connection():
    served, answers = asked(["http://job.internal:{port}/"] * 5)
    assert (len(served.connections), [answer.status for answer in answers]) == (1, [200] * 5)


def test_a_connection_under_one_name_is_not_used_for_another():
    served, _ = asked(["http://job.internal:{port}/", "http://other.internal:{port}/"])
    assert (len(served.connections), served.hosts) == (2, ["job.internal", "other.internal"])


def test_a_name_that_leads_elsewhere_now_is_followed_there():
    served, _ = asked(["http://job.internal:{port}/"] * 4, addresses=("127.0.0.1", "127.0.0.2"))
    assert sorted(served.connections) == ["127.0.0.1", "127.0.0.2"]


def test_an_open_connection_opens_no_way_to_a_name_that_leads_inside_now():
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])

    async def fickle(_host, _port):
        return next(answers)

    async def story():
        client = HttpClient()
        outbound = Outbound(allowed=OPEN, resolver=fickle, client=client)
        async with serving() as (served, port):
            url = f"http://job.internal:{port}/"
            await outbound.send("POST", url, {})
            with pytest.raises(ForbiddenTargetError):
                await outbound.send("POST", url, {})
            await client.close()
        return len(served.hosts)

    assert run_still(story()) == 1


@pytest.mark.parametrize(
    ("answer", "limit"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 100),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 100),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{  }", 3),
    ],
    ids=["announced", "old", "cut off"],
)
def test_a_connection_that_cannot_go_on_is_not_kept(answer, limit):
    served, _ = asked(["http://job.internal:{port}/"] * 2, answer, answer_limit=limit)
    assert len(served.connections) == 2


def test_a_connection_that_the_other_side_has_closed_is_not_used():
    async def story():
        client = HttpClient()
        outbound = Outbound(allowed=OPEN, client=client)
        async with serving(once=True) as (served, port):
            for _ in range(2):
                await outbound.send("POST", f"http://127.0.0.1:{port}/", {})
                await client_has_seen_the_end(client)
            await client.close()
        return len(served.connections)

    assert run_still(story()) == 2


async def client_has_seen_the_end(client: HttpClient) -> None:
    """Return when no kept connection of the client is open any more."""
    while any(  # noqa: ASYNC110 - aiohttp has no event for this
        held.is_connected() for kept in client._session.connector._conns.values() for held, _ in kept
    ):
        await asyncio.sleep(0)


def test_a_connection_that_was_idle_too_long_is_not_used():
    async def story():
        client = HttpClient(idle_seconds=0)
        outbound = Outbound(allowed=OPEN, client=client)
        async with serving() as (served, port):
            await outbound.send("POST", f"http://127.0.0.1:{port}/", {})
            await outbound.send("POST", f"http://127.0.0.1:{port}/", {})
            await client.close()
        return len(served.connections)

    assert run_still(story()) == 2


def test_a_client_that_moves_to_another_event_loop_opens_connections_there():
    client = HttpClient()

    async def story():
        outbound = Outbound(allowed=OPEN, client=client)
        async with serving() as (_, port):
            return (await outbound.send("POST", f"http://127.0.0.1:{port}/", {})).status

    async def last():
        status = await story()
        await client.close()
        return status

    assert (run_still(story()), run_still(last())) == (200, 200)


def test_a_request_that_cannot_be_written_was_not_sent():
    with pytest.raises(NoAnswerError) as caught:
        asked(["http://job.internal:{port}/"], headers={"X-Key": "a\nb"})
    assert not caught.value.sent


def test_requests_at_once_have_connections_of_their_own():
    async def story():
        client = HttpClient()
        outbound = Outbound(allowed=OPEN, client=client)
        async with serving() as (served, port):
            for _ in range(2):
                await asyncio.gather(
                    *(outbound.send("POST", f"http://127.0.0.1:{port}/", {}) for _ in range(8))
                )
            await client.close()
        return len(served.connections), len(served.hosts)

    assert run_still(story()) == (8, 16)
