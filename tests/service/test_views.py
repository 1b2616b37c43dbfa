"""Schedules and instants as the service shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dutiful.core.errors import InvalidArgumentError
from dutiful.service.declaration import Defaults, ScheduleInput, declared
from dutiful.service.views import decode_cursor, encode_cursor, facts_of, moment

_YEAR_2242 = 2**33 * 1000
_YEAR_9999 = 253_402_300_799_999


@given(st.integers(0, _YEAR_9999))
@example(0)
@example(_YEAR_2242 - 1)
@example(_YEAR_2242)
@example(_YEAR_9999)
def test_an_instant_is_shown_to_the_millisecond(instant):
    assert moment(instant) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)


def test_every_declared_value_is_shown_under_its_name():
    schedule = declared(ScheduleInput("report", 1, "ada", "0 9 * * *"), "job", False, Defaults())
    # An id is no value, and dst is shown as the gap and the fold that it means.
    assert {*facts_of(schedule)} == {*ScheduleInput._fields} - {"schedule_id", "dst"}


@pytest.mark.parametrize("part", ["\ud800", "a\0", "\0"])
def test_a_cursor_with_a_text_that_no_store_can_search_for_is_refused(part):
    with pytest.raises(InvalidArgumentError, match="hand back the next_cursor"):
        decode_cursor(encode_cursor(5, part), int, str)
