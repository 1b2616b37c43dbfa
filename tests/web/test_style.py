"""The style sheet: every colour can be read on its ground, in both themes, and the file stays small."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import dutiful.web

STYLE = (Path(dutiful.web.__file__).parent / "static" / "dutiful.css").read_text(encoding="utf-8")
TOKENS = {
    name: colours
    for name, *colours in re.findall(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", STYLE)
}
TEXTS = ["ink", "ink-2", "muted", "link", "ok", "fail", "skip", "run", "dst"]
TINTED = ["ok", "fail", "skip", "run", "dst"]
SHAPES = ["ok-fill", "fail-fill", "skip-fill", "run-fill", "dst-fill", "come", "edge"]


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", TEXTS)
def test_texts_can_be_read_on_every_ground(name, theme):
    for ground in ("surface", "ground", "sunken"):
        assert contrast(TOKENS[name][theme], TOKENS[ground][theme]) >= 4.5, ground


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", TINTED)
def test_words_of_a_state_can_be_read_on_its_tint(name, theme):
    assert contrast(TOKENS[name][theme], TOKENS[f"{name}-tint"][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_edges_stand_out(name, theme):
    assert contrast(TOKENS[name][theme], TOKENS["surface"][theme]) >= 3


def test_the_dark_theme_changes_colours_and_nothing_else():
    # The tests in a browser rely on it: in the dark theme they ask the rules about colours alone.
    assert "prefers-color-scheme" not in STYLE
    said = [rule for selector, rule in re.findall(r"([^{}]*)\{([^{}]*)\}", STYLE) if "data-theme" in selector]
    assert {rule.strip() for rule in said} == {"color-scheme: light;", "color-scheme: dark;"}


def test_the_measure_itself_is_right():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#777777") == 1


def test_the_file_is_within_its_budget():
    assert len(STYLE.encode()) <= 36 * 1024
    assert len(gzip.compress(STYLE.encode())) <= 8 * 1024


def test_the_bar_marks_a_wait_of_more_than_a_second():
    waits = re.search(r"\.bar:has\(\+ \[aria-busy\]\) \{ (.*) \}", STYLE)
    assert waits[1] == "box-shadow: 0 2px var(--link); transition-delay: 1s;"
