"""Sentences that a reader takes in at once: at most 25 words."""

from __future__ import annotations

import re

import pytest
from tests.test_docs import FENCE, PAGES, ROOT

MOST_WORDS = 25
# What people read from top to bottom; in the reference they look things up.
READ = [ROOT / "README.md", *(page for page in PAGES if page.parent.name in {"docs", "guides"})]
# Tables and headings are looked up rather than read; comments and pictures are no prose.
SKIPPED = re.compile(
    r"^(?:\||#)[^\n]*$|<!--.*?-->|<picture>.*?</picture>|!\[.*?\]\(.*?\)", re.MULTILINE | re.DOTALL
)
PARAGRAPH = re.compile(r"\n\s*(?:(?:[-*]|\d+\.) |\n)+")


def long_sentences(text: str) -> list[str]:
    prose = SKIPPED.sub("\n\n", FENCE.sub("\n\n", text))
    prose = re.sub(r"`[^`]*`", "code", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose))
    sentences = [
        " ".join(sentence.split())
        for paragraph in PARAGRAPH.split(prose)
        # What comes after a colon is read for itself.
        for sentence in re.split(r"(?<=[.!?:])\**\s+", paragraph)
    ]
    return [sentence for sentence in sentences if len(sentence.split()) > MOST_WORDS]


def test_a_long_sentence_is_found_and_a_short_one_is_not():
    short, long = " ".join(["word"] * MOST_WORDS) + ".", " ".join(["word"] * (MOST_WORDS + 1)) + "."
    assert long_sentences(f"# Title\n\n{short} {short}\n\n- {long}\n\n| {long} |\n") == [long]


@pytest.mark.parametrize("page", READ, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_sentence_is_short(page):
    assert long_sentences(page.read_text(encoding="utf-8")) == []
