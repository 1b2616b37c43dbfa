"""Hundreds of broken fleet files: each is refused at once, with a place and something to do; none is run."""

from __future__ import annotations

import re

import pytest
from tests.fleet.file.malformed import AMPLIFIED, GOOD, corpus
from tests.yardstick import takes_less_than

from dutiful.fleet import FleetConfigError, load_fleet

CORPUS = corpus()
# In every problem there is one of these.
ADVICE = re.compile(r"; [\w`']|must be|must leave|\(did you mean|: one of|^is missing$")


def test_the_good_file_is_accepted(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert [agent.name for agent in load_fleet(path).agents] == ["writer"]


def test_there_are_more_than_two_hundred():
    assert len(CORPUS) > 200


@pytest.mark.parametrize("name", CORPUS)
def test_a_broken_file_is_refused_with_place_and_advice(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "fleet.yaml"
    path.write_bytes(CORPUS[name])
    with takes_less_than(1500 if name in AMPLIFIED else 800), pytest.raises(FleetConfigError) as caught:
        load_fleet(path, environ={"X": "x"})
    assert [entry.name for entry in tmp_path.iterdir()] == ["fleet.yaml"]
    problems = caught.value.problems
    assert problems
    assert [p for p in problems if p.file != str(path)] == []
    assert [p for p in problems if not (p.line or p.path or p.message.startswith("is "))] == []
    assert [str(p) for p in problems if not ADVICE.search(p.message)] == []
    assert str(caught.value).startswith(f"{path} cannot be used:\n  {path}")
    assert len(str(caught.value)) < 60_000
