"""Lines that hold each other: nothing can be changed, added or taken out without a break."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from dutiful.httpd.audit_chain import BEGINNING, AuditFileError, ChainedFile, Verified, verify


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
    assert verify([path]) == Verified(3, digest(third), [str(path)])


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
    assert verify([moved, path]) == Verified(4, digest(lines(path)[-1]), [str(moved)])
    assert verify([path]) == Verified(2, digest(lines(path)[-1]), [])


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
def test_what_is_not_as_it_was_written_is_found(tmp_path, spoil, at):
    path = tmp_path / "log"
    appended(path, 1, 2, 3)
    path.write_bytes(b"".join(line + b"\n" for line in spoil(*lines(path))))
    with pytest.raises(AuditFileError) as refused:
        verify([path])
    assert refused.value.details["line"] == at


def test_a_line_that_a_crash_cut_off_stays_by_itself(tmp_path):
    path = tmp_path / "log"
    appended(path, 1)
    with path.open("ab") as file:
        file.write(b'{"n": 2')
    appended(path, 3)
    cut, last = lines(path)[1:]
    assert (cut, json.loads(last)) == (b'{"n": 2', {"n": 3, "prev": digest(cut)})
    with pytest.raises(AuditFileError, match="line 2: it is not a line of an audit log, or was cut off"):
        verify([path])
