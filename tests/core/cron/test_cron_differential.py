"""The engine against cronsim and croniter in UTC, with every known disagreement written down.

A disagreement is a named class of texts, why we differ, and an example that still shows it. The random
comparison leaves out exactly those classes.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim
from tests.core.cron.cron_texts import MONTHS, WEEKDAYS, legal_texts

from dutiful import Cron
from dutiful.core.cron.dialect import values

if TYPE_CHECKING:
    from collections.abc import Callable

BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
LONG_MONTHS = {1, 3, 5, 7, 8, 10, 12}


def ask_cronsim(text, at):
    return next(CronSim(text, at)), next(CronSim(text, at, reverse=True))


def ask_croniter(text, at):
    return croniter(text, at).get_next(datetime), croniter(text, at).get_prev(datetime)


def ask_ours(text, at):
    """Return the ticks strictly after and strictly before, as the peers do."""
    cron = Cron.parse(text, "standard")
    return cron.next(at), cron.previous(at - timedelta(microseconds=1))


def items(text):
    """Yield (highest value, item) of every list item, names written as numbers."""
    numbers = {name: str(n) for names in (MONTHS, WEEKDAYS) for n, name in enumerate(names, names is MONTHS)}
    for (_, high), field in zip(BOUNDS, text.lower().split(), strict=True):
        for item in re.sub("[a-z]+", lambda name: numbers[name[0]], field).split(","):
            yield high, item


def has_a_range_with_equal_ends(text):
    found = (re.fullmatch(r"(\d+)-(\d+)(/\d+)?", item) for _, item in items(text))
    return any(match and int(match[1]) == int(match[2]) for match in found)


def has_a_stepped_range_with_equal_ends(text):
    found = (re.fullmatch(r"(\d+)-(\d+)/\d+", item) for _, item in items(text))
    return any(match and int(match[1]) == int(match[2]) for match in found)


def has_a_step_from_the_highest_value(text):
    found = ((high, re.fullmatch(r"(\d+)/\d+", item)) for high, item in items(text))
    return any(match and int(match[1]) >= high for high, match in found)


def has_a_weekday_step_that_would_reach_seven(text):
    found = [re.fullmatch(r"(\d+)/(\d+)", item) for _, item in items(f"* * * * {text.split()[4]}")]
    return any(match and (7 - int(match[1])) % int(match[2]) == 0 for match in found)


def names_every_day_beside_a_starred_weekday_or_the_reverse(text):
    fields, (_, _, day, _, weekday) = Cron.parse(text, "standard").fields, text.split()
    every_day, every_weekday = values(fields.day) == [*range(1, 32)], values(fields.weekday) == [*range(7)]
    return fields.either_day and ((every_day and "*" in weekday) or (every_weekday and "*" in day))


def has_a_day_that_no_month_has(text):
    fields = Cron.parse(text, "standard").fields
    days, months = values(fields.day), set(values(fields.month))
    return fields.either_day and (
        (days[0] == 31 and not months & LONG_MONTHS) or (days[0] >= 30 and months == {2})
    )


def has_a_day_or_weekday_that_begins_with_a_star(text):
    _, _, day, _, weekday = text.split()
    return "*" not in (day, weekday) and "*" in (day[0], weekday[0])


@dataclass(frozen=True)
class Disagreement:
    peer: Callable[[str, datetime], tuple[datetime, datetime]]
    concerns: Callable[[str], bool]
    why: str
    text: str
    ours: str
    theirs: str


# The next tick after 2026-01-01T00:00Z, a Thursday; "" where the peer gives up.
KNOWN = [
    Disagreement(
        ask_croniter,
        has_a_range_with_equal_ends,
        "croniter reads 5-5 as the whole field, 5-5/2 as */2; a range includes both its ends, so it is 5",
        "5-5 * * * *",
        "2026-01-01T00:05",
        "2026-01-01T00:01",
    ),
    Disagreement(
        ask_croniter,
        has_a_step_from_the_highest_value,
        "croniter turns 59/2 into 59-59/2 and then reads it as above",
        "59/2 * * * *",
        "2026-01-01T00:59",
        "2026-01-01T00:02",
    ),
    Disagreement(
        ask_croniter,
        names_every_day_beside_a_starred_weekday_or_the_reverse,
        "croniter takes 1-31 for * if the weekday has a star; for us both are restricted, either may match",
        "0 0 1-31 * */2",
        "2026-01-02T00:00",
        "2026-01-03T00:00",
    ),
    Disagreement(
        ask_croniter,
        has_a_day_that_no_month_has,
        "croniter gives up on 30 February although the weekday can match",
        "0 0 30 2 1",
        "2026-02-02T00:00",
        "",
    ),
    Disagreement(
        ask_cronsim,
        has_a_day_or_weekday_that_begins_with_a_star,
        "cronsim follows Debian: a day or weekday that begins with * and the other must both match; for "
        "POSIX only a lone * is no restriction",
        "0 0 */2 * 1",
        "2026-01-03T00:00",
        "2026-01-05T00:00",
    ),
    Disagreement(
        ask_cronsim,
        has_a_stepped_range_with_equal_ends,
        "cronsim reads 5-5/20 as 5/20; a range ends where it says",
        "5-5/20 * * * *",
        "2026-01-01T00:05",
        "2026-01-01T00:05",
    ),
    Disagreement(
        ask_cronsim,
        has_a_weekday_step_that_would_reach_seven,
        "cronsim lets 5/2 run up to 7, so it includes Sunday; for us a step ends with the week, on Saturday",
        "0 0 * * 5/2",
        "2026-01-02T00:00",
        "2026-01-02T00:00",
    ),
]
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.concerns.__name__)
def test_a_known_disagreement_still_holds(known):
    assert known.concerns(known.text)
    ours, theirs = ask_ours(known.text, NEW_YEAR), None
    try:
        theirs = known.peer(known.text, NEW_YEAR)
    except CroniterBadDateError:
        assert known.theirs == ""
    else:
        assert f"{theirs[0]:%Y-%m-%dT%H:%M}" == known.theirs
    assert f"{ours[0]:%Y-%m-%dT%H:%M}" == known.ours
    assert ours != theirs


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.concerns.__name__)
def test_a_disagreement_does_not_concern_ordinary_texts(known):
    ordinary = [
        "* * * * *",
        "0 9 * * 1-5",
        "*/5 * * * *",
        "0 0 1,15 * *",
        "0 0 13 * 5",
        "5/20 1-10/3 * 1-3 *",
    ]
    assert [text for text in ordinary if known.concerns(text)] == []


@pytest.mark.parametrize("dialect", ["posix", "standard"])
@pytest.mark.parametrize("peer", [ask_cronsim, ask_croniter])
def test_the_peers_agree_with_us_on_all_other_texts(peer, dialect):
    classes = [known.concerns for known in KNOWN if known.peer is peer]
    texts = [text for text in legal_texts(seed=1000, count=1500, dialect=dialect) if text[0] != "@"]
    rng = random.Random(1970)
    instants = [datetime.fromtimestamp(rng.randrange(2**32), UTC) for _ in texts]
    questions = list(zip(texts, instants, strict=True))
    fair = [(text, at) for text, at in questions if not any(concerns(text) for concerns in classes)]
    answers = [(text, at, ask_ours(text, at), peer(text, at)) for text, at in fair]
    assert [answer for answer in answers if answer[2] != answer[3]] == []
    assert len(fair) > len(questions) * 0.8
