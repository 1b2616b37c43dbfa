"""Agent documents, from YAML or from Python, read into `Agent`s with a problem for every bad key.

A schedule that cannot be read does not make its agent unusable: the schedule carries its problems. A running
scheduler quarantines such a schedule; `load_fleet` refuses the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

from dutiful.core.cron.duration import parse_duration
from dutiful.core.errors import DutifulError
from dutiful.fleet.config_keys import Key, flag, read_keys, text, time_zone, whole_number
from dutiful.fleet.errors import ConfigProblem, FleetConfigError, near_name
from dutiful.fleet.file.document import dotted
from dutiful.fleet.next_trigger import JITTER_PERCENT_MAX, parse_cron_expression
from dutiful.fleet.run.jobs import problems_of_job
from dutiful.fleet.run.work_sources import problems_of_work_source
from dutiful.fleet.types import Agent, AgentSchedule, Problem, ScheduleType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dutiful.core.cron.cron import Cron
    from dutiful.fleet.config_keys import Keys

# Names are directories of the logs, where `.` and `..` would be others.
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}")
_TYPES = get_args(ScheduleType)
_CONCURRENT_MAX = 10_000
_RETRIES_MAX, _BACKOFF_MAX = 100, 10
# Most problems of a work source and a job that a message lists.
_LISTED_MAX = 100
_EXAMPLES = {"interval": "5m", "expression": '"0 9 * * 1-5"'}
_NAMING = "must be 1 to 128 of the characters A-Z a-z 0-9 . _ -"


def agent_from(document: Agent | Mapping[str, Any]) -> Agent:
    """Return the Agent that a document describes; the values of one made in Python are checked too.

    Raises FleetConfigError if the agent itself cannot be read. A bad schedule has its problems in
    `AgentSchedule.problems` instead.
    """
    described = _document_of(document) if isinstance(document, Agent) else document
    agent, problems = read_agent(described, _schedules_in(described))
    if agent is None:
        found = [ConfigProblem(None, None, dotted(p.path), p.message, p.value) for p in problems]
        raise FleetConfigError(f"The agent {_name_in(described)}", found)
    return document if isinstance(document, Agent) and document == agent else agent


def _document_of(agent: Agent) -> dict[str, Any]:
    written = {key: getattr(agent, key) for key in AGENT_KEYS if key != "instances"}
    return written | {"instances": {"max_concurrent": agent.max_concurrent}}


def agents_from(documents: Iterable[Agent | Mapping[str, Any]]) -> list[Agent]:
    """Return the agents that documents describe. Raises FleetConfigError, also for a name used twice."""
    agents = [agent_from(document) for document in documents]
    twice = [name for name, count in Counter(agent.name for agent in agents).items() if count > 1]
    if twice:
        said = "is the name of several agents; give each its own"
        found = [ConfigProblem(None, None, "name", said, name) for name in twice]
        raise FleetConfigError("The agents", found)
    return agents


def _schedules_in(document: object) -> dict[str, AgentSchedule]:
    entries = document.get("schedules") if isinstance(document, Mapping) else None
    known = entries.items() if isinstance(entries, Mapping) else ()
    return {name: _schedule_from(entry) for name, entry in known if entry is not None}


def _schedule_from(entry: object) -> AgentSchedule:
    """Return a schedule, read from a document or made in Python, with its problems."""
    if not isinstance(entry, AgentSchedule):
        return read_schedule(entry)
    found = read_schedule({key: getattr(entry, key) for key in SCHEDULE_KEYS if key != "cron"})
    return replace(found, problems=(*entry.problems, *found.problems))


def _name_in(document: object) -> str:
    return repr(document.get("name") if isinstance(document, Mapping) else document)


def read_agent(
    document: object, schedules: Mapping[str, AgentSchedule]
) -> tuple[Agent | None, list[Problem]]:
    """Return the agent with its schedules, or None and the problems of the document."""
    if not isinstance(document, Mapping):
        return None, [Problem((), "must be a mapping with a `name` and `schedules`", document)]
    values, problems = read_keys(document, AGENT_KEYS)
    instances, more = read_keys(values["instances"], INSTANCES_KEYS)
    problems += _below("instances", more)
    problems += islice(
        _problems_of_configs(values["work_source"], values["job"], values["on_failure"]), _LISTED_MAX
    )
    problems += [
        Problem(("schedules", str(name)), _naming(name), name)
        for name in values["schedules"]
        if not isinstance(name, str) or not _NAME.fullmatch(name)
    ]
    if problems:
        return None, problems
    values |= {"schedules": schedules, **instances}
    del values["instances"]
    return Agent(**values), []


def read_schedule(document: object) -> AgentSchedule:
    """Return a schedule as declared; keys that cannot be read are in its `problems`."""
    if not isinstance(document, Mapping):
        return AgentSchedule("", problems=(Problem((), "must be a mapping with a `type`", document),))
    values, problems = read_keys(document, SCHEDULE_KEYS)
    alias = values.pop("cron")
    if values["expression"] is None:
        values["expression"] = alias
    elif alias is not None:
        said = "is the same as `expression`, which is there too; keep one"
        problems.append(Problem(("cron",), said, alias))
    return AgentSchedule(**values, problems=tuple(problems))


def problems_of_schedule(schedule: AgentSchedule) -> Iterator[Problem]:
    """Yield every reason why this schedule cannot be used."""
    yield from schedule.problems
    if any(problem.path == () for problem in schedule.problems):
        return
    if schedule.type not in _TYPES:
        verdict = f"is unknown{near_name(schedule.type, _TYPES)}" if schedule.type else "is missing"
        yield Problem(("type",), f"{verdict}; write one of {', '.join(_TYPES)}", schedule.type or None)
        return
    yield from _problems_of_cadence(schedule)
    jitter = schedule.jitter_percent
    if not 0 <= jitter <= JITTER_PERCENT_MAX:
        yield Problem(("jitter_percent",), f"must be from 0 to {JITTER_PERCENT_MAX}", jitter)
    if schedule.timezone is not None and schedule.type != "cron":
        said = f"means nothing with `type: {schedule.type}`; remove it"
        yield Problem(("timezone",), said, schedule.timezone)
    yield from _problems_of_configs(schedule.work_source, schedule.job, schedule.on_failure)


def _problems_of_cadence(schedule: AgentSchedule) -> Iterator[Problem]:
    try:
        parse_duration(schedule.retry_delay)
    except DutifulError as error:
        yield Problem(("retry_delay",), f"{error}; write it such as 30s", schedule.retry_delay)
    parsers: list[tuple[str, str | None, str, Callable[[str], object]]] = [
        ("interval", schedule.interval, "interval", parse_duration),
        ("expression", schedule.expression, "cron", _cron_in_any_zone),
    ]
    for key, written, kind, parse in parsers:
        if schedule.type != kind:
            if written is not None:
                yield Problem(
                    (key,), f"means nothing with `type: {schedule.type}`; remove it, or the type", written
                )
        elif written is None:
            yield Problem((key,), f"is missing; `type: {kind}` needs it, such as {_EXAMPLES[key]}")
        else:
            try:
                parse(written)
            except DutifulError as error:
                yield Problem((key,), f"{error}; write it such as {_EXAMPLES[key]}", written)


def _cron_in_any_zone(expression: str) -> Cron:
    # A cron text that is legal in one zone is legal in all. Looking up the host's zone for each schedule may
    # read many files.
    return parse_cron_expression(expression, UTC)


def _problems_of_configs(work_source: object, job: object, on_failure: object) -> Iterator[Problem]:
    if work_source is not None:
        yield from _below("work_source", problems_of_work_source(work_source))
    if job is not None:
        yield from _below("job", problems_of_job(job))
    if on_failure is not None:
        yield from _below("on_failure", problems_of_job(on_failure))


def _below(key: str, problems: Iterable[Problem]) -> Iterator[Problem]:
    return (problem._replace(path=(key, *problem.path)) for problem in problems)


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(_naming(value))
    return value


def _naming(name: object) -> str:
    """Return advice on how to write the name of an agent or a schedule, in place of this refused one."""
    return "would be another directory of the logs; write another name" if name in (".", "..") else _NAMING


def _mapping(advice: str) -> Callable[[object], Mapping[str, Any]]:
    def read(value: object) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"must be a mapping, such as {advice}")  # noqa: TRY004 - problems are ValueErrors
        return value

    return read


def _percent(value: object) -> float:
    written = "" if isinstance(value, bool) else str(value)
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", written):
        raise ValueError(f"must be a number from 0 to {JITTER_PERCENT_MAX}")
    return float(written) if "." in written else int(written)


# Texts are checked where they are used; for other types the parsers raise their own errors.
def _interval(value: Any) -> str:
    return value if isinstance(value, str) else str(parse_duration(value))


def _expression(value: Any) -> str:
    return value if isinstance(value, str) else str(_cron_in_any_zone(value))


def _as_it_is(value: object) -> object:
    return value


AGENT_KEYS: Keys = {
    "name": Key(_name, required=True),
    "default_prompt": Key(text),
    "work_source": Key(_as_it_is),
    "job": Key(_as_it_is),
    "on_failure": Key(_as_it_is),
    "instances": Key(_mapping("{max_concurrent: 2}"), {}),
    "schedules": Key(_mapping("{NAME: {type: interval, interval: 5m}}"), {}),
}
INSTANCES_KEYS: Keys = {"max_concurrent": Key(whole_number(1, _CONCURRENT_MAX), 1)}
SCHEDULE_KEYS: Keys = {
    "type": Key(text, ""),
    "interval": Key(_interval),
    "expression": Key(_expression),
    "cron": Key(_expression),
    "prompt": Key(text),
    "enabled": Key(flag, default=True),
    "jitter_percent": Key(_percent, 0),
    "work_source": Key(_as_it_is),
    "run_without_work": Key(flag, default=False),
    "job": Key(_as_it_is),
    "timezone": Key(time_zone),
    "retries": Key(whole_number(0, _RETRIES_MAX), 0),
    "retry_delay": Key(_interval, "1m"),
    "retry_backoff": Key(whole_number(1, _BACKOFF_MAX), 1),
    "on_failure": Key(_as_it_is),
}
