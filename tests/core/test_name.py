"""Names: any text that stays one line, as an exact `str`."""

from __future__ import annotations

from enum import Enum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.core.name import exact, name_flaw


class Job(str, Enum):  # noqa: UP042 - the kind that formats as its own name
    NIGHTLY = "nightly"


class Modern(StrEnum):
    NIGHTLY = "nightly"


class Deceptive(str):
    """Shows another text than it holds."""

    def __str__(self):
        return "another"

    def __format__(self, spec):
        return "another"

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize("text", ["nightly", Job.NIGHTLY, Modern.NIGHTLY, Deceptive("nightly")], ids=repr)
def test_a_text_of_any_kind_becomes_an_exact_one(text):
    became = exact(text)
    assert (type(became), became) == (str, "nightly")


@pytest.mark.parametrize(
    "name",
    [
        "a",
        " ",
        "отчёт",
        "a/b:c",
        "👩‍👩‍👧",
        "नि‍त्य",
        "non\u00a0breaking",
        "zero\u200bwidth",
        "\u202eleft",
        "x" * 1000,
    ],
    ids=ascii,
)
def test_joiners_emoji_and_other_scripts_are_legal(name):
    assert name_flaw(name) is None


def test_an_empty_name_is_refused():
    assert name_flaw("") == "must be a non-empty string"


@pytest.mark.parametrize("odd", ["\n", "\0", "\x1b", "\x7f", "\x85", "\ud800", "\u2028", "\u2029"], ids=ascii)
def test_a_character_that_could_forge_a_line_is_refused_by_its_code(odd):
    listed = "control characters, surrogates and line separators are refused"
    assert name_flaw(f"a{odd}b") == f"must not contain U+{ord(odd):04X}: {listed}"


@given(st.text(min_size=1))
def test_a_legal_name_is_one_line_that_can_be_stored(name):
    if name_flaw(name) is None:
        assert name.splitlines() == [name]
        assert name.encode().decode() == name
