"""Settings of all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The servers that all tests of a run share; a test asks for one by its name.
from tests.servers.fixtures import *  # noqa: F403

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
