"""`ValkeySeen`: the finished runs, recorded in Valkey or Redis by one Lua script."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dutiful.launchers.broker import TLS_OPTIONS, Broker
from dutiful.receivers.seen import KEEP_S, LEASE_S, Answer, Claim, TaskFailedError, renewing
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

    from dutiful.runtime.ports import Clock

_FORM = "redis://HOST:PORT/DB"
# Accept the options of a queue's URL too, so that one URL can serve for both.
_OPTIONS = ("stream", "waitaof", *TLS_OPTIONS)
# The same rule as `seen.judge`, with the server's clock; a test compares the two.
_SCRIPT = """
local step, attempt, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local lease, keep, problem = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('HMGET', KEYS[1], 'state', 'attempt', 'until', 'error', 'token')
local state, before, till = found[1], tonumber(found[2]), tonumber(found[3])
local error, holder = found[4], found[5]

local function put(word, ends)
  redis.call('HSET', KEYS[1], 'state', word, 'attempt', attempt, 'until', ends, 'token', token)
  redis.call('HSET', KEYS[1], 'error', problem)
  redis.call('PEXPIRE', KEYS[1], keep)
end

if step == 'once' then
  if state == 'done' then return {'done', '', 0} end
  if state and attempt < before then return {'older', '', 0} end
  if state == 'failed' and attempt == before then return {'done', error, 0} end
  if state == 'busy' and now < till then return {'busy', '', 0} end
  put('busy', now + lease)
  return {'new', '', redis.call('HINCRBY', KEYS[1], 'starts', 1)}
elseif step == 'renew' then
  if state == 'busy' and holder == token then put('busy', now + lease) end
elseif step == 'release' then
  if state == 'busy' and holder == token then put('busy', 0) end
elseif step == 'done' or holder == token then
  put(step, 0)
end
return {step, '', 0}
"""


class ValkeySeen:
    """Records keys in Valkey or Redis, shared by consumers of many machines.

    A consumer at work holds a lease, which is renewed while it lives. An effect may repeat if a consumer is
    killed between the effect and the record.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "dutiful:seen:",
        lease: float = LEASE_S,
        keep: float = KEEP_S,
        clock: Clock | None = None,
    ) -> None:
        self._how = Broker.parse(url, _OPTIONS, _FORM).redis(_FORM)
        self._prefix, self._lease, self._keep = prefix, lease, keep
        self._clock = clock or SystemClock()
        self._client: Redis | None = None

    async def prepare(self) -> None:
        """Check that the server answers."""
        await self._connected().ping()

    @asynccontextmanager
    async def once(self, key: str, attempt: int) -> AsyncIterator[Claim]:
        """Claim a delivery as `Seen.once` says."""
        token = uuid4().hex
        word, error, starts = await self._step("once", key, attempt, token)
        if word != "new":
            yield Claim(Answer(word), error or None)
            return
        try:
            async with renewing(lambda: self._step("renew", key, attempt, token), self._lease, self._clock):
                yield Claim(Answer.NEW, starts=starts)
        except TaskFailedError as failed:
            await self._step("failed", key, attempt, token, str(failed))
            raise
        except BaseException:
            await self._step("release", key, attempt, token)
            raise
        await self._step("done", key, attempt, token)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _step(
        self, step: str, key: str, attempt: int, token: str, error: str = ""
    ) -> tuple[str, str, int]:
        lease, keep = round(self._lease * 1000), round(self._keep * 1000)
        found: Any = await self._connected().eval(
            _SCRIPT, 1, f"{self._prefix}{key}", step, attempt, token, lease, keep, error
        )
        return found[0].decode(), found[1].decode(), int(found[2])

    def _connected(self) -> Redis:
        if self._client is None:
            from redis.asyncio import Redis

            self._client = Redis(**self._how, ssl="ssl_ca_certs" in self._how)
        return self._client
