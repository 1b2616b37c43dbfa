"""Modules that set up Celery beat or APScheduler are read and not run; what cannot be read is listed."""

from __future__ import annotations

import json

import pytest

from dutiful.importers.apscheduler import read_jobs
from dutiful.importers.celery_beat import read_beat_schedule
from dutiful.importers.imported import Refused, Target

TARGET = Target("w", "ada")
BEAT = """
raise SystemExit("this module is never run")
app = Celery("app", broker=BROKER)
app.conf.update(timezone="Europe/Berlin", beat_schedule={
    "tidy": {
        "task": "app.tidy", "schedule": crontab(minute=0, hour=4),
        "args": (1, "two"), "options": {"queue": "q"},
    },
})
"""
JOBS = """
raise SystemExit("this module is never run")
scheduler = AsyncIOScheduler(timezone="Europe/Berlin", job_defaults={"misfire_grace_time": None})
scheduler.add_job(send_report, "cron", hour=9, id="report", kwargs={"to": "ada"})
@scheduler.scheduled_job("interval", minutes=5)
async def refresh(): ...
"""


def drafts(imported):
    assert imported.refused == []
    told = imported.differences
    return {
        each["schedule_id"]: (each, {one.about: one for one in told[each["schedule_id"]]})
        for each in imported.schedules
    }


def beat(schedule):
    return f"beat_schedule = {{'e': {{'task': 't', 'schedule': {schedule}}}}}"


def test_an_entry_of_beat_keeps_its_task_its_zone_and_the_rules_of_beat():
    schedule, differences = drafts(read_beat_schedule(BEAT, TARGET))["tidy"]
    assert schedule == {
        "schedule_id": "tidy",
        "workflow_id": "w",
        "version": 1,
        "user_id": "ada",
        "cron_expr": "0 4 * * *",
        "timezone": "Europe/Berlin",
        "dst": "vixie",
        "overlap_policy": "allow",
        "catchup_policy": "latest",
        "input": {"task": "app.tidy", "args": [1, "two"], "kwargs": {}},
    }
    assert [*differences] == ["changing clocks", "work", "missed ticks", "run_timeout_s", "options"]


@pytest.mark.parametrize("name", ["app.conf.beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE"])
def test_the_entries_are_found_under_every_name_of_the_setting(name):
    assert [*drafts(read_beat_schedule(beat("60.0").replace("beat_schedule", name), TARGET))] == ["e"]


def test_a_module_that_sets_no_zone_gets_the_one_that_was_asked_for():
    target = TARGET._replace(timezone="Asia/Tokyo")
    schedule, differences = drafts(read_beat_schedule(beat("crontab(hour=1, minute=0)"), target))["e"]
    assert (schedule["timezone"], differences["timezone"].here) == ("Asia/Tokyo", "it is Asia/Tokyo")


def test_an_interval_is_a_cron_text_in_utc_and_says_so():
    schedule, differences = drafts(read_beat_schedule(f"timezone = 'Asia/Tokyo'\n{beat('30.0')}", TARGET))[
        "e"
    ]
    assert (schedule["cron_expr"], schedule["dialect"]) == ("*/30 * * * * *", "seconds")
    assert (schedule["timezone"], differences["interval"].there) == (
        "UTC",
        "it counts from when beat started",
    )


def test_entries_may_be_json():
    entries = {
        "a": {"task": "t", "schedule": {"hour": 4, "minute": 0}},
        "b": {"task": "t", "schedule": 60},
        "c": {"task": "t", "schedule": "5 4 * * 1"},
    }
    text = json.dumps({"timezone": "Asia/Tokyo", "beat_schedule": entries})
    found = drafts(read_beat_schedule(text, TARGET, is_json=True))
    assert [each["cron_expr"] for each, _ in found.values()] == ["0 4 * * *", "* * * * *", "5 4 * * 1"]
    assert read_beat_schedule("[1]", TARGET, is_json=True).refused[0].reason.startswith("write the entries")


SIXTY = "{'task': 't', 'schedule': 60}"


