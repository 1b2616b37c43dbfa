"""Two processes that start at the same moment make one file."""

from __future__ import annotations

import contextlib
import sqlite3

from dutiful.stores.sqlite.file import DatabaseFile


def file(path):
    return DatabaseFile(str(path), f"{path}.lock", 5)


class Racing:
    """A connection: after its first answer another process creates the database."""

    def __init__(self, path):
        path.touch()
        self.path, self.inner, self.raced = path, sqlite3.connect(path, isolation_level=None), False

    def execute(self, sql):
        answer = self.inner.execute(sql).fetchall()
        if not self.raced and not self.inner.in_transaction:
            self.raced = True
            file(self.path).connect().close()

        class Answer:
            def fetchone(self):
                return answer[0]

        return Answer()


def test_a_file_that_another_process_is_making_is_recognised(tmp_path):
    racing = Racing(tmp_path / "state.db")
    with contextlib.closing(racing.inner):
        file(tmp_path / "state.db")._recognise(racing)
