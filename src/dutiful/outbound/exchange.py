"""One request to a checked address, with a deadline and a limit on what is read of the answer."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.errors import DutifulError
from dutiful.outbound.connections import Connections
from dutiful.outbound.guard import Allowed, check
from dutiful.outbound.target import Target, parse_target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dutiful.outbound.guard import Address

Resolver: TypeAlias = "Callable[[str, int], Awaitable[Sequence[str]]]"

DEADLINE = 10.0
ANSWER_LIMIT = 65_536
# As much of an answer as is worth a line in an error.
_EXCERPT = 200


class NoAnswerError(DutifulError):
    """There is no usable answer. `sent` says whether the request may have arrived all the same."""

    def __init__(self, origin: str, reason: str, *, sent: bool) -> None:
        super().__init__(f"no answer from {origin}: {reason}", origin=origin, reason=reason, sent=sent)
        self.sent = sent


class Answer(NamedTuple):
    """What came back, unparsed and not decompressed; `body` is cut at the limit, and `is_whole` says so."""

    origin: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool
    # The body as it may be shown: one line, short, and without what was sent in the headers.
    excerpt: str = ""

    @property
    def is_success(self) -> bool:
        """Return whether the status is one of 200 to 299."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body as JSON, or None if it is not that, or not all there."""
        try:
            return json.loads(self.body) if self.is_whole else None
        except (ValueError, RecursionError):
            return None

    def problem(self) -> str:
        """Return what is wrong with this answer in one line."""
        if 300 <= self.status < 400:
            return f"{self.origin} answered {self.status}; redirects are not followed"
        return f"{self.origin} answered {self.status}" + (f": {self.excerpt}" if self.excerpt else "")


class _Departure:
    """Knows whether the first byte of a request may have left."""

    def __init__(self) -> None:
        self.sent = False


class Outbound(NamedTuple):
    """How requests are sent: with these headers, under these limits, through this guard."""

    # Taken for secrets: what an answer repeats of them is not shown.
    headers: Mapping[str, str] = {}
    allowed: Allowed = Allowed()
    deadline: float = DEADLINE
    answer_limit: int = ANSWER_LIMIT
    resolver: Resolver | None = None
    # Headers that are no secrets.
    plain_headers: Mapping[str, str] = {}
    # Kept open between requests; without them each request has a connection of its own.
    connections: Connections | None = None

    async def send(self, method: str, url: str, content: object = None) -> Answer:
        """Send one request, with `content` as its JSON body (bytes are JSON already), and return the answer.

        Raises ForbiddenTargetError if it may not go there, and NoAnswerError if nothing came back in time.
        Every address of the host is checked, and the connection is made to a checked one. Redirects are not
        followed, and proxies named by the environment are not used.
        """
        target, departed = parse_target(url), _Departure()
        try:
            async with asyncio.timeout(self.deadline):
                addresses = await self._resolve(target)
                check(target.host, target.port, addresses, self.allowed)
                return await self._first_answer(target, addresses, method, content, departed)
        except TimeoutError:
            reason = f"{self.deadline:g} s have passed"
            raise NoAnswerError(target.origin, reason, sent=departed.sent) from None

    async def _resolve(self, target: Target) -> Sequence[Address]:
        if target.address is not None:
            return [target.address]
        try:
            found = await (self.resolver or _resolve)(target.host, target.port)
        except (OSError, UnicodeError) as error:
            raise NoAnswerError(target.origin, f"the host has no address ({error})", sent=False) from None
        if not found:
            raise NoAnswerError(target.origin, "the host has no address", sent=False)
        return [ipaddress.ip_address(text) for text in found]

    async def _first_answer(
        self,
        target: Target,
        addresses: Sequence[Address],
        method: str,
        content: object,
        departed: _Departure,
    ) -> Answer:
        # Heavy, and of no use to those who send nothing.
        import h11

        reason = ""
        for address in addresses:
            try:
                return await self._ask(target, address, method, content, departed)
            except (OSError, h11.ProtocolError) as error:
                reason = self._shown(str(error)) or type(error).__name__
                if departed.sent:
                    raise NoAnswerError(target.origin, reason, sent=True) from None
        raise NoAnswerError(target.origin, reason, sent=False)

    async def _ask(
        self, target: Target, address: Address, method: str, content: object, departed: _Departure
    ) -> Answer:
        body = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
        headers = self._headers(target, body)
        # An address that does not answer leaves half of the time to the others.
        async with (self.connections or Connections()).lend(target, address, self.deadline / 2) as connection:
            request = connection.encoded(method, target.path, headers, body)
            departed.sent = True
            answer = await connection.ask(request, self.answer_limit)
        excerpt = self._shown(answer.body.decode("utf-8", "replace"))
        return Answer(target.origin, *answer, excerpt)

    def _headers(self, target: Target, body: bytes | None) -> dict[str, str]:
        headers = {
            "User-Agent": "dutiful",
            **self.plain_headers,
            **self.headers,
            "Host": target.authority,
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Connection": "close" if self.connections is None else "keep-alive",
        }
        if body is None:
            return headers
        return {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}

    def _shown(self, text: str) -> str:
        secrets = {part for value in self.headers.values() for part in (value, *value.split())}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return "".join(c if c.isprintable() else " " for c in text[:_EXCERPT]).strip()


async def _resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
