"""The fixture that users get, in a pytest of its own: as installed, or named on the command line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytest_plugins = ["pytester"]

# Installed or not depends on the environment, so it is switched off by its one name and on by the other.
PLUGIN = ("-p", "no:dutiful", "-p", "dutiful.pytest_plugin", "-p", "no:cacheprovider")


def test_installing_dutiful_installs_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"dutiful": "dutiful.pytest_plugin"}


@pytest.fixture
def passes(pytester):
    """Return a function that runs a test file, and asserts how many of its tests pass."""

    def check(source, count):
        pytester.makepyfile(source)
        result = pytester.runpytest_subprocess(*PLUGIN, "--strict-markers", "-W", "error")
        result.assert_outcomes(passed=count)

    return check


def test_the_clock_starts_at_a_fixed_instant_for_every_test(passes):
    passes(
        """
        import asyncio
        import pytest

        @pytest.mark.parametrize("again", [1, 2])
        def test_it(virtual_clock, again):
            assert virtual_clock.now().isoformat() == "2026-01-01T00:00:00+00:00"
            asyncio.run(virtual_clock.advance(90))
            assert virtual_clock.now().isoformat() == "2026-01-01T00:01:30+00:00"
        """,
        2,
    )


def test_a_mark_says_where_time_starts_and_in_which_zone(passes):
    passes(
        """
        import pytest

        @pytest.mark.virtual_clock("2026-03-08T06:59:00+00:00", timezone="America/New_York")
        def test_marked(virtual_clock):
            assert virtual_clock.now().isoformat() == "2026-03-08T01:59:00-05:00"

        @pytest.mark.virtual_clock("2026-03-08T06:59:00+00:00")
        class TestClass:
            def test_by_its_class(self, virtual_clock):
                assert virtual_clock.now().isoformat() == "2026-03-08T06:59:00+00:00"

            @pytest.mark.virtual_clock("2027-01-01")
            def test_the_closest_mark_counts(self, virtual_clock):
                assert virtual_clock.now().isoformat() == "2027-01-01T00:00:00+00:00"
        """,
        3,
    )


def test_the_mark_is_explained(pytester):
    result = pytester.runpytest_subprocess(*PLUGIN, "--markers")
    result.stdout.fnmatch_lines(
        ["@pytest.mark.virtual_clock(start, timezone='UTC'): where virtual time starts"]
    )
