"""Processor time in a unit of the machine itself, so that a slow machine is not taken for slow code."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def takes_less_than(yards: float) -> Iterator[None]:
    """Raise AssertionError if the block takes so many yards; one is some milliseconds of a fast machine."""
    yard = _yard()
    begin = time.process_time()
    yield
    spent = time.process_time() - begin
    # The slower one counts: the machine may have become slower meanwhile.
    yard = max(yard, _yard())
    assert spent < yards * yard, f"{spent:.3f} s are {spent / yard:.0f} yards"


def _yard() -> float:
    begin = time.process_time()
    texts = {number: str(number) for number in range(20_000)}
    assert sum(map(len, texts.values())) == 88_890
    return time.process_time() - begin
