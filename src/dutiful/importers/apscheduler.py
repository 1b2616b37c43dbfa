"""Jobs of APScheduler 3, from the calls in a module, which is not run; job stores (pickles) are not read."""

from __future__ import annotations

import ast
import re
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.cron.dialect import DAY, HOUR, MINUTE, MONTH, MONTH_NAMES, SECOND, WEEKDAY
from dutiful.core.cron.zone import zone
from dutiful.importers.cron_text import (
    LOST_RUN,
    both_days,
    changes_clocks,
    interval_difference,
    interval_text,
    written,
    zone_difference,
)
from dutiful.importers.imported import (
    SECONDS_MAX,
    Difference,
    Draft,
    Imported,
    NotImportableError,
    Refused,
)
from dutiful.importers.literal import (
    keywords,
    name_of,
    parsed,
    source,
    value,
    value_of_setting,
    written_keywords,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dutiful.core.cron.dialect import FieldRule
    from dutiful.importers.imported import Target

# From the most to the least significant; a field that is left out is * above the last given one, else lowest.
_FIELDS: dict[str, FieldRule | None] = {
    "year": None,
    "month": MONTH,
    "day": DAY,
    "week": None,
    "day_of_week": WEEKDAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": SECOND,
}
_CRONTAB = ("minute", "hour", "day", "month", "day_of_week")
_UNITS = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ITEM = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d+))?")
_TRIGGERS = {"CronTrigger": "cron", "IntervalTrigger": "interval", "DateTrigger": "date"}
# The longest jitter that an upsert takes, in seconds.
_JITTER_MAX = 86_400
# The arguments of a job in their order, as far as they may be given without a name.
_ARGUMENTS = (
    *("trigger", "args", "kwargs", "id", "name", "misfire_grace_time", "coalesce", "max_instances"),
    *("next_run_time", "jobstore", "executor", "replace_existing"),
)
_DEFAULTS = {"misfire_grace_time": 1, "coalesce": True, "max_instances": 1}
_SCHEDULERS = re.compile(r"\w*Scheduler|configure")


class _Settings(NamedTuple):
    """What the scheduler of a module says for all of its jobs."""

    timezone: str | None
    defaults: Mapping[str, Any]


class _Job(NamedTuple):
    """The call that adds a job: its function, its trigger, and the arguments as they are written."""

    function: str
    trigger: ast.expr | None
    arguments: Mapping[str, ast.expr]


def read_jobs(text: str, target: Target) -> Imported:
    """Return the schedules of the jobs that a module adds with `add_job` and `scheduled_job`."""
    imported = Imported(target)
    try:
        tree = parsed(text)
        settings = _scheduler(tree)
    except NotImportableError as error:
        imported.refused.append(Refused("the file", "", str(error)))
        return imported
    calls = [*_calls(tree)]
    if not calls:
        imported.refused.append(
            Refused("the file", "", "has no add_job and no scheduled_job with a literal trigger")
        )
    for line, job in calls:
        imported.take(_name(job), f"line {line}", partial(_draft, job, settings, target))
    return imported


def _scheduler(tree: ast.Module) -> _Settings:
    """Return the settings of the scheduler of a module; raises NotImportableError where there are several."""
    made: list[dict[str, Any]] = []
    configured: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _SCHEDULERS.fullmatch(name_of(node.func)):
            stated = _stated(node)
            if name_of(node.func) == "configure":
                configured |= stated
            elif made and stated != made[0]:
                problem = "this scheduler has other settings than another one; import them from two modules"
                raise NotImportableError(f"line {node.lineno}: {problem}")
            else:
                made.append(stated)
    settings = {**(made[0] if made else {}), **configured}
    return _Settings(settings.get("timezone"), {**_DEFAULTS, **settings.get("job_defaults", {})})


