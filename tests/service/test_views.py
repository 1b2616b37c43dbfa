"""Instants as the service shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from dutiful.service.views import moment

_YEAR_2242 = 2**33 * 1000
_YEAR_9999 = 253_402_300_799_999


@given(st.integers(0, _YEAR_9999))
@example(0)
@example(_YEAR_2242 - 1)
@example(_YEAR_2242)
@example(_YEAR_9999)
def test_an_instant_is_shown_to_the_millisecond(instant):
    assert moment(instant) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)
