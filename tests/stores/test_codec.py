"""Stored texts: every value is read back equal, and a value that could not be read back is refused."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from dateutil import tz as dateutil_tz
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stores.notation import checksum, revived

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import CodecError, DutifulError
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task, Window
from dutiful.stores.codec import (
    declare,
    decode_cadence,
    decode_policy,
    encode_cadence,
    encode_policy,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
OFFSETS = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata"]).map(ZoneInfo)
CRONS = st.builds(
    Cron.parse,
    st.sampled_from(["* * * * *", "0 9 * * 1-5", "30 2 29 2 *"]),
    st.sampled_from(["posix", "standard", "seconds"]),
    st.just("UTC") | ZONES | OFFSETS | st.just(ZoneInfo("UTC")),
    st.sampled_from(["skip", "run_after"]),
    st.sampled_from(["both", "first", "last"]),
)
CADENCES = (
    CRONS
    | st.builds(Every, INT64, st.sampled_from(["completion", "start"]))
    | st.builds(Once, INT64)
    | st.just(OnDemand())
)
RETRIES = st.builds(Retry, INT64, st.none() | INT64, INT64)
POLICIES = st.builds(
    Policy,
    overlap=st.sampled_from(Overlap),
    catch_up=st.sampled_from(CatchUp),
    grace=INT64,
    catch_up_cap=INT64,
    jitter=INT64,
    jitter_early=st.booleans(),
    retry=st.none() | RETRIES,
    launch_retry=st.none() | RETRIES,
    retention_age=st.none() | INT64,
    retention_rows=st.none() | INT64,
    capacity=st.none() | st.builds(Capacity, TEXTS, INT64),
    max_runs=st.none() | INT64,
    on_orphan=st.sampled_from(OnOrphan),
    run_timeout=st.none() | INT64,
    queue_limit=INT64,
    ledger=st.booleans(),
)
WINDOWS = st.builds(Window, st.none() | INT64, st.none() | INT64)
SCHEDULES = st.builds(
    Schedule, TEXTS, st.builds(Task, TEXTS, TEXTS), CADENCES, POLICIES, WINDOWS, st.booleans()
)
PLAIN = Schedule("a", Task("t", "p"), Every(5000))


@settings(derandomize=True, database=None, deadline=None)
@given(SCHEDULES)
def test_every_schedule_is_read_back_as_it_was(schedule):
    declaration = declare(schedule)
    assert revived(schedule.id, declaration, checksum(schedule.id, declaration)) == schedule
    assert all(type(column) in {str, int, type(None)} for column in declaration)


@settings(derandomize=True, database=None, deadline=None)
@given(SCHEDULES, st.data())
def test_the_checksum_notices_a_changed_column(schedule, data):
    declaration = declare(schedule)
    other = data.draw(SCHEDULES.map(declare).filter(lambda each: each != declaration))
    assert checksum(schedule.id, other) != checksum(schedule.id, declaration)
    assert checksum(schedule.id + "x", declaration) != checksum(schedule.id, declaration)


def test_a_changed_column_is_refused():
    declaration = declare(PLAIN)
    with pytest.raises(CodecError, match="its checksum does not match"):
        revived("a", declaration._replace(payload="q"), checksum("a", declaration))


def test_the_texts_are_what_a_person_can_read():
    cron = Cron.parse("0 9 * * *", "standard", ZoneInfo("Europe/Berlin"))
    assert encode_cadence(cron) == (
        '{"v":1,"kind":"cron","text":"0 9 * * *","dialect":"standard","zone":"Europe/Berlin",'
        '"gap":"skip","fold":"both"}'
    )
    assert encode_cadence(Every(5000)) == '{"v":1,"kind":"every","period":5000,"anchor":"completion"}'
    policy = json.loads(encode_policy(Policy(retry=Retry(5), capacity=Capacity("g", 2))))
    assert policy["retry"] == {"delay": 5, "limit": None, "backoff": 1}
    assert policy["capacity"] == {"group": "g", "limit": 2}
    assert list(policy) == ["v", *Policy.__slots__]


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        (UTC, "UTC"),
        (ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"),
        (timezone(timedelta(hours=-3, minutes=-30), "NST"), "-03:30"),
        (timezone(timedelta(hours=1, seconds=1)), "+01:00:01"),
    ],
)
def test_a_zone_is_written_by_its_name_or_its_offset(zone, name):
    text = encode_cadence(Cron.parse("0 0 * * *", timezone=zone))
    assert json.loads(text)["zone"] == name
    assert decode_cadence(text).zone.tzinfo == zone


@pytest.mark.parametrize("name", ["UTC", "zoneinfo:UTC"])
def test_utc_is_one_zone_however_a_file_or_a_program_names_it(name):
    cron = Cron.parse("0 0 * * *", timezone=ZoneInfo("UTC"))
    text = encode_cadence(cron)
    assert json.loads(text)["zone"] == "UTC"
    assert decode_cadence(text.replace('"UTC"', f'"{name}"')) == cron


class Nowhere(tzinfo):
    def utcoffset(self, _):
        return timedelta(0)

    def dst(self, _):
        return timedelta(0)


@pytest.mark.parametrize("zone", [Nowhere(), dateutil_tz.tzoffset("X", 3600)], ids=["own", "dateutil"])
def test_a_zone_without_a_name_is_refused_before_it_is_stored(zone):
    schedule = PLAIN._replace(cadence=Cron.parse("0 0 * * *", timezone=zone))
    with pytest.raises(CodecError, match=r"schedule 'a', time zone: .* no name of the tz database"):
        declare(schedule)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (PLAIN._replace(id="\ud800"), "id: has half a surrogate pair"),
        (PLAIN._replace(id="a\0b"), "id: has a NUL character"),
        (PLAIN._replace(id=7), "id: must be str, not int"),
        (PLAIN._replace(task=Task("t", b"bytes")), "payload: must be str, not bytes"),
        (PLAIN._replace(cadence=Every(5.5)), "cadence: 'period' must be int, not float"),
        (PLAIN._replace(cadence=Once(2**63)), "cadence: 'at' does not fit in 64 bits"),
        (PLAIN._replace(cadence=Every(5, "middle")), "the value 'middle' of 'anchor' is unknown"),
        (PLAIN._replace(policy=Policy(grace="1")), "policy: 'grace' must be int, not str"),
        (PLAIN._replace(policy=Policy(ledger=None)), "policy: 'ledger' must be bool, not NoneType"),
        (PLAIN._replace(policy=Policy(overlap="perhaps")), "the value 'perhaps' of 'overlap' is unknown"),
        (PLAIN._replace(policy=Policy(capacity=Capacity("\0", 1))), "'group': has a NUL"),
        (PLAIN._replace(policy=Policy(launch_retry=Retry(None))), "'launch_retry': 'delay' must be int"),
        (PLAIN._replace(window=Window(start=1.5)), "window: must be epoch milliseconds"),
        (PLAIN._replace(window=Window(end=2**63)), "window: must be epoch milliseconds"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_value_that_could_not_be_read_again_is_refused(schedule, message):
    with pytest.raises(CodecError) as caught:
        declare(schedule)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is not a JSON object"),
        ("{}", "has version 'None'"),
        ('{"v":2,"kind":"once","at":1}', "has version '2'; this release reads version 1"),
        ('{"v":1}', "the key 'kind' is missing"),
        ('{"v":1,"kind":"weekly"}', "the value 'weekly' of 'kind' is unknown"),
        ('{"v":1,"kind":"once"}', "the key 'at' is missing"),
        ('{"v":1,"kind":"once","at":null}', "'at' must be int, not NoneType"),
        ('{"v":1,"kind":"once","at":"1"}', "'at' must be int, not str"),
        ('{"v":1,"kind":"once","at":1e3}', "'at' must be int, not float"),
        (f'{{"v":1,"kind":"once","at":{10**30}}}', "does not fit in 64 bits"),
    ],
    ids=lambda case: case[:40],
)
def test_an_unreadable_cadence_is_refused_with_the_reason(text, message):
    with pytest.raises(CodecError) as caught:
        decode_cadence(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zone": "Mars/Olympus"}, "is not in the time zone database"),
        ({"zone": "+99:00"}, "the offset '+99:00' does not exist"),
        ({"text": "61 * * * *"}, "must be 0-59, not 61"),
        ({"dialect": "quartz"}, "Invalid dialect"),
        ({"gap": None}, "'gap' must be str, not NoneType"),
        ({"fold": "twice"}, "Invalid fold"),
    ],
)
def test_an_unreadable_cron_is_refused_with_the_reason(change, message):
    value = json.loads(encode_cadence(Cron.parse("* * * * *")))
    with pytest.raises(CodecError) as caught:
        decode_cadence(json.dumps(value | change))
    assert message in str(caught.value)


@pytest.mark.parametrize("key", Policy.__slots__)
def test_a_policy_without_one_of_its_keys_is_refused(key):
    value = json.loads(encode_policy(Policy()))
    del value[key]
    with pytest.raises(CodecError, match=f"policy: the key '{key}' is missing"):
        decode_policy(json.dumps(value))


def test_keys_of_a_later_release_are_passed_over():
    value = json.loads(encode_policy(Policy(grace=7))) | {"shiny": [1, 2]}
    assert decode_policy(json.dumps(value)) == Policy(grace=7)


def test_equal_texts_share_one_object():
    text = encode_policy(Policy(grace=7))
    assert decode_policy(text) is decode_policy(str(bytearray(text, "utf-8"), "utf-8"))
    declaration = declare(PLAIN)
    one, two = (revived(id_, declaration, checksum(id_, declaration)) for id_ in "ab")
    assert (one.task, one.cadence, one.policy, one.window) == (two.task, two.cadence, two.policy, two.window)
    assert one.cadence is two.cadence
    assert one.policy is two.policy


def test_the_error_says_what_and_why_and_survives_pickling():
    with pytest.raises(CodecError) as caught:
        decode_cadence("{}")
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, DutifulError)
    assert isinstance(error, ValueError)
    assert (error.subject, error.reason) == ("cadence", "has version 'None'; this release reads version 1")