def _stated(node: ast.Call) -> dict[str, Any]:
    """Return the zone and the defaults of jobs that a call states."""
    for each in node.args:
        if isinstance(each, ast.Dict) and any("apscheduler." in ast.unparse(key) for key in each.keys if key):
            problem = (
                "the settings are behind apscheduler.… keys; write timezone and job_defaults as arguments"
            )
            raise NotImportableError(f"line {node.lineno}: {problem}")
    given = {each.arg: each.value for each in node.keywords}
    stated: dict[str, Any] = {
        name: value_of_setting(given[name]) for name in ("timezone", "job_defaults") if name in given
    }
    if not isinstance(stated.get("job_defaults", {}), dict):
        raise NotImportableError(f"line {node.lineno}: job_defaults is not written out as a dict")
    return stated


def _calls(tree: ast.Module) -> Iterator[tuple[int, _Job]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) == "add_job":
            arguments = _arguments(node, ("func", *_ARGUMENTS))
            yield node.lineno, _Job(_function(arguments.get("func")), arguments.get("trigger"), arguments)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in node.decorator_list:
                if isinstance(each, ast.Call) and name_of(each.func) == "scheduled_job":
                    arguments = _arguments(each, _ARGUMENTS)
                    yield each.lineno, _Job(node.name, arguments.get("trigger"), arguments)


