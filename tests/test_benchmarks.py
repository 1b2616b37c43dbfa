"""The benchmarks measure the product: what they call exists, and answers as a user's call does."""

from __future__ import annotations

from benchmarks.cron_mix import MIX
from benchmarks.cron_peers import OursEpoch

from dutiful import Cron


def test_the_parser_that_is_timed_without_its_cache_is_the_parser():
    assert [OursEpoch().parse(text) for text in MIX.values()] == [*map(Cron.parse, MIX.values())]
