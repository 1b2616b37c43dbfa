"""The jobs that a fleet file can describe: a command, a request to a URL, a Python function.

Each kind reads its settings, and hands the request of a job to the launcher of that kind.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful import process
from dutiful.core.errors import quoted
from dutiful.core.plan.outcome import Failed, Succeeded
from dutiful.fleet.config_keys import (
    VARIABLE,
    Key,
    Keys,
    allowed,
    argv,
    headers,
    problems_of,
    seconds,
    settings_of,
    text,
    texts,
    url,
    whole_number,
)
from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.types import JobResult, Problem
from dutiful.launchers.command import Command, NotStartedError
from dutiful.launchers.python import Function, find_function, is_place
from dutiful.outbound import Allowed, ForbiddenTargetError, NoAnswerError, Outbound
from dutiful.process.command import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dutiful.fleet.types import Config, JobExecutor, JobRequest
    from dutiful.outbound import Answer

    OnOutput: TypeAlias = Callable[[JobRequest, str], None]
    OnChunk: TypeAlias = Callable[[JobRequest, bytes], None]
    Settings: TypeAlias = Mapping[str, Any]


class Kind(NamedTuple):
    """One kind of job: its keys, its executor, and its checks of the host."""

    keys: Keys
    executor: Callable[[Settings, OnOutput | None, OnChunk | None], JobExecutor]
    unready: Callable[[Settings, Path], Iterator[Problem]]


def problems_of_job(config: object) -> Iterator[Problem]:
    """Yield every problem of a `job`; paths are relative to it. Nothing is imported or started."""
    return problems_of(config, KEYS)


def unready_job(config: Config, folder: Path) -> Iterator[Problem]:
    """Yield why a valid job could not run from this folder, as far as can be seen now."""
    return _KINDS[config["type"]].unready(settings_of(config, KEYS, "job"), folder)


def executor_for(
    config: Config, on_output: OnOutput | None = None, on_chunk: OnChunk | None = None
) -> JobExecutor:
    """Return the executor of the jobs that `config` describes.

    `on_output(request, line)` is called with the latest line of a running command, `on_chunk(request, bytes)`
    with all of its output. Raises InvalidArgumentError with all problems, or if a Python function cannot be
    found.
    """
    settings = settings_of(config, KEYS, "job")
    return _KINDS[config["type"]].executor(settings, on_output, on_chunk)


# Commands


class CommandJob:
    """Runs a command for every job: the prompt on stdin, the request in the environment."""

    def __init__(self, settings: Settings, on_output: OnOutput | None, on_chunk: OnChunk | None) -> None:
        self._command = _command(settings)
        self._on_output, self._on_chunk = on_output, on_chunk

    async def execute(self, request: JobRequest) -> JobResult:
        """Return success if the command ends with 0 in time; its last line of output is the summary."""
        watcher, log = self._on_output, self._on_chunk
        try:
            ended = await self._command.run(
                _variables(request),
                request.prompt.encode("utf-8", "replace"),
                on_output=None if watcher is None else lambda line: watcher(request, line),
                on_chunk=None if log is None else lambda chunk: log(request, chunk),
            )
        except NotStartedError as error:
            raise JobNotStartedError(_missing(self._command) or str(error)) from error
        return JobResult(ended.problem is None, ended.summary, ended.problem)


def _command(settings: Settings) -> Command:
    names = ("command", "timeout", "environment", "directory", "output_limit")
    return Command(*(settings[name] for name in names))


def _unready_command(settings: Settings, folder: Path) -> Iterator[Problem]:
    directory = folder / (settings["directory"] or "")
    if not directory.is_dir():
        yield Problem(("directory",), f"is no directory; make {directory}", settings["directory"])
    missing = _missing(_command(settings)._replace(directory=str(directory)))
    if missing is not None:
        yield Problem(("command",), missing)


def _missing(command: Command) -> str | None:
    """Return advice about a program that cannot be found, or None if it can."""
    missing, program = command.missing(), command.argv[0]
    elsewhere = None if missing is None or "/" in program else shutil.which(program)
    if elsewhere is None:
        return missing
    return (
        f"{missing}; it is {elsewhere} on the PATH of the fleet:"
        " write that, or pass the PATH on with `environment: [PATH]`"
    )


def _variables(request: JobRequest) -> dict[str, str | None]:
    item, metadata = request.work_item, request.metadata
    return {
        "DUTIFUL_AGENT": request.agent.name,
        "DUTIFUL_SCHEDULE": request.schedule_name,
        # A prompt too long for a variable is passed on stdin only.
        "DUTIFUL_PROMPT": request.prompt,
        "DUTIFUL_WORK_ITEM": None if item is None else json.dumps(item._asdict()),
        "DUTIFUL_TRIGGER": None if metadata is None else metadata.trigger_type,
        "DUTIFUL_ATTEMPT": None if metadata is None else str(metadata.attempt),
        "DUTIFUL_ERROR": request.error,
    }


def _environment(value: object) -> dict[str, str | None]:
    """Read variables: a list of NAME or NAME=VALUE, or a mapping; without a value they are inherited."""
    if isinstance(value, Mapping):
        if any(isinstance(each, Mapping | list) for each in value.values()):
            raise ValueError("has a value that is no text; write one text for each variable")
        found = {str(key): None if each is None else str(each) for key, each in value.items()}
    else:
        pairs = [each.partition("=") for each in texts(value)]
        found = {key: each if equals else None for key, equals, each in pairs}
    bad = [key for key in found if not VARIABLE.fullmatch(key)]
    if bad:
        raise ValueError(f"{quoted(bad[0])!r} cannot be the name of an environment variable")
    if any("\0" in (each or "") for each in found.values()):
        raise ValueError("has a value with a NUL, which no variable can hold")
    return found


# Requests to a URL


class HttpJob:
    """Posts every job to a URL; 2xx means success, unless the response says otherwise."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings["url"]
        self._outbound = Outbound(settings["headers"], settings["allow"], settings["timeout"])

    async def execute(self, request: JobRequest) -> JobResult:
        """Return the result in the response; raise JobNotStartedError if the request never left."""
        try:
            answer = await self._outbound.send("POST", self._url, _content(request))
        except ForbiddenTargetError as error:
            raise JobNotStartedError(str(error)) from None
        except NoAnswerError as error:
            if not error.sent:
                raise JobNotStartedError(str(error)) from None
            return JobResult(False, error=str(error))
        return _result_in(answer)


