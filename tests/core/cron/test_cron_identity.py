"""When two Crons are one: sharing, equality, copies, and the settings that can be given."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from dutiful import Cron, InvalidArgumentError

NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")
EVE = datetime(2026, 3, 8, tzinfo=UTC)


def test_equal_texts_and_settings_are_one_object():
    settings = {"timezone": "Europe/Berlin", "gap": "run_after", "fold": "first"}
    assert Cron.parse("0 9 * * *", **settings) is Cron.parse("0 9 * * *", **settings)


SAME = Cron.parse("0 9 * * *", "posix", "Europe/Berlin", "skip", "both")


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (Cron.parse("0 9 * * *", timezone=BERLIN), True),
        (Cron.parse("0 9 * * *", timezone="Europe/Berlin", gap="skip"), True),
        (Cron.parse("00 9 * * *", timezone=BERLIN), False),
        (Cron.parse("0 9 * * *", "standard", BERLIN), False),
        (Cron.parse("0 9 * * *", timezone="Europe/Paris"), False),
        (Cron.parse("0 9 * * *", timezone=BERLIN, gap="run_after"), False),
        (Cron.parse("0 9 * * *", timezone=BERLIN, fold="last"), False),
        (Cron.parse("0 9 * * *"), False),
        ("0 9 * * *", False),
    ],
)
def test_crons_are_equal_by_text_and_settings(other, equal):
    assert (other == SAME) is equal
    assert len({other, SAME}) == (1 if equal else 2)


def test_a_cron_prints_as_its_text_and_shows_its_settings():
    assert str(SAME) == "0 9 * * *"
    assert repr(SAME) == (
        "Cron(text='0 9 * * *', dialect='posix', zone=Zone('Europe/Berlin'), gap='skip', fold='both',"
        " calendar=())"
    )


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda cron: pickle.loads(pickle.dumps(cron))])
@pytest.mark.parametrize(
    "cron",
    [
        SAME,
        Cron.parse("@daily", "standard"),
        Cron.parse("*/5 * * * * *", "seconds", timezone(timedelta(hours=5))),
        Cron.parse("30 2 * * *", timezone=NEW_YORK, dst="vixie"),
    ],
    ids=str,
)
def test_a_cron_survives_copying_and_the_way_to_another_process(cron, again):
    other = again(cron)
    assert other == cron
    assert other.next(EVE) == cron.next(EVE)


def test_a_cron_cannot_be_changed():
    with pytest.raises(AttributeError):
        SAME.text = "0 10 * * *"


@pytest.mark.parametrize(
    ("settings", "argument", "reason"),
    [
        ({"dialect": "quartz"}, "dialect", "choose from 'posix', 'standard', 'seconds'"),
        ({"dialect": None}, "dialect", "choose from 'posix', 'standard', 'seconds'"),
        ({"dialect": ["posix"]}, "dialect", "choose from 'posix', 'standard', 'seconds'"),
        ({"gap": "leap"}, "gap", "choose from 'skip', 'run_after'"),
        ({"gap": ""}, "gap", "choose from 'skip', 'run_after'"),
        ({"fold": "twice"}, "fold", "choose from 'both', 'first', 'last'"),
        ({"fold": 0}, "fold", "choose from 'both', 'first', 'last'"),
        ({"dst": "quartz"}, "dst", "choose from 'vixie'"),
        ({"dst": ""}, "dst", "choose from 'vixie'"),
        ({"dst": "vixie", "gap": "skip"}, "dst", "already decides gap and fold; leave those out"),
        ({"dst": "vixie", "fold": "both"}, "dst", "already decides gap and fold; leave those out"),
    ],
)
def test_a_setting_that_does_not_exist_is_refused(settings, argument, reason):
    with pytest.raises(InvalidArgumentError) as caught:
        Cron.parse("0 9 * * *", **settings)
    assert caught.value.details == {"argument": argument, "value": settings[argument], "reason": reason}
