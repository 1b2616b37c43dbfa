"""What must hold for every text, zone, rule and instant, searched by hypothesis; always the same search."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.cron.cron_texts import legal_texts
from tests.oracles import epoch

from dutiful import Cron
from dutiful.core.cron.dialect import DIALECTS
from dutiful.core.cron.lint import Finding, lint
from dutiful.core.errors import CronCalculationError

always = settings(derandomize=True, deadline=None, database=None)
ODD_ZONES = (
    "UTC",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Caracas",
    "America/Juneau",
    "America/New_York",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
)


@cache
def texts():
    """Return legal texts, the shortest first, so that a failure is shown with the shortest that fails."""
    return [
        (text, dialect)
        for dialect in DIALECTS
        for text in sorted(legal_texts(seed=99, count=1000, dialect=dialect), key=len)
    ]


CRONS = st.builds(
    lambda text, zone, gap, fold: Cron.parse(*text, zone, gap, fold),
    st.deferred(lambda: st.sampled_from(texts())),
    st.sampled_from(ODD_ZONES),
    st.sampled_from(("skip", "run_after")),
    st.sampled_from(("both", "first", "last")),
)


def near_a_change(zone):
    changes = [at for at, _, _ in Cron.parse("* * * * *", timezone=zone).zone.changes(*YEARS)]
    return [at + second for at in changes for second in (-3600, -60, -1, 0, 1, 60, 3600)]


YEARS = epoch(1950, 1, 1), epoch(2100, 1, 1)


def near_any_change():
    return st.sampled_from(sorted({instant for zone in ODD_ZONES for instant in near_a_change(zone)}))


# Found when it is first drawn from, because every worker of the tests imports this file.
SECONDS = st.one_of(st.integers(*YEARS), st.deferred(near_any_change))
INSTANTS = st.builds(
    lambda seconds, micros: datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros),
    SECONDS,
    st.sampled_from((0, 0, 1, 999_999)),
)
INSTANT = timedelta(microseconds=1)


def following(cron, at):
    """Return the next tick in UTC: only there do equal and unequal mean what they say in a fold."""
    return cron.next(at).astimezone(UTC)


def preceding(cron, at):
    return cron.previous(at).astimezone(UTC)


@settings(always, max_examples=800)
@given(CRONS, INSTANTS)
def test_next_is_after_and_previous_at_or_before(cron, at):
    assert following(cron, at) > at
    assert preceding(cron, at) <= at


@settings(always, max_examples=800)
@given(CRONS, INSTANTS)
def test_no_occurrence_lies_between_previous_and_next(cron, at):
    before, after = preceding(cron, at), following(cron, at)
    assert following(cron, before) == after
    assert preceding(cron, after - INSTANT) == before


@settings(always, max_examples=800)
@given(CRONS, INSTANTS)
def test_an_occurrence_is_its_own_previous_and_the_next_of_the_instant_before(cron, at):
    tick = following(cron, at)
    assert preceding(cron, tick) == tick
    assert following(cron, tick - INSTANT) == tick
    assert following(cron, tick) > tick


@settings(always, max_examples=800)
@given(CRONS, INSTANTS)
def test_an_occurrence_matches_and_so_does_its_local_time_where_gaps_are_skipped(cron, at):
    tick = cron.next(at)
    assert cron.matches(tick)
    skipping = Cron.parse(cron.text, cron.dialect, cron.zone.tzinfo, "skip", cron.fold).next(at)
    assert skipping.second == 0 or cron.dialect == "seconds"
    assert Cron.parse(cron.text, cron.dialect).matches(skipping.replace(tzinfo=UTC))


@settings(always, max_examples=600)
@given(CRONS, INSTANTS)
def test_a_minute_or_second_matches_exactly_if_an_occurrence_falls_in_it(cron, at):
    begin = at.replace(microsecond=0)
    if cron.dialect != "seconds":
        begin -= timedelta(seconds=at.astimezone(cron.zone.tzinfo).second)
    assert cron.matches(at) is any(cron.between(begin, at + INSTANT))


@settings(always, max_examples=400)
@given(CRONS, INSTANTS, st.integers(1, 12))
def test_between_is_next_repeated(cron, at, count):
    ticks, tick = [], at - INSTANT
    for _ in range(count):
        tick = following(cron, tick)
        ticks.append(tick)
    assert [each.astimezone(UTC) for each in cron.between(at, ticks[-1])] == ticks[:-1]
    assert [each.astimezone(UTC) for each in cron.between(at, ticks[-1] + INSTANT)] == ticks


@settings(always, max_examples=400)
@given(CRONS, SECONDS, st.integers(0, 60))
def test_a_count_and_a_list_agree_with_the_walk(cron, since, count):
    walk = [since]
    for _ in range(count):
        walk.append(cron.next_epoch(walk[-1]))
    for last in (walk[-1], cron.next_epoch(walk[-1]) - 1):
        assert cron.count_epoch(since, last) == count
        assert cron.between_epoch(since, last) == walk[1:]


@settings(always, max_examples=200)
@given(CRONS, st.integers(1, 3 * 86_400))
def test_a_count_and_a_list_end_with_the_years_that_a_datetime_holds(cron, before):
    since = epoch(9999, 12, 31) + 86_400 - before
    walk = [since]
    while len(walk) <= 60:
        try:
            walk.append(cron.next_epoch(walk[-1]))
        except CronCalculationError:
            assert cron.between_epoch(since, since + 9 * 86_400) == walk[1:]
            assert cron.count_epoch(since, since + 9 * 86_400) == len(walk) - 1
            break


@settings(always, max_examples=600)
@given(CRONS, SECONDS)
def test_the_order_of_the_questions_does_not_change_the_answers(cron, since):
    walk = [since]
    for _ in range(5):
        walk.append(cron.next_epoch(walk[-1]))
    assert [cron.next_epoch(early) for early in walk[-2::-1]] == walk[:0:-1]
    assert [cron.next_epoch(late - 1) for late in walk[:0:-1]] == walk[:0:-1]
    asked = [instant + second for instant in walk[:-1] for second in (0, 1, 0)] + walk[-2::-1]
    assert [cron.upcoming_epoch(instant) for instant in asked] == [cron.next_epoch(each) for each in asked]


@settings(always, max_examples=700)
@given(CRONS)
def test_every_cron_can_be_described_linted_and_read_back(cron):
    sentence = cron.describe()
    assert sentence[0].isupper()
    assert sentence.isprintable()
    remarks = lint(cron, datetime(2026, 1, 1, tzinfo=UTC))
    assert all(isinstance(remark, Finding) and remark.message.isprintable() for remark in remarks)
    again = Cron.parse(str(cron), cron.dialect, cron.zone.tzinfo, cron.gap, cron.fold)
    assert (again, again.fields) == (cron, cron.fields)
