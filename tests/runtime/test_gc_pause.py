"""Full collections are suspended during a burst, and allowed again afterwards."""

from __future__ import annotations

import gc

import pytest

from dutiful.runtime.gc_pause import Collector


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def held() -> bool:
    return gc.get_threshold()[2] > 1_000_000


def test_full_collections_are_held_off_while_a_burst_lasts():
    collector = Collector()
    for burst in (False, True, True, False, True, False):
        collector.hold(burst)
        assert held() == burst
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_two_engines_leave_the_thresholds_as_they_were(first_to_end):
    engines = [Collector(), Collector()]
    for engine in engines:
        engine.hold(True)
    engines[first_to_end].hold(False)
    engines[1 - first_to_end].hold(False)
    assert gc.get_threshold() == (700, 10, 10)


def test_thresholds_that_the_program_sets_meanwhile_stay():
    collector = Collector()
    collector.hold(True)
    gc.set_threshold(1, 2, 3)
    collector.hold(False)
    assert gc.get_threshold() == (1, 2, 3)


def test_a_program_that_collects_by_itself_is_left_in_charge():
    gc.set_threshold(0, 10, 10)
    collector = Collector()
    collector.hold(True)
    assert gc.get_threshold()[0] == 0
    collector.hold(False)
    assert gc.get_threshold() == (0, 10, 10)
