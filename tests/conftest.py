"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# How long one example takes says more about what else the machine does than about the code.
settings.register_profile("dutiful", deadline=None)
settings.load_profile("dutiful")