def _content(request: JobRequest) -> dict[str, Any]:
    return {
        "agent": request.agent.name,
        "schedule": request.schedule_name,
        "prompt": request.prompt,
        "work_item": None if request.work_item is None else request.work_item._asdict(),
        **({} if request.error is None else {"error": request.error}),
    }


def _result_in(answer: Answer) -> JobResult:
    if not answer.is_success:
        return JobResult(False, error=answer.problem())
    if not answer.is_whole:
        # The part that was cut off may report a failure.
        return JobResult(
            False, error=f"the answer of {answer.origin} is longer than {len(answer.body)} bytes"
        )
    said = answer.json()
    if not isinstance(said, dict):
        return JobResult(True)
    success = said.get("success", True) is True
    error = None if success else _line(said.get("error")) or f"{answer.origin} answered without success"
    return JobResult(success, _line(said.get("summary")), error)


def _line(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) else None


# Python functions


class PythonJob:
    """Calls a function with the request of every job."""

    def __init__(self, settings: Settings) -> None:
        self._function = Function("call", settings["call"], settings["timeout"])

    async def execute(self, request: JobRequest) -> JobResult:
        """Return the value of the function as a result; an exception of the function is raised."""
        expected = "a str, a bool, a JobResult or None"
        match await self._function.call(request, results=(JobResult,), expected=expected):
            case JobResult() as result:
                return result
            case Succeeded(detail):
                return JobResult(True, detail)
            case Failed(detail):
                return JobResult(False, error=detail)
        raise AssertionError("a function has another result")


def _place(value: object) -> str:
    """Read the location of a function: its module, a colon and its name."""
    if not isinstance(value, str) or not is_place(value):
        raise ValueError("must be module:function, e.g. reports.daily:build")
    return value


def _unready_function(settings: Settings, _: Path) -> Iterator[Problem]:
    try:
        # This imports the module.
        find_function("call", settings["call"])
    except Exception as error:  # noqa: BLE001 - importing runs code of the user
        yield Problem(("call",), f"cannot be imported: {error}", settings["call"])


_KINDS: Mapping[str, Kind] = {
    "command": Kind(
        {
            "command": Key(argv, required=True),
            "timeout": Key(seconds, 3600.0),
            "output_limit": Key(whole_number(1024, 64 * 1024 * 1024), process.OUTPUT_LIMIT),
            "environment": Key(_environment, {}, secret=True),
            "directory": Key(text),
        },
        CommandJob,
        _unready_command,
    ),
    "http": Kind(
        {
            "url": Key(url, required=True, secret=True),
            "headers": Key(headers, {}, secret=True),
            "timeout": Key(seconds, 60.0),
            "allow": Key(allowed, Allowed()),
        },
        lambda settings, *_: HttpJob(settings),
        lambda *_: iter(()),
    ),
    "python": Kind(
        {"call": Key(_place, required=True), "timeout": Key(seconds, 3600.0)},
        lambda settings, *_: PythonJob(settings),
        _unready_function,
    ),
}
KEYS: Mapping[str, Keys] = {name: kind.keys for name, kind in _KINDS.items()}
