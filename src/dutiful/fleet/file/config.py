"""The fleet file: agents, inline or in files of their own, under common defaults; checked as a whole."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.duration import parse_duration
from dutiful.fleet.config_keys import Key, read_keys, seconds, time_zone, unknown_key, whole_number
from dutiful.fleet.errors import FleetConfigError
from dutiful.fleet.file.agents import problems_of_schedule, read_agent, read_schedule
from dutiful.fleet.file.document import Part, part_of, read_document
from dutiful.fleet.run.jobs import unready_job
from dutiful.fleet.run.output_log import LogLimits
from dutiful.fleet.run.work_sources import unready_work_source
from dutiful.fleet.types import Problem
from dutiful.fleet.yaml_tree import Node
from dutiful.runtime.ports import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import timedelta

    from dutiful.fleet.config_keys import Keys
    from dutiful.fleet.errors import ConfigProblem
    from dutiful.fleet.types import Agent, AgentSchedule, Config
    from dutiful.fleet.yaml_tree import Path as KeyPath


_VALUES_MAX = 150_000
_PROBLEMS_MAX = 100
FLEET_KEYS = ("version", "agents", "defaults", "state_dir", "check_interval", "timezone", "retention", "logs")
_ROWS_MAX, _LOGS_MAX, _LOG_BYTES_MAX = 100_000, 10_000, 1024 * 1024 * 1024
RETENTION_KEYS: Keys = {"age": Key(seconds, 30 * 86_400.0), "runs": Key(whole_number(1, _ROWS_MAX), 1000)}
LOGS_KEYS: Keys = {
    "runs": Key(whole_number(0, _LOGS_MAX), 20),
    "bytes": Key(whole_number(1024, _LOG_BYTES_MAX), 1024 * 1024),
}
INCLUDE_KEYS = ("path", "overrides")
STATE_DIR = ".dutiful"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The content of a fleet file; `state_dir` and `check_interval` are None where they are left out."""

    agents: tuple[Agent, ...]
    state_dir: Path | None = None
    check_interval: timedelta | None = None
    # How much of the history is kept.
    retention: Retention = Retention()  # noqa: RUF009 - an immutable value
    logs: LogLimits = LogLimits()  # noqa: RUF009 - an immutable value


