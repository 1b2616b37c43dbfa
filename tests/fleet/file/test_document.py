"""One file of a fleet: what is read, what is refused before it is looked at, and parts that are merged."""

from __future__ import annotations

import os

import pytest

from dutiful.fleet.errors import ConfigProblem, FleetConfigError
from dutiful.fleet.file.document import SIZE_MAX, Part, Spot, dotted, part_of, read_document
from dutiful.fleet.types import Problem
from dutiful.fleet.yaml_tree import compose


def problem(path):
    with pytest.raises(FleetConfigError) as caught:
        read_document(path)
    (found,) = caught.value.problems
    assert found.file == str(path)
    return found[1:4]


def part(text, file="fleet.yaml", environ=None, at=()):
    found, problems = part_of(compose(text, 1000).root, file, environ or {}, at)
    assert problems == []
    return found


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\n")
    assert read_document(path).value["version"].value == "1"


def test_the_largest_file_is_read_and_one_byte_more_is_refused(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_bytes(b"a: b\n".ljust(SIZE_MAX, b"#"))
    assert read_document(path).value["a"].value == "b"
    path.write_bytes(b"a: b\n".ljust(SIZE_MAX + 1, b"#"))
    assert problem(path) == (None, "", "is larger than 1,000,000 bytes; split it into one file per agent")


def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        assert problem(path) == (None, "", "is not a regular file; give the path of a YAML file")


def test_a_file_that_is_not_there_is_named(tmp_path):
    said = "cannot be read (No such file or directory); check the path and its permissions"
    assert problem(tmp_path / "missing.yaml") == (None, "", said)


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_bytes(b"a: b\nc: caf\xe9\n")
    assert problem(path) == (2, "", "has the byte 0xE9, which is not UTF-8; save the file as UTF-8")


def test_an_empty_file_is_refused_with_what_to_write(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.touch()
    said = "is empty; write a fleet (`version: 1` and `agents`) or an agent (`name`) into it"
    assert problem(path) == (None, "", said)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("agents", 0, "schedules", "daily"), "agents[0].schedules.daily"),
        ((3, "a"), "[3].a"),
        (("a\nb",), "a\\nb"),
    ],
)
def test_a_path_as_people_write_it(path, text):
    assert dotted(path) == text


def test_a_part_knows_where_everything_stands():
    found = part("name: a\nlist:\n  - b\n", at=("agents", 0))
    assert found.value == {"name": "a", "list": ["b"]}
    assert found.spots == {
        (): Spot("fleet.yaml", 1, ("agents", 0)),
        ("name",): Spot("fleet.yaml", 1, ("agents", 0)),
        ("list",): Spot("fleet.yaml", 2, ("agents", 0)),
        ("list", 0): Spot("fleet.yaml", 3, ("agents", 0)),
    }


def test_mappings_are_merged_and_everything_else_is_replaced():
    under = part("a: {b: 1, c: 2}\nlist: [1, 2]\nkept: x\nd: {e: 1}\n")
    over = part("a: {b: 3}\nlist: [4]\nd: y\nnew: z\n", "over.yaml")
    merged = under.under(over)
    assert merged.value == {"a": {"b": "3", "c": "2"}, "list": ["4"], "kept": "x", "d": "y", "new": "z"}
    files = {path[-1]: spot.file for path, spot in merged.spots.items() if path in {("a", "b"), ("a", "c")}}
    assert files == {"b": "over.yaml", "c": "fleet.yaml"}


def test_a_problem_is_located_at_the_nearest_value():
    found = part("a:\n  b: 1\n", at=("defaults",))
    assert found.located(Problem(("a", "b"), "no", "1")) == ConfigProblem(
        "fleet.yaml", 2, "defaults.a.b", "no", "1"
    )
    assert found.located(Problem(("a", "c", "d"), "no")) == ConfigProblem(
        "fleet.yaml", 1, "defaults.a.c.d", "no"
    )


@pytest.mark.parametrize("path", [("url",), ()])
def test_what_came_out_of_the_environment_is_never_shown(path):
    found = part("url: x ${TOKEN}", environ={"TOKEN": "canary-token"})
    assert found.value == {"url": "x canary-token"}
    located = found.located(Problem(path, 'no "canary-token" here', "x canary-token"))
    assert (located.message, located.value) == ('no "${TOKEN}" here', "x ${TOKEN}")


def test_a_long_secret_is_not_shown_in_its_short_form_either():
    secret = "canary" * 40
    found = part("url: ${TOKEN}", environ={"TOKEN": secret})
    located = found.located(Problem(("url",), f'no "{secret[:79]}…"', secret))
    assert "canary" not in str(located)


def test_problems_with_variables_and_missing_values_are_reported_with_their_place():
    root = compose("a: ${NOBODY}\nb:\nc: ~\n", 100).root
    found, problems = part_of(root, "fleet.yaml", {})
    assert isinstance(found, Part)
    assert [str(p) for p in problems] == [
        "fleet.yaml:1: a: '${NOBODY}': the variable NOBODY is not set; set it, or write ${NOBODY:-default}",
        "fleet.yaml:2: b: has no value; write one, or null for none, or remove it",
    ]
