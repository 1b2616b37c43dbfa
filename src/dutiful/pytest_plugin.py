"""A pytest plugin: the fixture `virtual_clock`, and the mark that sets its start time."""

from __future__ import annotations

import pytest

from dutiful.testing import VirtualClock

_START = "2026-01-01T00:00:00+00:00"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "virtual_clock(start, timezone='UTC'): where virtual time starts")


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> VirtualClock:
    """Return a clock that moves only by `advance` and `jump`; by default from 2026-01-01 00:00 UTC."""
    mark = request.node.get_closest_marker("virtual_clock")
    return VirtualClock(*mark.args, **mark.kwargs) if mark is not None else VirtualClock(_START)
