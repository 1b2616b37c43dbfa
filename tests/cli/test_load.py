"""`dutiful load`: a day of minutes as text, JSON and a picture."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from dutiful.cli.main import cli

FILE = "".join(f'[[schedules]]\nid = "job-{n}"\ncron = "0 9 * * *"\n' for n in range(6))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "six.toml"
    path.write_text(FILE)
    return path


def run(*arguments):
    result = CliRunner().invoke(cli, ["load", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_rows_are_hours_and_the_fullest_minutes_are_named(file):
    lines = run(file, "--from", "2026-03-08").output.splitlines()
    assert lines[9] == "09:00 ▒" + "·" * 59
    assert lines[26:] == ["6 ticks, at most 6 in a minute", "fullest (UTC)  ticks", "09:00              6"]


@pytest.mark.parametrize("since", ["2026-03-08T15:30", "2026-03-08T23:00-05:00", "9999-12-31", "0001-01-01"])
def test_times_are_those_of_the_whole_day_in_utc(file, since):
    lines = run(file, "--from", since).output.splitlines()
    assert lines[26:] == ["6 ticks, at most 6 in a minute", "fullest (UTC)  ticks", "09:00              6"]


def test_a_stagger_is_suggested_as_cron_texts(file):
    lines = run(file, "--from", "2026-03-08", "--spread", "3m").output.splitlines()
    assert lines[9] == "09:00 ░░░░" + "·" * 56
    assert lines[26] == "6 ticks, at most 6 in a minute; 2 with 4 schedules moved, as drawn"
    assert lines[-4:] == [
        "job-1     0 9 * * *  1 9 * * *",
        "job-2     0 9 * * *  2 9 * * *",
        "job-3     0 9 * * *  3 9 * * *",
        "job-5     0 9 * * *  1 9 * * *",
    ]


def test_as_json_every_minute_is_there(file):
    found = json.loads(run(file, "--from", "2026-03-08", "--spread", "3m", "--json").output)
    assert (found["ticks"], found["peak"], found["minutes"][540]) == (6, 6, 6)
    assert (found["stagger"]["peak"], len(found["stagger"]["moves"])) == (2, 4)


def test_the_picture_is_the_same_twice_and_small(file, tmp_path):
    for name in ("a.svg", "b.svg"):
        assert run(file, "--from", "2026-03-08", "--picture", tmp_path / name).exit_code == 0
    first = (tmp_path / "a.svg").read_text()
    assert first == (tmp_path / "b.svg").read_text()
    assert (len(first) < 60_000, first.startswith("<svg "), "6 ticks, at most 6" in first) == (
        True,
        True,
        True,
    )


def test_the_picture_has_a_legend_its_peak_and_the_peaks_of_the_stagger(file, tmp_path):
    def words(*options):
        assert run(file, "--from", "2026-03-08", "--picture", tmp_path / "x.svg", *options).exit_code == 0
        drawn = ElementTree.parse(tmp_path / "x.svg").iter("{http://www.w3.org/2000/svg}text")
        return [each.text for each in drawn if not re.fullmatch(r"(\d\d)?:\d\d", each.text)]

    head = ["When 6 schedules fire", "dutiful load, Sun 8 Mar 2026, UTC", "6 at 09:00"]
    legend = ["ticks a minute", "none", "1 to 4", "to 16", "to 48", "to 120", "more"]
    bars = ["Most ticks in a minute", "as they are", "6", "with --spread 3m", "2"]
    assert words() == [*head, *legend]
    assert words("--spread", "3m") == [*head, *legend, *bars]


def test_a_day_without_ticks_says_so(tmp_path):
    (tmp_path / "rare.toml").write_text('[[schedules]]\nid = "leap"\ncron = "0 0 29 2 *"\n')
    assert "Nothing fires on that day." in run(tmp_path / "rare.toml", "--from", "2026-03-08").output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "sunday"], "Invalid --from 'sunday': write ISO 8601, such as 2026-03-08, "),
        (["--from", "9999-12-31T23:00-05:00"], "lies outside the years 1 to 9999 in UTC"),
        (["--from", "2026-03-08", "--spread", "2h"], "write 1m to 59m"),
        (["--from", "2026-03-08", "--spread", "soon"], "Invalid --spread"),
        (["--from", "2026-03-08", "--picture", "/nowhere/x.svg"], "Invalid --picture"),
    ],
)
def test_bad_usage_is_exit_code_2_with_the_way_out(file, options, message):
    done = run(file, *options)
    assert (done.exit_code, message in done.stderr) == (2, True)
