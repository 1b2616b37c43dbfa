"""A database that a test may kill."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.servers import program


@pytest.fixture
def server():
    """A PostgreSQL of the test's own, which it may kill."""
    # Not in `tmp_path`: the server runs as another user, who may not enter that folder.
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        started = program.postgres(Path(folder), durable=True)
        started.start()
        try:
            yield started
        finally:
            started.close()
