"""The numbered SQL files of each dialect, applied in order and never edited once released."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Migration(NamedTuple):
    """One file such as `0001_init.sql`: its number, name, SQL and checksum."""

    number: int
    name: str
    sql: str
    checksum: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return the migrations of a dialect, in order."""
    found = [path for path in files(__name__).joinpath(dialect).iterdir() if path.name.endswith(".sql")]
    return tuple(
        _migration(path.name.removesuffix(".sql"), path.read_text(encoding="utf-8"))
        for path in sorted(found, key=lambda path: path.name)
    )


def _migration(name: str, sql: str) -> Migration:
    return Migration(int(name.partition("_")[0]), name, sql, hashlib.sha256(sql.encode()).hexdigest())
