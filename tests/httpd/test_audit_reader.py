"""The audit file read back: newest first, by filters, in pages, with what was asked for and not done."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from dutiful.httpd.audit import AuditLog
from dutiful.httpd.audit_reader import Wanted, line_at, read_back

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Writing:
    """A log whose n-th change is made n minutes after the start."""

    def __init__(self, path):
        self.path, self.minutes = path, 0
        self.log = AuditLog(self, path)

    def now(self):
        return START + timedelta(minutes=self.minutes)

    def change(self, who="ada", action="upsert", done=True, ids=("nightly",), **more):
        self.minutes += 1
        request = f"{self.minutes:016x}"
        self.log.intend(request, who, action, [{"schedule_id": each, **more} for each in ids])
        if done:
            self.log.record(request, who, action)


@pytest.fixture
def written(tmp_path):
    return Writing(tmp_path / "audit.jsonl")


def minutes(found):
    return [(datetime.fromisoformat(line["at"]) - START) // timedelta(minutes=1) for line in found.lines]


def test_changes_are_read_newest_first_page_by_page(written):
    for _ in range(7):
        written.change()
    pages, before = [], None
    while True:
        found = read_back(written.path, Wanted(), 3, before)
        pages.append(minutes(found))
        assert all(line["done"] for line in found.lines)
        if (before := found.older) is None:
            break
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(who="bob"), [4, 2]),
        (Wanted(action="pause"), [3]),
        (Wanted(schedule_id="weekly"), [5]),
        (Wanted(who="bob", action="upsert", schedule_id="nightly"), [4, 2]),
        (Wanted(since=START + timedelta(minutes=4)), [5, 4]),
        (Wanted(until=START + timedelta(minutes=2)), [2, 1]),
        (Wanted(request=f"{3:016x}"), [3]),
        (Wanted(who="eve"), []),
        (Wanted(who="given"), []),
    ],
)
def test_filters_find_the_lines_that_match_all_of_them(written, wanted, found):
    written.change(given={"who": "bob", "schedule_id": "weekly"})
    written.change("bob")
    written.change(action="pause", note='"who":"given"')
    written.change("bob")
    written.change(ids=["weekly"])
    assert minutes(read_back(written.path, wanted, 10)) == found


def test_a_change_that_has_no_line_done_says_so_also_at_the_end_of_a_page(written):
    written.change()
    written.change(done=False)
    written.change()
    first = read_back(written.path, Wanted(), 1)
    rest = read_back(written.path, Wanted(), 9, first.older)
    assert [line["done"] for line in [*first.lines, *rest.lines]] == [True, False, True]


def test_the_lines_of_one_request_are_one_entry_unless_the_request_is_asked_for(written):
    written.change()
    written.change(ids=[f"s{number}" for number in range(214)])
    assert [line["count"] for line in read_back(written.path, Wanted(), 9).lines] == [214, 1]
    assert len(read_back(written.path, Wanted(request=f"{2:016x}"), 300).lines) == 214
    [cut] = read_back(written.path, Wanted(), 9, None, 2000).lines
    assert (1 < cut["count"] < 214, cut["more"]) == (True, True)


def test_what_is_not_read_in_one_go_is_read_in_the_next(written):
    for _ in range(40):
        written.change(note="x" * 5000)
    written.change("bob")
    for _ in range(40):
        written.change(note="x" * 5000)
    before, looks = None, 0
    while not (found := read_back(written.path, Wanted(who="bob"), 9, before, 20_000)).lines:
        before, looks = found.older, looks + 1
    assert (minutes(found), looks > 3) == ([41], True)
    assert minutes(read_back(written.path, Wanted(until=START + timedelta(minutes=3)), 9)) == [3, 2, 1]


def test_no_file_a_torn_line_and_foreign_lines_are_no_changes(tmp_path, written):
    assert read_back(tmp_path / "none", Wanted(), 9) == ([], None)
    written.path.write_bytes(b'{"at": 1}\nnonsense\n{"at":"2026')
    assert read_back(written.path, Wanted(), 9) == ([], None)


def test_a_line_is_read_at_its_place_and_nowhere_else(written):
    written.change(given={"cron_expr": "0 1 * * *"})
    [line] = read_back(written.path, Wanted(), 9).lines
    found = line_at(written.path, line["place"])
    assert (found["given"], found["who"], found["done"]) == ({"cron_expr": "0 1 * * *"}, "ada", True)
    size = written.path.stat().st_size
    for place in (line["place"] + 1, size, size + 9, 10**20):
        assert line_at(written.path, place) is None
    assert json.loads(written.path.read_bytes().splitlines()[0])["given"] == found["given"]
