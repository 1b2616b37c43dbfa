"""Settings of all tests."""

from __future__ import annotations

import gc
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

# Hooks of all tests.
from tests.eager_tasks import *  # noqa: F403

# The servers that all tests of a run share; a test asks for one by its name.
from tests.servers.fixtures import *  # noqa: F403
from tests.temporary_folder import *  # noqa: F403

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile(
    "dutiful",
    # The same examples each time: a change is judged by what it does, not by what was drawn for it.
    derandomize=True,
    database=None,
    # How long one example takes says more about what else the machine does than about the code.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dutiful")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the collector from going through all modules and tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


# A shell that starts `make test &`, or nohup, has the tests inherit SIGINT as ignored; a program that a test
# starts would inherit that in turn, and never end when the test interrupts it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
