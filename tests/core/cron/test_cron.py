"""The questions a Cron answers; the walk through changes of offset is in test_transitions.py."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from tests.oracles import DAY, epoch, ticks

from dutiful import Cron, InvalidArgumentError

NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")


def at(text):
    """Return a datetime, in UTC unless the text says otherwise."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("after", "following"),
    [
        ("2026-01-01T08:59:59", "2026-01-01T09:00"),
        ("2026-01-01T08:59:59.999999", "2026-01-01T09:00"),
        ("2026-01-01T09:00", "2026-01-02T09:00"),
        ("2026-01-01T09:00:00.000001", "2026-01-02T09:00"),
        ("2026-01-01T10:00+01:00", "2026-01-02T09:00"),
    ],
)
def test_next_is_strictly_after(after, following):
    assert Cron.parse("0 9 * * *").next(at(after)) == at(following)


@pytest.mark.parametrize(
    ("asked", "preceding"),
    [
        ("2026-01-02T08:59:59.999999", "2026-01-01T09:00"),
        ("2026-01-02T09:00", "2026-01-02T09:00"),
        ("2026-01-02T09:00:00.000001", "2026-01-02T09:00"),
        ("2026-01-02T10:00+01:00", "2026-01-02T09:00"),
    ],
)
def test_previous_is_at_or_before(asked, preceding):
    assert Cron.parse("0 9 * * *").previous(at(asked)) == at(preceding)


@pytest.mark.parametrize(
    ("dialect", "text", "asked", "answer"),
    [
        ("posix", "30 9 * * *", "2026-01-01T09:30", True),
        ("posix", "30 9 * * *", "2026-01-01T09:30:59.999999", True),
        ("posix", "30 9 * * *", "2026-01-01T09:29:59.999999", False),
        ("posix", "30 9 * * *", "2026-01-01T09:31", False),
        ("posix", "30 9 * * *", "2026-01-01T10:30:15+01:00", True),
        ("standard", "30 9 * * thu", "2026-01-01T09:30:30", True),
        ("standard", "30 9 * * fri", "2026-01-01T09:30:30", False),
        ("seconds", "15 30 9 * * *", "2026-01-01T09:30:15", True),
        ("seconds", "15 30 9 * * *", "2026-01-01T09:30:15.999999", True),
        ("seconds", "15 30 9 * * *", "2026-01-01T09:30:14.999999", False),
        ("seconds", "15 30 9 * * *", "2026-01-01T09:30:16", False),
        ("seconds", "30 9 * * *", "2026-01-01T09:30:00.5", True),
        ("seconds", "30 9 * * *", "2026-01-01T09:30:01", False),
    ],
)
def test_matches_concerns_the_minute_or_second_that_contains_the_instant(dialect, text, asked, answer):
    assert Cron.parse(text, dialect).matches(at(asked)) is answer


@pytest.mark.parametrize(
    ("settings", "asked", "answer"),
    [
        ({"gap": "skip"}, "2026-03-08T03:00:10-04:00", False),
        ({"gap": "run_after"}, "2026-03-08T03:00:10-04:00", True),
        ({"gap": "run_after"}, "2026-03-08T03:01:00-04:00", False),
    ],
)
def test_matches_follows_the_gap_rule(settings, asked, answer):
    assert Cron.parse("30 2 * * *", timezone=NEW_YORK, **settings).matches(at(asked)) is answer


@pytest.mark.parametrize(
    ("fold", "answers"), [("both", (True, True)), ("first", (True, False)), ("last", (False, True))]
)
def test_matches_follows_the_fold_rule(fold, answers):
    cron = Cron.parse("30 1 * * *", timezone=NEW_YORK, fold=fold)
    twice = at("2026-11-01T01:30:20-04:00"), at("2026-11-01T01:30:20-05:00")
    assert tuple(map(cron.matches, twice)) == answers