@pytest.mark.parametrize(
    "text",
    [
        f"CELERY_BEAT_SCHEDULE: dict[str, Any] = {{'e': {SIXTY}}}",
        f"app.conf.beat_schedule |= {{'e': {SIXTY}}}",
        f"app.conf.beat_schedule.update({{'e': {SIXTY}}})",
        f"app.conf.beat_schedule['e'] = {SIXTY}",
        f"app.conf['beat_schedule'] = {{'e': {SIXTY}}}",
        f"CELERY_BEAT_SCHEDULE = {{'e': {SIXTY}}}\napp.conf.beat_schedule = CELERY_BEAT_SCHEDULE",
        f"NAME, EVERY = 'e', 60\nENTRIES = {{'e': {SIXTY}}}\napp.conf.update(beat_schedule=ENTRIES)",
    ],
)
def test_entries_are_found_however_they_are_set(text):
    schedule, _ = drafts(read_beat_schedule(text, TARGET))["e"]
    assert (schedule["cron_expr"], schedule["input"]["task"]) == ("* * * * *", "t")


def test_an_entry_that_is_added_while_the_module_runs_or_is_set_twice_is_listed():
    text = f"""
@app.on_after_configure.connect
def setup(sender, **kwargs):
    sender.add_periodic_task(10.0, greet.s("hello"), name="greet")
if DEBUG:
    beat_schedule = {{"e": {SIXTY}}}
else:
    beat_schedule = {{"e": {SIXTY}, f"{{name}}": {SIXTY}, "f": {SIXTY}}}
"""
    imported = read_beat_schedule(text, TARGET)
    assert [each["schedule_id"] for each in imported.schedules] == ["f"]
    assert imported.refused == [
        Refused(
            "add_periodic_task",
            "line 4",
            "its task has its name at run time; write it as an entry of beat_schedule",
        ),
        Refused("e", "line 6", "is set in the lines 6 and 8; keep one of them"),
        Refused("e", "line 8", "is set in the lines 6 and 8; keep one of them"),
        Refused("f'{name}'", "line 8", "its name is not written out, and code is not run; write it"),
    ]


def test_a_crontab_may_be_made_from_a_string():
    schedule, _ = drafts(read_beat_schedule(beat("crontab.from_string('5 4 * * 1')"), TARGET))["e"]
    assert schedule["cron_expr"] == "5 4 * * 1"


CONSTANTS = """
from pytz import utc
ZONE: str = "Europe/Berlin"
HOUR, DAYS = 3, "mon"
EVERY = 5 * 60
NOON = 12
NOON = 13
FROM = datetime(2026, 7, 1)
DEFAULTS = {"misfire_grace_time": EVERY}
CHANGED = {}
CHANGED["misfire_grace_time"] = 1
scheduler = BackgroundScheduler(timezone=ZONE, job_defaults=DEFAULTS)
"""


def test_constants_of_a_module_have_their_values():
    text = f"{CONSTANTS}scheduler.add_job(work, 'interval', seconds=EVERY, start_date=FROM)\n"
    schedule, _ = drafts(read_jobs(text, TARGET))["work"]
    wanted = {"cron_expr": "*/5 * * * *", "grace_s": 300, "start_at": "2026-07-01T00:00:00+02:00"}
    assert {**schedule, **wanted} == schedule


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("scheduler.add_job(work, 'cron', hour=NOON)", "NOON"),
        ("scheduler.add_job(work, 'cron', hour=LATER)\nLATER = 3", "LATER"),
        ("def add(ZONE):\n    scheduler.add_job(work, 'cron', hour=3, timezone=ZONE)", "ZONE"),
        ("scheduler.add_job(work, 'cron', hour=3, kwargs=CHANGED)", "CHANGED"),
    ],
)
def test_a_name_that_may_have_another_value_is_no_constant(line, name):
    text = CONSTANTS.replace("timezone=ZONE, ", "") + line
    (refused,) = read_jobs(text, TARGET).refused
    assert refused.reason == f"`{name}` is not written out, and code is not run; write its value"


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("crontab(minute='5/10')", "'5/10' has a step after one value"),
        ("1e400", "inf is no interval"),
        ("7.0", "an interval of 7 s divides no minute"),
        ("timedelta(hours=5)", "an interval of 18000 s divides no minute"),
        ("timedelta(milliseconds=500)", "an interval of 0.5 s divides no minute"),
        ("solar('sunset', 1, 2)", "solar events have no cron text"),
        ("crontab(day_of_month=1, day_of_week=1)", "must both match there; here either is enough"),
        ("crontab(minute=MINUTE)", "`MINUTE` is not written out, and code is not run"),
        ("crontab(minute=61)", "'61' is no minute"),
        ("crontab(**given)", "has arguments behind **"),
        ("crontab(nowfun=None)", "a crontab with nowfun has no counterpart"),
        ("every(5)", "`every(5)` is not written out"),
        ("None", "has no schedule that is a crontab or an interval"),
    ],
)
def test_an_entry_that_cannot_be_imported_is_listed_with_its_line_and_the_reason(schedule, why):
    (refused,) = read_beat_schedule(beat(schedule), TARGET).refused
    assert (refused.name, refused.place, why in refused.reason) == ("e", "line 1", True), refused


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1", "sets no beat_schedule"),
        ("beat_schedule = made()", "line 1: `beat_schedule` is not written out as a dict"),
        ("beat_schedule = {", "is not Python"),
        ("timezone = zone_of(host)\nbeat_schedule = {}", "line 1: `zone_of(host)` is not written out"),
    ],
)
def test_a_module_without_entries_that_are_written_out_is_refused(text, why):
    (refused,) = read_beat_schedule(text, TARGET).refused
    assert why in refused.reason


