"""Rate limits: how often one caller or address may send a request."""

from __future__ import annotations

import asyncio

import pytest

from dutiful.httpd import limits
from dutiful.httpd.errors import TooManyRequestsError
from dutiful.httpd.limits import Rates, network_of
from dutiful.testing import VirtualClock


def admitted(bucket: Rates, who: str, times: int) -> int:
    """Return how many of so many requests are let through."""
    through = 0
    for _ in range(times):
        try:
            bucket.take(who)
        except TooManyRequestsError:
            continue
        through += 1
    return through


def test_a_burst_is_let_through_and_then_so_many_a_second():
    clock = VirtualClock("2026-03-01T00:00:00")
    bucket = Rates(2, 5, clock)
    assert admitted(bucket, "ada", 20) == 5
    asyncio.run(clock.advance(1))
    assert admitted(bucket, "ada", 20) == 2
    asyncio.run(clock.advance(3600))
    assert admitted(bucket, "ada", 20) == 5


def test_everybody_has_a_bucket_of_their_own():
    bucket = Rates(1, 3, VirtualClock("2026-03-01T00:00:00"))
    assert [admitted(bucket, who, 9) for who in ("ada", "bob", "ada")] == [3, 3, 0]


def test_a_limited_caller_gets_the_time_to_wait():
    bucket = Rates(0.1, 1, VirtualClock("2026-03-01T00:00:00"))
    bucket.take("ada")
    with pytest.raises(TooManyRequestsError) as caught:
        bucket.take("ada")
    assert caught.value.headers == {"retry-after": "10"}
    assert caught.value.body()["error"] == {
        "code": "too_many_requests",
        "message": "Too many requests; try again in 10 s",
        "details": {"retry_after": 10},
    }


def test_refused_requests_do_not_lengthen_the_wait():
    clock = VirtualClock("2026-03-01T00:00:00")
    bucket = Rates(1, 1, clock)
    assert admitted(bucket, "ada", 1000) == 1
    asyncio.run(clock.advance(1))
    assert admitted(bucket, "ada", 1) == 1


def test_memory_is_bounded_and_the_silent_are_forgotten_first():
    bucket = Rates(1, 2, VirtualClock("2026-03-01T00:00:00"))
    for number in range(limits._BUCKETS_MAX + 500):
        bucket.take(f"address {number}")
        bucket.take("busy") if number < 2 else admitted(bucket, "busy", 1)
    assert len(bucket._buckets) == limits._BUCKETS_MAX
    assert admitted(bucket, "busy", 1) == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_an_address_of_ipv6_counts_with_its_neighbours(address, network):
    assert network_of(address) == network
