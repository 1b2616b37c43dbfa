"""The tests of the engine run twice where Python can start tasks eagerly: once so, and once as usual.

A scheduler lives in the event loop of a program, and the program may have set that factory on its loop.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SUITES = ("runtime", "declarative")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of the engine under both task factories."""
    of_the_engine = any(metafunc.definition.path.is_relative_to(TESTS / suite) for suite in SUITES)
    if of_the_engine and sys.version_info >= (3, 12):
        metafunc.parametrize("task_start", ["usual", "eager"], indirect=True)


@pytest.fixture(autouse=True)
def task_start(request: pytest.FixtureRequest) -> None:
    """Have every event loop that asyncio.run makes in the test start its tasks as the parameter says."""
    if getattr(request, "param", "usual") == "eager":
        request.getfixturevalue("monkeypatch").setattr(asyncio.events, "new_event_loop", _eager_loop)


def _eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.get_event_loop_policy().new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    return loop
