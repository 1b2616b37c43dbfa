"""The kinds of queue that runs are handed to, each on a real server, as one face for the common tests."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import nats
import redis
import trustme
from tests.launchers.metas import SETTINGS
from tests.servers import program
from tests.servers.proxy import proxy_to

from dutiful.launchers.url import executor_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from dutiful.launchers.executor import Executor


class Kept(NamedTuple):
    """A message as the broker keeps it."""

    key: str
    attempt: int
    timestamp: str | None
    signature: str | None


class Files(NamedTuple):
    """PEM files: the authority of server and clients, a stranger's, and a certificate for each side."""

    authority: Path
    stranger: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]

    @classmethod
    def made_in(cls, folder: Path) -> Files:
        authority, stranger = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        stranger.cert_pem.write_to_path(folder / "other.pem")
        pairs = []
        for side in ("server", "client"):
            issued = authority.issue_cert("127.0.0.1")
            pair = folder / f"{side}.pem", folder / f"{side}.key"
            issued.cert_chain_pems[0].write_to_path(pair[0])
            issued.private_key_pem.write_to_path(pair[1])
            pairs.append(pair)
        return cls(folder / "ca.pem", folder / "other.pem", *pairs)


class NatsQueue:
    """A stream of JetStream, whose server drops what it has already."""

    fixture, user, drops_duplicates = "nats_url", "ada", True

    def url(self, port: int, name: str, credentials: str = "", tls: bool = False, query: str = "") -> str:
        scheme = "tls" if tls else "nats"
        return f"{scheme}://{credentials}127.0.0.1:{port}?stream={name}&subject={name}.runs{query}"

    def shown(self, port: int) -> str:
        return f"nats://127.0.0.1:{port}"

    def server(self, folder: Path, password: str | None = None) -> program.Program:
        return program.nats(folder, *(() if password is None else ("--user", self.user, "--pass", password)))

    @contextmanager
    def tls_server(self, folder: Path, files: Files, password: str) -> Iterator[int]:
        """Run a server that wants TLS, a certificate of the client, and the password."""
        cert, key = (str(path) for path in files.server)
        options = [
            "--user",
            self.user,
            "--pass",
            password,
            "--tlsverify",
            "--tlscacert",
            str(files.authority),
        ]
        server = program.nats(folder, *options, "--tlscert", cert, "--tlskey", key)
        server.start()
        try:
            yield server.port
        finally:
            server.close()

    def kept(self, port: int, name: str) -> list[Kept]:
        return asyncio.run(self._kept(port, name))

    async def _kept(self, port: int, name: str) -> list[Kept]:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        try:
            jetstream = client.jetstream()
            count = (await jetstream.stream_info(name)).state.messages
            headers = [(await jetstream.get_msg(name, seq)).headers for seq in range(1, count + 1)]
        finally:
            await client.close()
        signed = ("Dutiful-Timestamp", "Dutiful-Signature")
        return [
            Kept(each["Nats-Msg-Id"], int(each["Dutiful-Attempt"]), *(each.get(name) for name in signed))
            for each in headers
        ]


class _OnValkey:
    user, drops_duplicates = "", False
    fixture = "valkey_url"

    def shown(self, port: int) -> str:
        return f"redis://127.0.0.1:{port}/0"

    def server(self, folder: Path, password: str | None = None) -> program.Program:
        return program.valkey(folder, *(() if password is None else ("--requirepass", password)))

    @contextmanager
    def tls_server(self, folder: Path, files: Files, password: str) -> Iterator[int]:
        """Run a server behind a proxy that wants TLS and a certificate: the wheel's server speaks no TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files.server)
        context.load_verify_locations(files.authority)
        context.verify_mode = ssl.CERT_REQUIRED
        server = self.server(folder, password)
        server.start()
        try:
            with proxy_to(server.port, context) as proxy:
                yield proxy.port
        finally:
            server.close()


class StreamQueue(_OnValkey):
    """A stream of Valkey."""

    def url(self, port: int, name: str, credentials: str = "", tls: bool = False, query: str = "") -> str:
        scheme = "rediss" if tls else "redis"
        return f"{scheme}://{credentials}127.0.0.1:{port}/0?stream={name}{query}"

    def kept(self, port: int, name: str) -> list[Kept]:
        with redis.Redis(port=port) as client:
            entries = [
                {k.decode(): v.decode() for k, v in fields.items()} for _, fields in client.xrange(name)
            ]
        return [Kept(e["key"], int(e["attempt"]), e.get("timestamp"), e.get("signature")) for e in entries]


class CeleryQueue(_OnValkey):
    """A queue of Celery on Valkey."""

    def url(self, port: int, name: str, credentials: str = "", tls: bool = False, query: str = "") -> str:
        scheme = "celery+rediss" if tls else "celery+redis"
        return f"{scheme}://{credentials}127.0.0.1:{port}/0?task=app.run&queue={name}{query}"

    def messages(self, port: int, name: str) -> list[dict]:
        """Return the messages of a queue, the oldest first, with their arguments decoded."""
        with redis.Redis(port=port) as client:
            found = [json.loads(message) for message in reversed(client.lrange(name, 0, -1))]
        return [{**each, "body": json.loads(base64.b64decode(each["body"]))} for each in found]

    def kept(self, port: int, name: str) -> list[Kept]:
        headers = [message["headers"] for message in self.messages(port, name)]
        signed = ("dutiful_timestamp", "dutiful_signature")
        return [Kept(h["id"], h["dutiful_attempt"], *(h.get(name) for name in signed)) for h in headers]


QUEUES = {"nats": NatsQueue(), "stream": StreamQueue(), "celery": CeleryQueue()}


@asynccontextmanager
async def launching(url: str, **settings) -> AsyncIterator[Executor]:
    """Yield the executor of a URL, and close it."""
    executor = executor_for(url, SETTINGS._replace(**settings))
    try:
        yield executor
    finally:
        await executor.close()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])