def _arguments(node: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
    named = {each.arg or "**": each.value for each in node.keywords}
    given = {**dict(zip(names, node.args, strict=False)), **named}
    return given | {"**": node} if any(isinstance(each, ast.Starred) for each in node.args) else given


def _function(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return "" if node is None else ast.unparse(node)


def _name(job: _Job) -> str:
    given = job.arguments.get("id")
    named = given.value if isinstance(given, ast.Constant) else None
    return named if isinstance(named, str) else job.function.rpartition(":")[2].rpartition(".")[2] or "job"


def _draft(job: _Job, scheduler: _Settings, target: Target) -> Draft:
    if "**" in job.arguments:
        raise NotImportableError("has arguments behind ** or *; write them out")
    if "id" in job.arguments:
        value(job.arguments["id"])
    kind, given = _trigger(job)
    differences: list[Difference] = []
    timezone = given.get("timezone", scheduler.timezone)
    if timezone is None and kind == "cron":
        differences.append(zone_difference(target.timezone, "it is the zone of the host"))
    timezone = str(timezone or target.timezone)
    zone(timezone)
    if kind == "cron":
        text = _cron_text(given, differences)
        if changes_clocks(timezone):
            differences.append(_clocks())
    else:
        text = interval_text(_seconds(given))
        differences.append(interval_difference(text, "the start, or start_date"))
    settings = {
        "cron_expr": text,
        **({"dialect": "seconds"} if len(text.split()) == 6 else {}),
        "timezone": timezone if kind == "cron" else "UTC",
        "dst": "vixie",
        **_window(given, timezone),
        **_policy({**scheduler.defaults, **_given(job, *_DEFAULTS)}, differences),
    }
    if jitter := _amount(given, "jitter", _JITTER_MAX):
        settings["jitter_ms"] = round(jitter * 1000)
        there, here = (
            f"a run is up to {jitter:g} s late, another time each time",
            "up to so much early or late",
        )
        differences.append(Difference("jitter", there, f"{here}, the same for each tick", "Set jitter_ms"))
    if "next_run_time" in job.arguments:
        settings |= _first_run(job.arguments["next_run_time"], differences)
    work = _given(job, "args", "kwargs")
    settings["input"] = {"function": job.function, **work}
    return Draft(settings, [*differences, _WORK, LOST_RUN])


_WORK = Difference(
    *("work", "the function is called in the program", "your executor gets its name and arguments as input"),
    "Let a python:MODULE:FUNCTION executor call it",
)


def _first_run(node: ast.expr, differences: list[Difference]) -> dict[str, Any]:
    """Return the pause that a job without a next run has; what differs about its first run is added."""
    is_paused = isinstance(node, ast.Constant) and node.value is None
    there = "the job is added paused" if is_paused else f"it first runs at next_run_time, {source(node)}"
    here = "the same (paused)" if is_paused else "it first runs at its first fire time"
    advice = (
        "Leave `paused` out once it is stored; it is the operator's" if is_paused else "Trigger it by hand"
    )
    differences.append(Difference("first run", there, here, advice))
    return {"paused": True} if is_paused else {}


def _given(job: _Job, *names: str) -> dict[str, Any]:
    return {name: value(job.arguments[name]) for name in names if name in job.arguments}


def _trigger(job: _Job) -> tuple[str, dict[str, Any]]:
    """Return the kind of a trigger and its literal arguments; raises NotImportableError."""
    node = job.trigger
    if isinstance(node, ast.Constant) and node.value in ("cron", "interval", "date"):
        names = (*_FIELDS, *_UNITS, "start_date", "end_date", "timezone", "jitter")
        kind, given = str(node.value), _given(job, *names)
    elif isinstance(node, ast.Call) and name_of(node.func) == "from_crontab":
        fields = str(value(node.args[0])).split() if node.args else []
        if len(fields) != len(_CRONTAB):
            raise NotImportableError(f"`{source(node)}` has not five fields")
        written_there = dict(zip(("expr", "timezone"), node.args, strict=False)) | {**written_keywords(node)}
        own = value(written_there["timezone"]) if "timezone" in written_there else None
        kind, given = "cron", {**dict(zip(_CRONTAB, fields, strict=True)), "second": "0", "timezone": own}
    elif isinstance(node, ast.Call) and name_of(node.func) in _TRIGGERS:
        if node.args:
            raise NotImportableError(f"`{source(node)}` has arguments without a name; name them")
        # A trigger that is an object does not know its scheduler's zone.
        kind, given = _TRIGGERS[name_of(node.func)], {"timezone": None, **keywords(node)}
    else:
        raise NotImportableError("has no trigger that is written out as 'cron' or 'interval'")
    if kind == "date":
        raise NotImportableError(
            "runs once, at a date; the service has cron texts only. Trigger such work by hand"
        )
    return kind, given


def _cron_text(given: Mapping[str, Any], differences: list[Difference]) -> str:
    for name in ("year", "week"):
        if str(given.get(name, "*")) != "*":
            raise NotImportableError(f"cron texts have no {name}; use start_at and end_at, or leave it out")
    last = max((place for place, name in enumerate(_FIELDS) if name in given), default=len(_FIELDS))
    texts: dict[str, str] = {}
    for place, (name, rule) in enumerate(_FIELDS.items()):
        if rule is not None:
            whole = place < last or rule is WEEKDAY
            texts[name] = _field(rule, str(given.get(name, "*" if whole else rule.low)))
    if re.search(r"\d", re.sub(r"/\d+", "", str(given.get("day_of_week", "")))):
        here = f"0 is Sunday, so the same days are {texts['day_of_week']!r}"
        differences.append(Difference("weekdays", "0 is Monday", here, "Nothing to do"))
    texts["day"], texts["day_of_week"] = both_days(texts["day"], texts["day_of_week"])
    text = " ".join(texts[name] for name in _CRONTAB)
    return text if texts["second"] == "0" else f"{texts['second']} {text}"


def _field(rule: FieldRule, text: str) -> str:
    bits = 0
    for item in text.replace(" ", "").split(",") if "," in text else [text.strip()]:
        bits |= _item(rule, item)
    return written(rule, bits)


def _item(rule: FieldRule, item: str) -> int:
    shape = _ITEM.fullmatch(item)
    if shape is None or (shape[2] or "").startswith("last"):
        advice = "write days that include it, and check the date in the task"
        raise NotImportableError(f"{rule.name} {item!r} has no cron text; {advice}")
    # Weekdays are counted from Monday there.
    lowest, highest = (0, 6) if rule is WEEKDAY else (rule.low, rule.high)
    star, first, end, step = shape.groups()
    if first and not first.isdecimal() and (step or (end and end.isdecimal())):
        problem = "has a step or a number after a name, which is ignored there; write the values"
        raise NotImportableError(f"{rule.name} {item!r} {problem}")
    low = lowest if star else _number(rule, first)
    high = highest if star or (step and end is None) else low if end is None else _number(rule, end)
    if not lowest <= low <= high <= highest:
        raise NotImportableError(f"{rule.name} {item!r} is not between {lowest} and {highest}")
    numbers = range(low, high + 1, max(1, int(step or 1)))
    return sum(1 << ((number + 1) % 7 if rule is WEEKDAY else number) for number in numbers)


def _number(rule: FieldRule, text: str) -> int:
    if text.isdecimal():
        return int(text)
    named = {name: place for place, name in enumerate(_WEEKDAYS)} if rule is WEEKDAY else MONTH_NAMES
    if rule not in (WEEKDAY, MONTH) or text.lower() not in named:
        raise NotImportableError(f"{rule.name} {text!r} has no cron text")
    return named[text.lower()]


def _seconds(given: Mapping[str, Any]) -> float:
    return sum(_amount(given, name, SECONDS_MAX) * unit for name, unit in _UNITS.items()) or 1


def _amount(given: Mapping[str, Any], name: str, most: float) -> float:
    """Return a number, 0 where there is none; raises NotImportableError for anything else."""
    found = given.get(name) or 0
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= most:
        raise NotImportableError(f"{name} {found!r} is no number from 0 to {most:,}")
    return found


def _window(given: Mapping[str, Any], timezone: str) -> dict[str, str]:
    """Return the start and the end, each with its offset; a time without one is in the job's zone."""
    found = {}
    for name, key in (("start_date", "start_at"), ("end_date", "end_at")):
        if given.get(name) is None:
            continue
        try:
            at = datetime.fromisoformat(str(given[name]))
        except ValueError:
            raise NotImportableError(f"{name} {given[name]!r} is no ISO time") from None
        found[key] = (at if at.tzinfo else at.replace(tzinfo=zone(timezone).tzinfo)).isoformat()
    return found


def _policy(job: Mapping[str, Any], differences: list[Difference]) -> dict[str, Any]:
    """Return the policy of a job, and add what is different about it to `differences`."""
    instances, grace = job["max_instances"], job["misfire_grace_time"]
    if grace is not None:
        grace = _amount(job, "misfire_grace_time", SECONDS_MAX)
    settings: dict[str, Any] = {"overlap_policy": "skip" if instances == 1 else "allow"}
    if instances != 1:
        there, here = f"at most {instances} runs at once", 'any number (overlap_policy = "allow")'
        differences.append(Difference("overlap", there, here, 'Write "skip" or "queue" for one at a time'))
    if grace is None:
        settings["catchup_policy"] = "latest" if job["coalesce"] else "fire_immediately"
        there = "a run is never too late, if its job store is kept" + (
            ", and missed runs become one" if job["coalesce"] else ""
        )
        here = f'catchup_policy = "{settings["catchup_policy"]}"'
        advice = "Nothing to do"
    elif grace <= 60:
        settings["catchup_policy"] = "none"
        there, here = (
            f"a run that is {grace:g} s late is dropped",
            "a tick that is at most a minute late runs",
        )
        advice = "Set grace_s for another limit"
    else:
        settings |= {"catchup_policy": "none", "grace_s": grace}
        there = f"a run may be {grace:g} s late" + (
            "; of several the last one runs" if job["coalesce"] else ""
        )
        here = "each tick within grace_s runs, as overlap_policy allows"
        advice = 'Write catchup_policy = "latest" for one run at most'
    differences.append(Difference("missed ticks", there, here, advice))
    return settings


def _clocks() -> Difference:
    there = "a time from 00:00 to 00:59 loses its first day after the change in spring (measured with 3.11)"
    here = 'dst = "vixie": a fixed time runs once on each day, and others follow real time'
    return Difference("changing clocks", there, here, "Set gap and fold for another rule")
