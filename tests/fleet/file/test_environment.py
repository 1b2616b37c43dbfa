"""Variables in a fleet file are filled in once, or refused with the way to write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutiful.fleet.file.document import fill_in

ENVIRON = {"HOST": "example.org", "EMPTY": "", "NESTED": "${HOST}", "A_1": "one"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${HOST}", "example.org"),
        ("https://${HOST}/${A_1}", "https://example.org/one"),
        ("${NOBODY:-none}", "none"),
        ("${HOST:-none}", "example.org"),
        ("${EMPTY}", ""),
        ("${EMPTY:-none}", "none"),
        ("${NOBODY:-}", ""),
        ("${NOBODY:-a:-b}", "a:-b"),
        ("${NOBODY:-two\nlines}", "two\nlines"),
        ("${NESTED}", "${HOST}"),
        ("$${HOST}", "${HOST}"),
        ("$$${HOST}", "$${HOST}"),
        ("costs $5, or $$5", "costs $5, or $$5"),
        ("$HOST", "$HOST"),
        ("{HOST}", "{HOST}"),
    ],
)
def test_what_a_text_becomes(text, filled):
    assert fill_in(text, ENVIRON).text == filled


def test_what_came_out_of_the_environment_is_known_with_its_reference():
    filled = fill_in("${HOST}/${A_1:-x}/${NOBODY:-y}", ENVIRON)
    references = {"example.org": "${HOST}", "one": "${A_1:-x}", "y": "${NOBODY:-y}"}
    assert filled == ("example.org/one/y", references)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${NOBODY}", "the variable NOBODY is not set; set it, or write ${NOBODY:-default}"),
        ("${}", "has the reference ${}; write ${NAME} or ${NAME:-default}, or $${ for ${ itself"),
        ("${1X}", "has the reference ${1X}; write ${NAME} or ${NAME:-default}, or $${ for ${ itself"),
        ("${A-b}", "has the reference ${A-b}; write ${NAME} or ${NAME:-default}, or $${ for ${ itself"),
        ("x ${HOST", "has the reference ${HOST; write ${NAME} or ${NAME:-default}, or $${ for ${ itself"),
        ("${ HOST }", "has the reference ${ HOST }; write ${NAME} or ${NAME:-default}, or $${ for ${ itself"),
        (
            "${NOBODY:-${HOST}}",
            "has the reference ${NOBODY:-${HOST}; write ${NAME} or ${NAME:-default}, or $${ for ${ itself",
        ),
        ("${ÄB}", "has the reference ${ÄB}; write ${NAME} or ${NAME:-default}, or $${ for ${ itself"),
    ],
)
def test_a_reference_that_cannot_be_filled_in_is_refused(text, told):
    with pytest.raises(ValueError, match=r"\w") as caught:
        fill_in(text, ENVIRON)
    assert str(caught.value) == told


@given(st.text())
def test_whatever_a_variable_holds_is_taken_as_it_is(value):
    assert fill_in("<${X}>", {"X": value}).text == f"<{value}>"
