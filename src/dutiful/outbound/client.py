"""The HTTP client: aiohttp sessions whose connections go to checked addresses only."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import aiohttp
    from yarl import URL

    from dutiful.outbound.guard import Address, Target

# Seconds that a connection may be idle and still be used again. Servers close idle connections after two to
# five seconds; a request that crosses such a close gets no answer, so the limit is well below that.
_IDLE_SECONDS = 1.0
_PER_HOST_MAX = 256
# aiohttp warns about longer bodies that are given as bytes.
_BYTES_MAX = 2**20


class Received(NamedTuple):
    """The answer to a request; `body` is cut at the limit, and `is_whole` is False for a cut body."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool


class Request(NamedTuple):
    """One request to one address of its target; `answer_limit` is in bytes."""

    method: str
    target: Target
    address: Address
    headers: Mapping[str, str]
    body: bytes | None
    answer_limit: int
    connect_seconds: float


class ExchangeError(Exception):
    """A request got no answer; the text says why in plain words, `sent` whether it may have arrived."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Departure:
    """Records whether the first byte of a request may have left this process."""

    def __init__(self) -> None:
        self.sent = False


# The request that the current task is sending; the connector has no other way to know it.
_departure: ContextVar[Departure] = ContextVar("departure")


class HttpClient:
    """Sends requests, and keeps connections open for the next ones.

    The caller resolves the name and checks the address for every request. An open connection is used again
    only for the same scheme, address, port and name. Redirects are not followed, proxies and cookies are not
    used, answers are not decompressed.
    """

    def __init__(self, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, request: Request, departure: Departure) -> Received:
        """Return the answer; raises ExchangeError. `departure.sent` is set when a byte may have left."""
        # Imported late: it is slow to import, and many processes send nothing.
        import aiohttp

        _departure.set(departure)
        try:
            async with _asked(await self._current(), request) as response:
                body = await _read(response, request.answer_limit + 1)
        except (aiohttp.ClientError, OSError) as error:
            raise ExchangeError(reason_of(error, request.connect_seconds), sent=departure.sent) from None
        limit = request.answer_limit
        return Received(response.status, response.headers, body[:limit], len(body) <= limit)

    async def _current(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections of another event loop cannot be used in this one.
            await self.close()
            self._loop = loop
        if self._session is None:
            self._session = _new_session(self._idle_seconds)
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _asked(session: aiohttp.ClientSession, request: Request) -> aiohttp.client._RequestContextManager:
    target, body = request.target, request.body
    return session.request(
        request.method,
        _url(target, request.address),
        headers=request.headers,
        data=BytesIO(body) if body and len(body) > _BYTES_MAX else body,
        # Part of the key of the pool, so that connections of two names are never mixed; and the name that
        # the certificate of the server must have.
        server_hostname=target.host,
        ssl=tls_context() if target.scheme == "https" else False,
        timeout=_timeout(request.connect_seconds),
        allow_redirects=False,
    )


@asynccontextmanager
async def one_use() -> AsyncIterator[HttpClient]:
    """Yield a client that is closed afterwards, for callers that send now and then."""
    client = HttpClient()
    try:
        yield client
    finally:
        await client.close()


def _new_session(idle_seconds: float) -> aiohttp.ClientSession:
    """Return a session of the running event loop, with our connector."""
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        """Notes when a request has a connection: from then on bytes may have left."""

        async def connect(
            self,
            req: aiohttp.ClientRequest,
            traces: list[aiohttp.tracing.Trace],
            timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - as the method is declared
        ) -> aiohttp.connector.Connection:
            connection = await super().connect(req, traces, timeout)
            _departure.get().sent = True
            return connection

    connector = Connector(limit=0, limit_per_host=_PER_HOST_MAX, keepalive_timeout=idle_seconds)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


def prepare(target: Target) -> None:
    """Load what the first request to a target needs, outside of an event loop.

    Importing aiohttp takes some hundred milliseconds, and loading the authorities of TLS some tens. In the
    first launch they would hold up every other run.
    """
    import aiohttp

    del aiohttp
    if target.scheme == "https":
        tls_context()


def tls_context() -> ssl.SSLContext:
    """Return the context of all requests: the system's authorities, or those that SSL_CERT_FILE names.

    Loading the authorities takes tens of milliseconds, so the context is made once.
    """
    return _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _tls_context(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


@lru_cache(maxsize=256)
def _url(target: Target, address: Address) -> URL:
    """Return the URL with the checked address in place of the name; the path is sent exactly as given."""
    from yarl import URL

    return URL(target.url_at(address), encoded=True)


@lru_cache(maxsize=16)
def _timeout(connect_seconds: float) -> aiohttp.ClientTimeout:
    import aiohttp

    return aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    body = await response.content.read(limit)
    while len(body) < limit and (more := await response.content.read(limit - len(body))):
        body += more
    return body


def reason_of(error: Exception, connect_seconds: float) -> str:
    """Return in plain words why there is no answer."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorCertificateError():
            cause = error.certificate_error
            said = getattr(cause, "verify_message", "") or type(cause).__name__
            return f"the certificate of the server is not accepted: {said}"
        case aiohttp.ClientConnectorSSLError():
            said = (getattr(error.os_error, "reason", None) or "handshake failed").replace("_", " ").lower()
            return f"no TLS connection: {said}"
        case aiohttp.ConnectionTimeoutError():
            return f"no connection within {connect_seconds:g} s"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno
            return f"no connection: {os.strerror(number) if number else 'the host cannot be reached'}"
        case aiohttp.ClientPayloadError():
            return "the connection was closed in the middle of the answer"
        case aiohttp.ClientResponseError():
            return "the answer is not valid HTTP"
        case _ if "CERTIFICATE_REQUIRED" in str(error):
            # In TLS 1.3 a server that refuses the client says so after the handshake, in place of an answer.
            return "the server asks for a client certificate"
        case _:
            return "the connection was closed before the answer"