def load_fleet(path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> Fleet:
    """Return the fleet that a file describes, or raise FleetConfigError with every problem.

    Variables are taken from `environ`, by default the environment of this process.
    """
    fleet, _ = read_fleet(path, environ)
    if isinstance(fleet, FleetConfigError):
        raise fleet
    return fleet


def read_fleet(
    path: str | os.PathLike[str], environ: Mapping[str, str] | None = None, *, check_jobs: bool = False
) -> tuple[Fleet | FleetConfigError, list[Path]]:
    """Return the fleet that a file describes, or its problems, and all files that were read.

    With `check_jobs` it is also a problem if a job could not run: no program, no directory, no module.
    """
    file = Path(path)
    reader = _FleetReader(file, os.environ if environ is None else environ, check_jobs)
    fleet = Fleet(())
    try:
        with suppress(_Enough):
            fleet = reader.read(read_document(file))
    except FleetConfigError as error:
        return error, [file]
    files = [file, *reader.files]
    return (FleetConfigError(str(file), reader.sorted_problems()) if reader.problems else fleet), files


class _Enough(Exception):  # noqa: N818
    """Raised once so many problems are known that a further search would only cost time."""


class _FleetReader:
    """Reads one fleet and collects its problems."""

    def __init__(self, file: Path, environ: Mapping[str, str], check_jobs: bool) -> None:
        self._checks_jobs = check_jobs
        # The problems of each job and work source, cached because many schedules share one.
        self._checked: dict[str, list[Problem]] = {}
        # Keep the first problem of each location: later ones follow from it, and defaults repeat it.
        self.problems: dict[tuple[str | None, str], ConfigProblem] = {}
        self._file, self._environ = file, environ
        self._left = _VALUES_MAX
        # A file that many agents share is read, or refused, only once.
        self.files: dict[Path, Part | FleetConfigError] = {}
        # Agent name -> index of the agent.
        self._names: dict[str, int] = {}

    def read(self, root: Node) -> Fleet:
        if not isinstance(root.value, dict):
            said = "must be a mapping; write `version: 1` and `agents`"
            self._tell(self._part(Node(None, root.line, plain=True), self._file), Problem((), said))
            return Fleet(())
        hollow = {key: _hollow(key, node) for key, node in root.value.items()}
        top = self._part(Node(hollow, root.line), self._file)
        for problem in _problems_at_the_top(top.value):
            self._tell(top, problem)
        defaults = self._defaults(root)
        agents = [self._agent(node, n, defaults) for n, node in self._agent_nodes(root)]
        retention = self._section(top, "retention", RETENTION_KEYS)
        logs = self._section(top, "logs", LOGS_KEYS)
        zone = self._zone(top)
        state_dir, interval = (top.value.get(key) for key in ("state_dir", "check_interval"))
        if self.problems:
            return Fleet(())
        return Fleet(
            tuple(_in_zone(agent, zone) for agent in agents if agent is not None),
            None if state_dir is None else self._file.parent / state_dir,
            None if interval is None else parse_duration(interval),
            Retention(round(retention["age"] * 1000), retention["runs"]),
            LogLimits(**logs),
        )

    def _section(self, top: Part, name: str, keys: Keys) -> dict[str, Any]:
        document = top.value.get(name)
        if not isinstance(document, dict | None):
            self._tell(top, Problem((name,), f"must be a mapping of {', '.join(keys)}", document))
            document = None
        values, problems = read_keys(document or {}, keys)
        for problem in problems:
            self._tell(top, problem._replace(path=(name, *problem.path)))
        return values

    def _zone(self, top: Part) -> str | None:
        written = top.value.get("timezone")
        try:
            return None if written is None else time_zone(written)
        except ValueError as error:
            self._tell(top, Problem(("timezone",), str(error), written))
            return None

    def _agent_nodes(self, root: Node) -> Iterator[tuple[int, Node]]:
        listed = root.value.get("agents", Node([])).value
        return enumerate(listed if isinstance(listed, list) else ())

    def _defaults(self, root: Node) -> Part:
        node = root.value.get("defaults")
        if node is None or not isinstance(node.value, dict):
            return Part({}, {})
        defaults = self._part(node, self._file, ("defaults",))
        if "name" in defaults.value:
            said = "cannot be common; give each agent its own"
            self._tell(defaults, Problem(("name",), said, defaults.value["name"]))
        return defaults

    def _agent(self, node: Node, number: int, defaults: Part) -> Agent | None:
        part = self._inline_or_included(node, ("agents", number))
        if part is None:
            return None
        if not isinstance(part.value, dict):
            self._tell(part, Problem((), "must be a mapping: an agent with a `name`", part.value))
            return None
        part = defaults.under(part)
        self._spend(part)
        agent, problems = read_agent(part.value, self._schedules(part))
        for problem in problems:
            self._tell(part, problem)
        if agent is not None and self._checks_jobs:
            self._check_jobs(part, agent)
        first = self._names.setdefault(str(part.value.get("name")), number)
        if first != number and "name" in part.value:
            said = f"is the name of agents[{first}] too; give each agent its own"
            self._tell(part, Problem(("name",), said, part.value["name"]))
        return agent

    def _check_jobs(self, part: Part, agent: Agent) -> None:
        """Record why jobs of an agent could not run on this host; their descriptions are valid."""
        for name, schedule in agent.schedules.items():
            if not schedule.enabled or any(problems_of_schedule(schedule)):
                continue
            job, where = (schedule.job, ("schedules", name)) if schedule.job else (agent.job, ())
            if job is None:
                said = "has no `job`, and its agent has none either; write one, such as {type: command, …}"
                self._tell(part, Problem(("schedules", name), said))
            else:
                self._tell_unready(part, (*where, "job"), job, unready_job)
            for key, check in (("work_source", unready_work_source), ("on_failure", unready_job)):
                config = getattr(schedule, key) or getattr(agent, key)
                if config is not None:
                    where = ("schedules", name) if getattr(schedule, key) else ()
                    self._tell_unready(part, (*where, key), config, check)

    def _tell_unready(
        self, part: Part, at: KeyPath, config: Config, check: Callable[[Config, Path], Iterable[Problem]]
    ) -> None:
        key = json.dumps([at[-1], config], sort_keys=True, default=str)
        if key not in self._checked:
            self._checked[key] = list(check(config, self._file.absolute().parent))
        for problem in self._checked[key]:
            self._tell(part, problem._replace(path=(*at, *problem.path)))

    def _schedules(self, part: Part) -> dict[str, AgentSchedule]:
        documents = part.value.get("schedules")
        read: dict[str, AgentSchedule] = {}
        for name, document in documents.items() if isinstance(documents, dict) else ():
            if document is None:
                continue
            read[name] = read_schedule(document)
            for problem in problems_of_schedule(read[name]):
                path = problem.path
                if path == ("expression",) and isinstance(document, dict) and "expression" not in document:
                    path = ("cron",) if "cron" in document else path
                self._tell(part, problem._replace(path=("schedules", name, *path)))
        return read

    def _inline_or_included(self, node: Node, at: KeyPath) -> Part | None:
        part = self._part(node, self._file, at)
        if not isinstance(part.value, dict):
            self._tell(part, Problem((), "must be a mapping: an agent, or {path: FILE}", part.value))
            return None
        return self._included(node, part, at) if "path" in part.value else part

    def _included(self, node: Node, entry: Part, at: KeyPath) -> Part | None:
        for problem in _problems_of_inclusion(entry.value):
            self._tell(entry, problem)
        if not isinstance(entry.value["path"], str):
            return None
        file = self._file.parent / entry.value["path"]
        included = self._file_of_its_own(file)
        if isinstance(included, FleetConfigError):
            for found in included.problems:
                if found.line is None:
                    said = f"{found.file} {found.message}"
                    self._tell(entry, Problem(("path",), said, entry.value["path"]))
                else:
                    self._note(found)
            return None
        overrides = node.value.get("overrides")
        if overrides is None or not isinstance(overrides.value, dict):
            return included
        return included.under(self._part(overrides, self._file, (*at, "overrides")))

    def _file_of_its_own(self, file: Path) -> Part | FleetConfigError:
        if file not in self.files:
            try:
                self.files[file] = self._part(read_document(file), file)
            except FleetConfigError as error:
                self.files[file] = error
        return self.files[file]

    def _part(self, node: Node, file: Path, at: KeyPath = ()) -> Part:
        part, problems = part_of(node, str(file), self._environ, at)
        for problem in problems:
            self._note(problem)
        return part

    def _spend(self, part: Part) -> None:
        """Refuse defaults and shared files that are small in the file and huge once they are filled in."""
        self._left -= len(part.spots)
        if self._left < 0:
            said = f"the fleet has more than {_VALUES_MAX:,} values with its defaults; make it smaller"
            self._tell(part, Problem((), said))
            raise _Enough

    def _tell(self, part: Part, problem: Problem) -> None:
        self._note(part.located(problem))

    def _note(self, problem: ConfigProblem) -> None:
        self.problems.setdefault((problem.file, problem.path), problem)
        if len(self.problems) >= _PROBLEMS_MAX:
            raise _Enough

    def sorted_problems(self) -> list[ConfigProblem]:
        """Return the problems from top to bottom, the fleet file first."""
        return sorted(
            self.problems.values(), key=lambda p: (p.file != str(self._file), p.file or "", p.line or 0)
        )


def _in_zone(agent: Agent, zone: str | None) -> Agent:
    """Return the agent with the zone of the fleet in all cron schedules that name none."""
    if zone is None:
        return agent
    schedules = {
        name: replace(each, timezone=zone) if each.type == "cron" and each.timezone is None else each
        for name, each in agent.schedules.items()
    }
    return replace(agent, schedules=schedules)


def _hollow(key: str, node: Node) -> Node:
    """Return the lists of agents and of defaults without their content, which is read part by part."""
    kind = type(node.value)
    return Node(kind(), node.line) if key in {"agents", "defaults"} and kind in {dict, list} else node


def _problems_at_the_top(top: dict[str, Any]) -> Iterator[Problem]:
    yield from (unknown_key(key, FLEET_KEYS) for key in top if key not in FLEET_KEYS)
    version = top.get("version")
    if version != "1":
        verdict = "is missing" if version is None else "must be 1"
        yield Problem(("version",), f"{verdict}; write `version: 1`", version)
    if not isinstance(top.get("agents"), list):
        yield Problem(("agents",), "must be a list of agents, each with a dash", top.get("agents"))
    if not isinstance(top.get("defaults"), dict | None):
        yield Problem(("defaults",), "must be a mapping of what agents have in common", top["defaults"])
    if top.get("state_dir") is not None and not _is_directory_path(top["state_dir"]):
        advice = "must be the path of a directory; write ${HOME} where you mean ~"
        yield Problem(("state_dir",), advice, top["state_dir"])
    if top.get("check_interval") is not None:
        try:
            parse_duration(top["check_interval"])
        except ValueError as error:
            yield Problem(("check_interval",), f"{error}; write it such as 5s", top["check_interval"])


def _is_directory_path(value: object) -> bool:
    # No shell reads the file: a `~` would become a directory of that name.
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value and not value.startswith("~")


def _problems_of_inclusion(entry: dict[str, Any]) -> Iterator[Problem]:
    for key in entry:
        if key not in INCLUDE_KEYS:
            yield Problem((key,), "cannot stand beside `path`; write it under `overrides`, or in that file")
    if not isinstance(entry["path"], str):
        yield Problem(("path",), "must be the path of a file with one agent", entry["path"])
    if not isinstance(entry.get("overrides", {}), dict):
        yield Problem(("overrides",), "must be a mapping of keys of the agent", entry["overrides"])


def state_dir_of(path: Path, fleet: Fleet) -> Path:
    """Return the state directory of a fleet: beside the file, unless the file names another."""
    return fleet.state_dir or path.parent / STATE_DIR
