"""One request to a checked address, with a deadline and a limit on how much of the answer is read."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.errors import DutifulError
from dutiful.outbound.client import Departure, ExchangeError, HttpClient, Request, one_use
from dutiful.outbound.guard import Allowed, Target, check, parse_target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dutiful.outbound.guard import Address

Resolver: TypeAlias = "Callable[[str, int], Awaitable[Sequence[str]]]"

DEADLINE = 10.0
ANSWER_LIMIT = 65_536
# Characters of an answer that an error quotes.
_EXCERPT = 200
_NOT_IN_A_HEADER = frozenset("\r\n\0")


class NoAnswerError(DutifulError):
    """There is no usable answer. `sent` says whether the request may have arrived all the same."""

    def __init__(self, origin: str, reason: str, *, sent: bool) -> None:
        super().__init__(f"no answer from {origin}: {reason}", origin=origin, reason=reason, sent=sent)
        self.sent = sent


class Answer(NamedTuple):
    """An answer, unparsed and not decompressed; `body` is cut at the limit, and `is_whole` is False then."""

    origin: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool
    # Texts that the request had in its secret headers; an error must not quote them.
    secrets: tuple[str, ...] = ()

    @property
    def is_success(self) -> bool:
        """Return whether the status is one of 200 to 299."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body as JSON, or None if it is not JSON, or was cut."""
        try:
            return json.loads(self.body) if self.is_whole else None
        except (ValueError, RecursionError):
            return None

    def excerpt(self) -> str:
        """Return the beginning of the body on one line, the request's secret headers masked."""
        return _shown(self.body.decode("utf-8", "replace"), self.secrets)

    def problem(self) -> str:
        """Return what is wrong with this answer in one line."""
        if 300 <= self.status < 400:
            return f"{self.origin} answered {self.status}; redirects are not followed"
        excerpt = self.excerpt()
        return f"{self.origin} answered {self.status}" + (f": {excerpt}" if excerpt else "")


class Outbound(NamedTuple):
    """How requests are sent: with these headers, under these limits, through this guard."""

    # Secret headers: an error that quotes an answer masks their values.
    headers: Mapping[str, str] = {}
    allowed: Allowed = Allowed()
    deadline: float = DEADLINE
    answer_limit: int = ANSWER_LIMIT
    resolver: Resolver | None = None
    # Headers that are no secrets.
    plain_headers: Mapping[str, str] = {}
    # Keeps connections open between requests; without a client each request opens its own connection.
    client: HttpClient | None = None

    async def send(self, method: str, url: str, content: object = None) -> Answer:
        """Send one request, with `content` as its JSON body (bytes are JSON already), and return the answer.

        Raises ForbiddenTargetError if the guard refuses the target, and NoAnswerError if no answer came in
        time. Every address of the host is checked, and the connection is made to a checked address.
        """
        target, departure = parse_target(url), Departure()
        body = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
        headers = self._headers(target, body)
        try:
            async with asyncio.timeout(self.deadline):
                addresses = await self._resolve(target)
                check(target.host, target.port, addresses, self.allowed)
                # An address that does not answer leaves half of the time to the others.
                request = Request(
                    method, target, addresses[0], headers, body, self.answer_limit, self.deadline / 2
                )
                return await self._first_answer(request, addresses, departure)
        except TimeoutError:
            reason = f"{self.deadline:g} s have passed"
            raise NoAnswerError(target.origin, reason, sent=departure.sent) from None

    async def _resolve(self, target: Target) -> Sequence[Address]:
        if target.address is not None:
            return [target.address]
        try:
            found = await (self.resolver or _resolve)(target.host, target.port)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise NoAnswerError(target.origin, "the host has no address", sent=False)
        return [ipaddress.ip_address(text) for text in found]

    async def _first_answer(
        self, request: Request, addresses: Sequence[Address], departure: Departure
    ) -> Answer:
        origin, reason = request.target.origin, ""
        async with one_use() if self.client is None else nullcontext(self.client) as client:
            for address in addresses:
                try:
                    received = await client.send(request._replace(address=address), departure)
                except ExchangeError as error:
                    reason = str(error)
                    if error.sent:
                        break
                else:
                    return Answer(origin, *received, self._secrets())
        raise NoAnswerError(origin, reason, sent=departure.sent)

    def _headers(self, target: Target, body: bytes | None) -> dict[str, str]:
        given = {"User-Agent": "dutiful", **self.plain_headers, **self.headers}
        for name, value in given.items():
            if not _NOT_IN_A_HEADER.isdisjoint(value):
                reason = f"the header {name} has a line break or a NUL, which cannot be sent"
                raise NoAnswerError(target.origin, reason, sent=False)
        headers = {**given, "Host": target.authority, "Accept": "*/*", "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.client is None:
            headers["Connection"] = "close"
        return headers

    def _secrets(self) -> tuple[str, ...]:
        parts = {part for value in self.headers.values() for part in (value, *value.split())}
        return tuple(sorted(parts, key=len, reverse=True))


def _shown(text: str, secrets: Sequence[str]) -> str:
    """Return the beginning of a text on one line, secrets masked."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return "".join(c if c.isprintable() else " " for c in text[:_EXCERPT]).strip()


async def _resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