@pytest.mark.parametrize(
    ("start", "end", "minutes"),
    [
        ("2026-01-01T00:00", "2026-01-01T00:03", [0, 1, 2]),
        ("2026-01-01T00:00:00.000001", "2026-01-01T00:03:00.000001", [1, 2, 3]),
        ("2026-01-01T00:00:01", "2026-01-01T00:01", []),
        ("2026-01-01T00:01", "2026-01-01T00:01", []),
        ("2026-01-01T00:03", "2026-01-01T00:00", []),
    ],
)
def test_between_holds_its_start_and_leaves_out_its_end(start, end, minutes):
    found = [tick.minute for tick in Cron.parse("* * * * *").between(at(start), at(end))]
    assert found == minutes


def test_between_is_lazy():
    century = Cron.parse("* * * * *").between(at("2026-01-01"), at("2126-01-01"))
    assert next(century) == at("2026-01-01")
    assert next(century) == at("2026-01-01T00:01")


@pytest.mark.parametrize(
    ("text", "since", "until", "count"),
    [
        ("* * * * *", "2026-01-01", "2027-01-01", 365 * 1440),
        ("0 0 29 2 *", "2000-02-29", "2400-03-01", 97),
        ("0 0 29 2 *", "2000-02-28", "2400-02-29", 98),
        ("0 0 * * 1", "2026-01-01", "2026-02-01", 4),
    ],
)
def test_occurrences_are_counted_after_the_start_and_up_to_the_end(text, since, until, count):
    first, last = (int(at(text).timestamp()) for text in (since, until))
    assert Cron.parse(text).count_epoch(first, last) == count


@pytest.mark.parametrize("gap", ["skip", "run_after"])
@pytest.mark.parametrize("fold", ["both", "first", "last"])
def test_a_count_agrees_with_a_walk_over_a_year_of_changes(gap, fold):
    cron = Cron.parse("30 1-3 * * *", timezone=NEW_YORK, gap=gap, fold=fold)
    start, end = at("2026-01-01"), at("2027-01-01")
    walked = len(list(cron.between(start, end)))
    assert cron.count_epoch(int(start.timestamp()) - 1, int(end.timestamp()) - 1) == walked


def test_the_epoch_questions_are_the_same_questions():
    cron = Cron.parse("30 2 * * 1-5", timezone=BERLIN)
    rng = random.Random(5)
    for _ in range(200):
        asked = datetime.fromtimestamp(rng.uniform(0, 4e9), UTC)
        seconds = int(asked.timestamp())
        assert cron.next_epoch(seconds) == cron.next(asked).timestamp()
        assert cron.previous_epoch(seconds) == cron.previous(asked).timestamp()


@pytest.mark.parametrize(
    "given",
    [datetime.fromisoformat("2026-01-01"), date(2026, 1, 1), "2026-01-01T00:00Z", 0, None, timedelta(1)],
)
@pytest.mark.parametrize("ask", ["next", "previous", "matches"])
def test_an_argument_that_is_no_instant_is_refused(ask, given):
    with pytest.raises(InvalidArgumentError) as caught:
        getattr(Cron.parse("0 9 * * *"), ask)(given)
    assert caught.value.details == {
        "argument": "datetime",
        "value": given,
        "reason": "must be a datetime with a time zone",
    }


def test_between_refuses_an_argument_that_is_no_instant():
    naive = datetime.fromisoformat("2026-01-01")
    for start, end in ((naive, at("2026-01-02")), (at("2026-01-01"), naive)):
        with pytest.raises(InvalidArgumentError):
            list(Cron.parse("0 9 * * *").between(start, end))


