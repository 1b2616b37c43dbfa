"""The load of a day, and the stagger that flattens it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dutiful.core.cron.cron import Cron
from dutiful.simulate.load import Move, counts_of, stagger
from dutiful.simulate.schedule_file import read_schedule_file

DAY = datetime(2026, 3, 8, tzinfo=UTC)


@pytest.fixture
def schedules(tmp_path):
    def read(*crons, **common):
        path = tmp_path / "file.toml"
        extra = "".join(f'{key} = "{value}"\n' for key, value in common.items())
        path.write_text(
            "".join(
                f'[[schedules]]\nid = "s{n:04}"\ncron = "{text}"\n{extra}' for n, text in enumerate(crons)
            )
        )
        return read_schedule_file(path).schedules

    return read


def test_each_tick_is_counted_in_its_minute(schedules):
    counts = counts_of(schedules("0 9 * * *", "0 9 * * *", "30 * * * *"), DAY)
    assert {minute: count for minute, count in enumerate(counts) if count} == {
        9 * 60: 2,
        **{hour * 60 + 30: 1 for hour in range(24)},
    }


def test_a_day_without_a_wall_time_has_no_tick_for_it(schedules):
    skipped = schedules("30 2 * * *", timezone="America/New_York", gap="skip")
    assert sum(counts_of(skipped, DAY)) == 0


def test_a_thousand_hourly_schedules_fall_from_a_thousand_to_under_forty_a_minute(schedules):
    many = schedules(*["0 * * * *"] * 1000)
    assert max(counts_of(many, DAY)) == 1000
    flat = stagger(many, DAY, 30)
    assert max(flat.counts) <= 40
    assert sum(flat.counts) == 24_000
    assert all(0 < move.by <= 30 for move in flat.moves)
    assert flat == stagger(many, DAY, 30)


def test_a_move_says_the_new_text_which_fires_that_much_later(schedules):
    two = schedules("58 6,18 * * *", "58 6,18 * * *")
    (move,) = stagger(two, DAY, 30).moves
    assert move == Move("s0001", 1, "58 6,18 * * *", "59 6,18 * * *")
    assert Cron.parse(move.after).next(DAY) == datetime(2026, 3, 8, 6, 59, tzinfo=UTC)


def test_a_schedule_without_a_fixed_minute_is_not_moved(schedules):
    flat = stagger(schedules("* * * * *", "0,30 * * * *"), DAY, 30)
    assert (flat.moves, max(flat.counts)) == ([], 2)