def test_jobs_of_apscheduler_keep_their_zone_their_arguments_and_their_rules():
    found = drafts(read_jobs(JOBS, TARGET))
    schedule, differences = found["report"]
    assert schedule == {
        "schedule_id": "report",
        "workflow_id": "w",
        "version": 1,
        "user_id": "ada",
        "cron_expr": "0 9 * * *",
        "timezone": "Europe/Berlin",
        "dst": "vixie",
        "overlap_policy": "skip",
        "catchup_policy": "latest",
        "input": {"function": "send_report", "kwargs": {"to": "ada"}},
    }
    assert [*differences] == ["changing clocks", "missed ticks", "work", "run_timeout_s"]
    assert (found["refresh"][0]["cron_expr"], found["refresh"][0]["timezone"]) == ("*/5 * * * *", "UTC")


HOURLY = "'cron', hour=1"


def job(arguments):
    return f"scheduler.add_job(work, {arguments})"


@pytest.mark.parametrize(
    ("arguments", "settings", "about"),
    [
        ("'cron', hour=1", {"catchup_policy": "none", "timezone": "UTC"}, "timezone"),
        (
            "'cron', hour=1, misfire_grace_time=3600",
            {"grace_s": 3600, "catchup_policy": "none"},
            "missed ticks",
        ),
        (
            "'cron', hour=1, coalesce=False, misfire_grace_time=None",
            {"catchup_policy": "fire_immediately"},
            "work",
        ),
        ("'cron', hour=1, max_instances=3", {"overlap_policy": "allow"}, "overlap"),
        ("'cron', hour=1, jitter=30", {"jitter_ms": 30_000}, "jitter"),
        ("'cron', day_of_week='0-4'", {"cron_expr": "0 0 * * 1-5"}, "weekdays"),
        ("CronTrigger(hour=1, timezone=ZoneInfo('Asia/Tokyo'))", {"timezone": "Asia/Tokyo"}, "work"),
        ("CronTrigger(hour=1, timezone=pytz.utc)", {"timezone": "UTC"}, "work"),
        ("IntervalTrigger(hours=6)", {"cron_expr": "0 */6 * * *"}, "interval"),
        ("'cron'", {"cron_expr": "* * * * * *", "dialect": "seconds"}, "work"),
        (
            "'cron', [1], {'a': 2}, hour=1",
            {"input": {"function": "work", "args": [1], "kwargs": {"a": 2}}},
            "work",
        ),
        ("'cron', hour=1, kwargs=dict(a=2)", {"input": {"function": "work", "kwargs": {"a": 2}}}, "work"),
        ("'cron', hour=1, next_run_time=None", {"paused": True}, "first run"),
        ("'cron', hour=1, next_run_time=datetime.now()", {}, "first run"),
        ("'cron', hour=1, timezone=utc", {"timezone": "UTC"}, "work"),
        (
            "'cron', hour=1, start_date='2026-07-01', timezone='Europe/Berlin'",
            {"start_at": "2026-07-01T00:00:00+02:00"},
            "changing clocks",
        ),
    ],
)
def test_a_setting_of_a_job_is_taken_over_and_what_differs_is_reported(arguments, settings, about):
    schedule, differences = drafts(read_jobs(job(arguments), TARGET))["work"]
    assert {**schedule, **settings} == schedule
    assert about in differences


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("'date', run_date='2026-01-01'", "runs once, at a date"),
        ("'interval', minutes=7", "an interval of 420 s divides no minute"),
        ("'cron', day='last'", "day 'last' has no cron text"),
        ("'cron', day='3rd fri'", "day '3rd fri' has no cron text"),
        ("'cron', day='last sun'", "day 'last sun' has no cron text"),
        ("'cron', year=2027", "cron texts have no year"),
        ("'cron', week='*/2'", "cron texts have no week"),
        ("'cron', day=1, day_of_week='mon'", "must both match there; here either is enough"),
        ("'cron', day_of_week='mon-fri/2'", "weekday 'mon-fri/2' has a step or a number after a name"),
        (
            "'cron', month='jan-2'",
            "month 'jan-2' has a step or a number after a name, which is ignored there",
        ),
        ("*given", "has arguments behind ** or *"),
        ("'cron', hour=1, id=f'{name}'", "`f'{name}'` is not written out"),
        ("'cron', hour=HOUR", "`HOUR` is not written out, and code is not run"),
        ("trigger", "has no trigger that is written out"),
        ("'cron', **given", "has arguments behind **"),
        ("CronTrigger('*')", "has arguments without a name"),
        ("'cron', hour=1, jitter='1'", "jitter '1' is no number from 0 to 86,400"),
        ("'cron', hour=1, misfire_grace_time='1'", "misfire_grace_time '1' is no number"),
        ("'interval', minutes='5'", "minutes '5' is no number"),
    ],
)
def test_a_job_that_cannot_be_imported_is_listed_with_its_line_and_the_reason(arguments, why):
    (refused,) = read_jobs(job(arguments), TARGET).refused
    assert (refused.name, refused.place, why in refused.reason) == ("work", "line 1", True), refused


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ("BackgroundScheduler(timezone='Asia/Tokyo')", "line 2: this scheduler has other settings"),
        ("BackgroundScheduler()", "line 2: this scheduler has other settings"),
        (
            "BackgroundScheduler({'apscheduler.timezone': 'UTC'})",
            "line 2: the settings are behind apscheduler.",
        ),
        ("AsyncIOScheduler(timezone=get_localzone())", "line 2: `get_localzone()` is not written out"),
        ("AsyncIOScheduler(job_defaults=[])", "line 2: job_defaults is not written out as a dict"),
    ],
)
def test_a_module_whose_jobs_may_have_other_settings_is_refused(second, why):
    first = "scheduler = BackgroundScheduler(timezone='Europe/Berlin')"
    (refused,) = read_jobs(f"{first}\nother = {second}\n{job(HOURLY)}", TARGET).refused
    assert (refused.name, why in refused.reason) == ("the file", True), refused


def test_schedulers_with_the_same_settings_are_one_and_a_later_configure_counts():
    text = "a = BackgroundScheduler()\nb = BackgroundScheduler()\na.configure(timezone='Asia/Tokyo')\n"
    schedule, _ = drafts(read_jobs(text + job(HOURLY), TARGET))["work"]
    assert schedule["timezone"] == "Asia/Tokyo"


def test_a_module_without_jobs_is_refused():
    assert "has no add_job" in read_jobs("x = 1", TARGET).refused[0].reason


@pytest.mark.parametrize("trigger", ["CronTrigger(hour=1)", "CronTrigger.from_crontab('0 1 * * *')"])
def test_a_trigger_that_is_an_object_is_in_the_zone_of_the_host_whatever_its_scheduler_says(trigger):
    code = f"scheduler = BlockingScheduler(timezone='Europe/Berlin')\n{job(trigger)}"
    schedule, differences = drafts(read_jobs(code, TARGET))["work"]
    assert (schedule["timezone"], "timezone" in differences) == (TARGET.timezone, True)
