"""Files that are read again when they change."""

from __future__ import annotations

import os

import pytest

from dutiful.core.errors import DutifulError
from dutiful.httpd.reloading_file import ReloadingFile


class Reading:
    """Counts how often a file is read."""

    def __init__(self, path) -> None:
        self.path, self.times = path, 0

    def __call__(self) -> str:
        self.times += 1
        text = self.path.read_text(encoding="utf-8")
        if text == "bad":
            raise DutifulError("bad text")
        return text


@pytest.fixture
def reading(tmp_path):
    path = tmp_path / "file"
    path.write_text("one", encoding="utf-8")
    return Reading(path)


def test_a_file_is_read_once_while_it_stays(reading):
    watched = ReloadingFile((str(reading.path),), reading)
    assert [watched.current() for _ in range(3)] == ["one"] * 3
    assert reading.times == 1


def test_a_file_that_changes_is_read_again(reading):
    watched = ReloadingFile((str(reading.path),), reading)
    reading.path.write_text("three", encoding="utf-8")
    assert watched.current() == "three"
    new = reading.path.with_name("new")
    new.write_text("other", encoding="utf-8")
    os.replace(new, reading.path)
    assert (watched.current(), reading.times) == ("other", 3)


def test_a_change_that_cannot_be_used_is_logged_once_and_mended_later(reading, caplog):
    watched = ReloadingFile((str(reading.path),), reading)
    reading.path.write_text("bad", encoding="utf-8")
    assert [watched.current(), watched.current()] == ["one", "one"]
    assert caplog.messages == ["bad text; what was read before stays in force"]
    reading.path.write_text("three", encoding="utf-8")
    assert watched.current() == "three"


def test_a_file_that_cannot_be_used_at_first_is_refused(reading):
    reading.path.write_text("bad", encoding="utf-8")
    with pytest.raises(DutifulError):
        ReloadingFile((str(reading.path),), reading)
