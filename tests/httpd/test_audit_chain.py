"""The hash-chained audit log: a line that is changed, added or taken out breaks the chain."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from dutiful.core.errors import InvalidArgumentError
from dutiful.httpd.audit import (
    BEGINNING,
    AuditFileError,
    ChainedFile,
    ChainWatch,
    TornRecord,
    TornRecordError,
    Verified,
    verify,
)


def lines(path):
    return path.read_bytes().splitlines()


def appended(path, *numbers):
    file = ChainedFile(path)
    for number in numbers:
        file.append([{"n": number}])
    file.close()


def digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def test_every_line_has_the_hash_of_the_one_before(tmp_path):
    path = tmp_path / "log"
    file = ChainedFile(path)
    file.append([{"n": 1}, {"n": 2}])
    file.append([{"n": 3}])
    file.close()
    first, second, third = lines(path)
    previous = [json.loads(line)["prev"] for line in (first, second, third)]
    assert previous == [BEGINNING, digest(first), digest(second)]
    assert verify([path]) == Verified(3, digest(third), [str(path)], [])


def test_a_restart_goes_on_from_the_last_line(tmp_path):
    path = tmp_path / "log"
    appended(path, 1, "x" * 200_000)
    appended(path, 3)
    assert verify([path]).lines == 3


def test_two_that_have_it_open_take_turns(tmp_path):
    path = tmp_path / "log"
    one, other = ChainedFile(path), ChainedFile(path)
    for number in range(3):
        one.append([{"n": number}])
        other.append([{"n": number}])
    one.close()
    other.close()
    assert verify([path]).lines == 6


def test_a_file_moved_away_is_followed_by_one_that_goes_on_from_it(tmp_path):
    path, moved = tmp_path / "log", tmp_path / "log.1"
    one, other = ChainedFile(path), ChainedFile(path)
    one.append([{"n": 1}])
    other.append([{"n": 2}])
    os.rename(path, moved)
    one.append([{"n": 3}])
    other.append([{"n": 4}])
    one.close()
    other.close()
    assert [[json.loads(line)["n"] for line in lines(file)] for file in (moved, path)] == [[1, 2], [3, 4]]
    assert verify([moved, path]) == Verified(4, digest(lines(path)[-1]), [str(moved)], [])
    assert verify([path]) == Verified(2, digest(lines(path)[-1]), [], [])


def test_a_file_that_was_copied_and_emptied_goes_on_too(tmp_path):
    path, copy = tmp_path / "log", tmp_path / "log.1"
    file = ChainedFile(path)
    file.append([{"n": 1}])
    copy.write_bytes(path.read_bytes())
    os.truncate(path, 0)
    file.append([{"n": 2}])
    file.close()
    assert verify([copy, path]).lines == 2


def test_a_file_that_is_missing_between_two_is_a_break(tmp_path):
    path = tmp_path / "log"
    file = ChainedFile(path)
    for number in (1, 2, 3):
        file.append([{"n": number}])
        os.rename(path, tmp_path / f"log.{number}")
    file.close()
    with pytest.raises(AuditFileError) as refused:
        verify([tmp_path / "log.1", tmp_path / "log.3"])
    assert refused.value.details["path"] == str(tmp_path / "log.3")


@pytest.mark.parametrize(
    ("spoil", "at"),
    [
        (lambda a, b, c: [a.replace(b"1", b"7"), b, c], 2),
        (lambda a, _, c: [a, c], 2),
        (lambda a, b, c: [a, c, b], 2),
        (lambda a, b, c: [a, b, b, c], 3),
        (lambda a, b, c: [a, b, a, c], 3),
        (lambda a, b, c: [a, b"[]", b, c], 2),
        (lambda a, b, c: [a, b[:20], c], 2),
    ],
    ids=["changed", "taken out", "swapped", "doubled", "begun anew", "not ours", "cut off"],
)
def test_every_changed_line_is_found(tmp_path, spoil, at):
    path = tmp_path / "log"
    appended(path, 1, 2, 3)
    path.write_bytes(b"".join(line + b"\n" for line in spoil(*lines(path))))
    with pytest.raises(AuditFileError) as refused:
        verify([path])
    assert refused.value.details["line"] == at


def test_a_log_that_is_cut_off_at_any_byte_loses_nothing_and_goes_on(tmp_path):
    whole = tmp_path / "whole"
    appended(whole, 1, 2, 3)
    written = whole.read_bytes()
    for size in range(len(written)):
        path = tmp_path / f"cut-{size}"
        path.write_bytes(written[:size])
        kept = written[:size].splitlines(keepends=True)
        torn = len(kept[-1]) if kept and not kept[-1].endswith((b"\n", b"}")) else 0
        if torn:
            with pytest.raises(TornRecordError) as found:
                verify([path])
            assert (found.value.details["line"], f"after {torn} bytes" in str(found.value)) == (
                len(kept),
                True,
            )
        appended(path, 4)
        assert path.read_bytes().startswith(written[:size])
        found = verify([path])
        assert found.torn == ([TornRecord(str(path), len(kept), torn)] if torn else [])
        assert json.loads(lines(path)[-1])["n"] == 4


def test_a_torn_record_can_be_marked_without_writing_another(tmp_path):
    path = tmp_path / "log"
    appended(path, 1)
    with path.open("ab") as file:
        file.write(b'{"n": 2')
    file = ChainedFile(path)
    assert [file.mend(), file.mend()] == [7, 0]
    file.close()
    assert verify([path]).torn == [TornRecord(str(path), 2, 7)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _, torn, mark, last: [torn, mark, last],
        lambda first, torn, mark, last: [first, torn[:-1], mark, last],
        lambda first, _, mark, last: [first, mark, last],
        lambda first, torn, _, last: [first, torn, last],
        lambda first, torn, mark, last: [first, torn, mark.replace(b'"torn":7', b'"torn":6'), last],
        lambda first, torn, mark, last: [first.replace(b"1", b"7", 1), torn, mark, last],
    ],
    ids=["before", "the torn one", "without it", "without the mark", "the mark", "the line before"],
)
def test_a_mark_does_not_hide_what_was_changed(tmp_path, spoil):
    path = tmp_path / "log"
    appended(path, 0, 1)
    with path.open("ab") as file:
        file.write(b'{"n": 2')
    appended(path, 3)
    zero, *rest = lines(path)
    path.write_bytes(b"".join(line + b"\n" for line in [zero, *spoil(*rest)]))
    with pytest.raises(AuditFileError):
        verify([path])


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "log"
    appended(path, 1)
    before = path.read_bytes()
    file = ChainedFile(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A write that crosses this limit is cut off there, and the next one fails.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(OSError, match="File too large"):
            file.append([{"n": 2}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    file.append([{"n": 3}])
    file.close()
    assert verify([path]).lines == 2


def test_a_path_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(InvalidArgumentError, match="cannot be opened: No such file"):
        ChainedFile(tmp_path / "none" / "log")


class Hours:
    """A clock that a test sets, in hours."""

    def __init__(self):
        self.hours = 0.0

    def monotonic(self):
        return self.hours * 3600


def test_a_watched_chain_is_verified_where_it_is_new_and_whole_once_an_hour(tmp_path):
    path, clock = tmp_path / "log", Hours()
    appended(path, 1, 2, 3)
    watch = ChainWatch(path, clock)
    assert watch.verified_now(path.stat().st_size - 1) is None
    assert watch.verified_now(path.stat().st_size) == verify([path])
    assert watch.verified_now(0) == watch.verified() == verify([path])
    # A line that was read already: what is new still follows it.
    path.write_bytes(path.read_bytes().replace(b'"n":1', b'"n":7'))
    size = path.stat().st_size
    appended(path, 4)
    new = path.stat().st_size - size
    assert watch.verified_now(new - 1) is None
    assert watch.verified_now(new).lines == 4
    clock.hours = 1.1
    assert watch.verified_now(path.stat().st_size - 1) is None
    with pytest.raises(AuditFileError, match="line 2: a line before it was changed"):
        watch.verified()


def test_a_watched_chain_breaks_at_a_new_line_that_does_not_follow(tmp_path):
    path = tmp_path / "log"
    appended(path, 1, 2)
    watch = ChainWatch(path, Hours())
    watch.verified()
    with path.open("ab") as file:
        file.write(json.dumps({"n": 3, "prev": BEGINNING}).encode() + b"\n")
    for _ in range(2):
        with pytest.raises(AuditFileError, match="line 3"):
            watch.verified()


def test_a_watched_chain_begins_anew_with_a_file_that_was_moved_or_cut(tmp_path):
    path = tmp_path / "log"
    appended(path, 1, 2, 3)
    watch = ChainWatch(path, Hours())
    watch.verified()
    path.rename(tmp_path / "old")
    appended(path, 1)
    assert watch.verified() == verify([path])
    path.write_bytes(b"")
    assert watch.verified().lines == 0


def test_a_torn_record_in_a_watched_chain_is_taken_once_it_is_marked(tmp_path):
    path = tmp_path / "log"
    appended(path, 1)
    watch = ChainWatch(path, Hours())
    watch.verified()
    with path.open("ab") as file:
        file.write(b'{"n":2,"pr')
    with pytest.raises(TornRecordError):
        watch.verified()
    appended(path, 3)
    assert watch.verified() == verify([path])


def test_a_watched_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        ChainWatch(tmp_path / "none", Hours()).verified()


def test_a_page_does_not_wait_for_the_thread_that_verifies_a_chain(tmp_path):
    path = tmp_path / "log"
    # Reading a pipe waits for its writer, so the other thread is still verifying when the page asks.
    os.mkfifo(path)
    watch = ChainWatch(path, Hours())
    with ThreadPoolExecutor() as pool:
        other = pool.submit(watch.verified)
        while not watch._turn.locked():
            os.sched_yield()
        assert watch.verified_now() is None
        path.open("wb").close()
        assert isinstance(other.exception(), InvalidArgumentError)
    path.unlink()
    appended(path, 1)
    assert watch.verified_now() == verify([path])
