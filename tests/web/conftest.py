"""One running service for each test that asks for it."""

from __future__ import annotations

import pytest
from tests.web.running import running


@pytest.fixture
def service(tmp_path):
    with running(tmp_path) as it:
        it.put("/workflows/report/1", {"nodes": []})
        yield it
