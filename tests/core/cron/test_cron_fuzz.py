"""Any text at all is read or refused, and a refusal is always the one error with its parts in place."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.cron.cron_texts import legal_texts

from dutiful import Cron, FieldParseError, InvalidCronExpressionError
from dutiful.core.cron.dialect import DIALECTS

always = settings(derandomize=True, deadline=None, database=None)


def is_read(text, dialect):
    """Return whether the text is read; what is raised otherwise is checked from end to end."""
    try:
        Cron.parse(text, dialect)
    except InvalidCronExpressionError as error:
        refusal = error
    else:
        return True
    assert refusal.expression == text
    assert str(refusal).isprintable()
    blamed = refusal.field != "expression"
    assert isinstance(refusal.__context__, FieldParseError) is blamed
    assert (refusal.__context__ is not None) is blamed
    return False


@settings(always, max_examples=2000)
@given(st.text(max_size=300), st.sampled_from(tuple(DIALECTS)))
def test_any_text_is_read_or_refused_properly(text, dialect):
    is_read(text, dialect)


@settings(always, max_examples=3000)
@given(st.text("0123456789*/-,@ \tLW?#janmoedily+_.eExX٣", max_size=40), st.sampled_from(tuple(DIALECTS)))
def test_any_text_of_the_right_characters_is_read_or_refused_properly(text, dialect):
    is_read(text, dialect)


def mutate(rng, text):
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(text) + 1), rng.randrange(5)
        piece = rng.choice(
            ["", " ", "\t", ",", "-", "/", "*", "0", "7", "60", "L", "#", "mon", "@", "٣", "\0", "\n"]
        )
        if kind == 0:
            text = text[:at] + piece + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + 1 :]
        elif kind == 2:
            text = text[:at] + piece + text[at + 1 :]
        elif kind == 3:
            text = text[:at] + text[at:] * 2
        else:
            text = text[:at] + text[at : at + 3][::-1] + text[at + 3 :]
    return text


def damaged(seed, count, dialect):
    rng = random.Random(seed)
    sound = legal_texts(seed=seed, count=500, dialect=dialect)
    return [mutate(rng, rng.choice(sound)) for _ in range(count)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_damaged_texts_are_read_or_refused_properly(dialect):
    read = [is_read(text, dialect) for text in damaged(seed=256, count=8000, dialect=dialect)]
    assert 0.02 < sum(read) / len(read) < 0.98


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_a_million_damaged_texts_are_read_or_refused_properly(seed):
    for dialect in DIALECTS:
        for text in damaged(seed=seed, count=3500, dialect=dialect):
            is_read(text, dialect)