@pytest.mark.parametrize(
    ("timezone", "tick"),
    [
        ("UTC", "2026-07-01T02:30:00+00:00"),
        ("Asia/Kolkata", "2026-07-01T02:30:00+05:30"),
        (timezone(timedelta(hours=-3)), "2026-07-01T02:30:00-03:00"),
    ],
)
def test_an_answer_is_in_the_zone_of_the_cron(timezone, tick):
    cron = Cron.parse("30 2 * * *", timezone=timezone)
    answer = cron.next(at(tick) - timedelta(minutes=1))
    assert answer.isoformat() == tick
    assert answer.tzinfo is cron.zone.tzinfo


def test_an_answer_says_by_its_fold_which_of_two_times_it_is():
    cron = Cron.parse("30 1 * * *", timezone=NEW_YORK)
    found = list(cron.between(at("2026-10-31T04:00"), at("2026-11-03T04:00")))
    assert [(tick.day, tick.fold, tick.tzinfo) for tick in found] == [
        (31, 0, NEW_YORK),
        (1, 0, NEW_YORK),
        (1, 1, NEW_YORK),
        (2, 0, NEW_YORK),
    ]
    assert cron.next(found[1]).isoformat() == "2026-11-01T01:30:00-05:00"
    assert cron.previous(found[2]).isoformat() == "2026-11-01T01:30:00-05:00"
    assert cron.previous(found[1]).isoformat() == "2026-11-01T01:30:00-04:00"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("30 2 * * *", ("run_after", "first")),
        ("0,30 1-3 * * *", ("run_after", "first")),
        ("0-59 2 * * *", ("run_after", "first")),
        ("0 2 * * 0", ("run_after", "first")),
        ("* * * * *", ("skip", "both")),
        ("30 * * * *", ("skip", "both")),
        ("* 2 * * *", ("skip", "both")),
    ],
)
def test_vixie_moves_fixed_times_and_lets_wildcards_follow_real_time(text, rules):
    cron = Cron.parse(text, timezone=NEW_YORK, dst="vixie")
    assert (cron.gap, cron.fold) == rules
    assert cron == Cron.parse(text, timezone=NEW_YORK, gap=rules[0], fold=rules[1])


@pytest.mark.parametrize(
    ("text", "day", "clocks"),
    [
        ("30 2 * * *", "2026-03-08", ["03:00-04:00"]),
        ("30 1 * * *", "2026-11-01", ["01:30-04:00"]),
        ("30 * * * *", "2026-03-08", ["00:30-05:00", "01:30-05:00", "03:30-04:00", "04:30-04:00"]),
        ("30 * * * *", "2026-11-01", ["00:30-04:00", "01:30-04:00", "01:30-05:00", "02:30-05:00"]),
    ],
)
def test_vixie_runs_a_daily_job_once_a_day(text, day, clocks):
    cron = Cron.parse(text, timezone=NEW_YORK, dst="vixie")
    start = datetime.fromisoformat(day).replace(tzinfo=NEW_YORK)
    until = start.replace(hour=4 if "03" in day else 3, minute=31 if "03" in day else 0)
    found = [tick.isoformat() for tick in cron.between(start, until)]
    assert [tick[11:16] + tick[19:] for tick in found] == clocks


def test_threads_that_share_a_cron_get_the_answers_of_one():
    text, zone = "30 1-2 * * *", ZoneInfo("Africa/Casablanca")
    start, end = epoch(2026, 2, 1), epoch(2026, 4, 1)
    due = ticks(text, zone, start - DAY, end + 3 * DAY, "run_after", "last")

    def walk(seed):
        rng = random.Random(seed)
        cron = Cron.parse(text, timezone=zone, gap="run_after", fold="last")
        asked = [rng.randrange(start, end) for _ in range(3000)]
        return [(t, cron.next_epoch(t), cron.previous_epoch(t)) for t in asked]

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for answers in pool.map(walk, range(8)) for answer in answers]
    following = {t: later for t, later, _ in answers}
    preceding = {t: earlier for t, _, earlier in answers}
    assert following == {t: min(d for d in due if d > t) for t in following}
    assert preceding == {t: max(d for d in due if d <= t) for t in preceding}
