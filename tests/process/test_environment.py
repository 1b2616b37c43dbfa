"""The environment of a command: which variables it gets, and which not."""

from __future__ import annotations

from dutiful.process import Exit, environment_of

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def test_little_is_passed_on(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.setenv("PATH", "/elsewhere")
    monkeypatch.setenv("TOKEN", "canary")
    fixed = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/somewhere"}
    assert environment_of({}) == fixed
    assert environment_of({"A": "1"}, ["TOKEN", "ABSENT"]) == {**fixed, "TOKEN": "canary", "A": "1"}


def test_a_value_that_no_variable_can_hold_is_left_out_or_mended():
    told = {"NONE": None, "LONG": "x" * 100_001, "NUL": "a\0b", "HALF": "\ud800"}
    found = environment_of(told)
    assert {name: found.get(name) for name in told} == {
        "NONE": None,
        "LONG": None,
        "NUL": "a\ufffdb",
        "HALF": "?",
    }


def test_how_a_command_ended_in_one_line():
    assert Exit(0, "one\ntwo\n\n", "noise").summary == "two"
    assert Exit(0, "", "noise").problem is None
    assert Exit(3, "", "a\n\nb\nc\nd\x1b\n").problem == "exit code 3: b | c | d"
    assert Exit(-9, "", "").problem == "killed by signal 9"
    assert Exit(-15, "", "", timed_out_after=2.5).problem == "timed out after 2.5 s"
