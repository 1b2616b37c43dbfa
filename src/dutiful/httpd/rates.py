"""How often somebody may ask: a bucket of tokens for every caller and every address."""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING

from dutiful.httpd.errors import TooManyRequestsError

if TYPE_CHECKING:
    from dutiful.runtime.ports import Clock

# Whoever has been silent longest is forgotten first; by then their bucket is full again.
_BUCKETS_MAX = 10_000


class Rates:
    """Lets everybody ask `burst` times at once, and `per_second` times a second in the long run."""

    def __init__(self, per_second: float, burst: int, clock: Clock) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        """Count one request, or raise TooManyRequestsError."""
        now = self._clock.monotonic()
        left, since = self._buckets.pop(who, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        self._buckets[who] = (left - 1, now) if left >= 1 else (left, now)
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        if left < 1:
            raise TooManyRequestsError(math.ceil((1 - left) / self._per_second))


@lru_cache(maxsize=_BUCKETS_MAX)
def network_of(address: str) -> str:
    """Return what one peer has: an IPv4 address, or the /64 that IPv6 gives to everybody."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6:
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)
