"""YAML as a tree of texts: what is kept, what is refused and where, and the way back."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dutiful.fleet.yaml_tree import Flaw, Node, compose, to_yaml

ANY = 1_000_000


def plain(node):
    """Return a tree as ordinary values."""
    if isinstance(node.value, dict):
        return {key: plain(below) for key, below in node.value.items()}
    return [plain(below) for below in node.value] if isinstance(node.value, list) else node.value


def told(text, values_max=ANY):
    composed = compose(text, values_max)
    assert composed.root is None
    return [(flaw.line, flaw.path, flaw.message) for flaw in composed.flaws]


@pytest.mark.parametrize(
    "text", ["12:30", "no", "010", "1e3", "2026-01-01", "0x1F", ".inf", "true", "1_000", "="]
)
def test_a_text_stays_what_was_written(text):
    assert compose(f"a: {text}", ANY).root == Node({"a": Node(text, 1, plain=True)}, 1)


@pytest.mark.parametrize("text", ["null", "Null", "NULL", "~"])
def test_null_is_nothing_unless_it_is_quoted(text):
    assert compose(f"a: {text}\nb: '{text}'", ANY).root.value == {
        "a": Node(None, 1, plain=True),
        "b": Node(text, 2),
    }


def test_a_value_that_was_not_written_is_known_from_a_null():
    assert compose("a:\nb: ''\n", ANY).root.value == {"a": Node(None, 1), "b": Node("", 2)}


def test_lines_are_those_of_the_keys():
    text = "a: 1\nb:\n  - x\n\n  - |\n    y\n\nc:\n  d:\n    2\n"
    root = compose(text, ANY).root
    assert {key: node.line for key, node in root.value.items()} == {"a": 1, "b": 2, "c": 8}
    assert [node.line for node in root.value["b"].value] == [3, 5]
    assert root.value["c"].value["d"].line == 9


@pytest.mark.parametrize("text", ["", "\n", "# a comment", "---\n", "---\n...\n", "null", "%YAML 1.1\n---\n"])
def test_an_empty_document_is_no_tree_and_no_flaw(text):
    assert compose(text, ANY) == (None, ())


def test_a_star_is_answered_with_the_advice_to_quote():
    advice = 'put a text that begins with * in quotes, such as "*/5 * * * *"'
    for text in ("* * * * *", "*/5 * * * *", "*daily"):
        (flaw,) = told(f"schedules:\n  daily:\n    expression: {text}\n")
        assert flaw[:2] == (3, ("schedules", "daily", "expression"))
        assert flaw[2].endswith(advice)


@pytest.mark.parametrize(
    ("text", "line", "path", "advice"),
    [
        ("a: @daily", 1, ("a",), 'put a text that begins with @ in quotes, such as "@daily"'),
        ("a:\n\tb: c", 2, ("a",), "indent with blanks, not with tabs"),
        ("a: b: c", 1, (), 'put a text with ": " in quotes; line up keys that belong together'),
        ("a: b\n c: d", 2, (), 'put a text with ": " in quotes; line up keys that belong together'),
        ('a: b\nc: "d\ne: f\n', 2, ("c",), "close the quotes, and write nothing behind them"),
        ("a: [b, c\nd: e", 1, ("a", 2), "close the bracket, or put a text with brackets or commas in quotes"),
        ("a: {b: c", 1, ("a",), "close the bracket, or put a text with brackets or commas in quotes"),
        ('a: "b" c', 1, (), "line up keys that belong together; put quotes around all of a text"),
        ('a: "C:\\dir"', 1, ("a",), "write \\\\ for a backslash, or use single quotes"),
        ("a: &", 1, ("a",), "put a text that begins with & in quotes"),
        ("a: !<", 1, ("a",), "put a text that begins with ! in quotes"),
        ("%a", 1, (), "put a text that begins with % in quotes"),
        ("a: 1\nb\nc: 2\n", 2, (), "write a colon and a blank after each key"),
        ("a: |b\n c", 1, ("a",), "write nothing behind | or >, and indent the text with blanks"),
        ("- a\nb: c", 2, (1,), "line up the items of a list, each with its dash"),
        (
            "a: `b`",
            1,
            ("a",),
            "check the quotes and the indentation; put a text with special characters in quotes",
        ),
    ],
)
def test_what_is_not_yaml_is_answered_with_what_to_write(text, line, path, advice):
    (flaw,) = told(text)
    assert flaw[:2] == (line, path)
    assert flaw[2].startswith("is not YAML (")
    assert flaw[2].endswith(f"; {advice}")


def test_everything_that_can_be_read_past_is_reported_at_once():
    text = "a: &x 1\nb: !t 2\nc: *x\nd: 1\nd: 2\ne:\n  <<: {f: 1}\n  '<<': 2\n: 3\n"
    assert [flaw[:2] for flaw in told(text)] == [
        (1, ("a",)),
        (2, ("b",)),
        (3, ("c",)),
        (5, ("d",)),
        (7, ("e", "<<")),
        (8, ("e", "<<")),
        (9, ()),
    ]
    assert told(text)[3][2] == "is there twice, first on line 4; keep one"


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("a: 1\n---\nb: 2", (2, (), "a second document begins; write one document in a file")),
        (
            "? [a]\n: b",
            (1, (), "a key is a list or a mapping; write a text, in quotes if it begins with [ or {"),
        ),
        ("[" * 33, (1, (0,) * 32, "is nested more than 32 deep; flatten it")),
        (
            "a\n\x07",
            (2, (), "has the control character U+0007; remove it, or write it as an escape in quotes"),
        ),
        ("\x00", (1, (), "has the control character U+0000; remove it, or write it as an escape in quotes")),
    ],
)
def test_what_ends_the_reading(text, flaw):
    assert told(text) == [flaw]


def test_more_values_than_allowed_end_the_reading():
    assert compose("a: [b, c]", 4).flaws == ()
    assert told("a: [b, c]", 2) == [(1, ("a",), "has too many values; split the file")]


def test_thirty_two_deep_is_deep_enough():
    assert compose("[" * 32 + "]" * 32, ANY).flaws == ()


def test_reading_stops_after_a_hundred_flaws():
    assert len(told("- !t x\n" * 1000)) == 100


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
scalars = (texts | st.none()).map(Node)
trees = st.recursive(
    scalars,
    lambda below: (st.lists(below, max_size=4) | st.dictionaries(texts, below, max_size=4)).map(Node),
    max_leaves=12,
)


@given(trees.filter(lambda tree: tree.value is not None))
def test_a_tree_that_was_written_is_read_back(tree):
    composed = compose(to_yaml(tree), ANY)
    assert composed.flaws == ()
    assert plain(composed.root) == plain(tree)


@given(trees)
def test_every_other_reader_sees_the_same_texts(tree):
    assert yaml.safe_load(to_yaml(tree)) == plain(tree)


@pytest.mark.parametrize("text", ["5", "true", "1.5", "2026-01-01", "0x1f", "12:30", "no", "null", "hello"])
def test_what_was_written_without_quotes_is_written_without_quotes_again(text):
    root = compose(f"a: {text}\nb: '{text}'\n", ANY).root
    again = to_yaml(root)
    assert again.splitlines()[0] == f"a: {text}"
    assert yaml.safe_load(again) == yaml.safe_load(f"a: {text}\nb: '{text}'\n")


@given(st.text(max_size=200))
def test_no_text_at_all_gets_past_the_flaws(text):
    composed = compose(text.encode("utf-8", "replace").decode(), ANY)
    assert composed.root is None or composed.flaws == ()
    assert all(isinstance(flaw, Flaw) and flaw.line >= 1 for flaw in composed.flaws)


@given(st.text("[]{}:,-?*&!|>'\"%@` \n\tab#<", max_size=60))
def test_no_heap_of_indicators_gets_past_the_flaws(text):
    composed = compose(text, ANY)
    assert composed.root is None or composed.flaws == ()


@pytest.mark.parametrize("key", ["5", "on", "null", "2026-01-01", "hello", "'5'", "'on'"])
def test_a_key_stays_what_other_readers_take_it_for(key):
    text = f"{key}: 1\n"
    assert to_yaml(compose(text, ANY).root) == text
    assert to_yaml(Node({"on": Node("1", plain=True)})) == "'on': 1\n"
