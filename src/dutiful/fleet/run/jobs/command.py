"""Jobs that are commands: the prompt on stdin, the request in the environment, the last line as summary."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from dutiful import process
from dutiful.core.errors import quoted
from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.file.settings import VARIABLE, Key, argv, seconds, text, texts, whole_number
from dutiful.fleet.types import JobResult, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dutiful.fleet.types import JobRequest
    from dutiful.process import Exit

    OnOutput: TypeAlias = Callable[[JobRequest, str], None]
    OnChunk: TypeAlias = Callable[[JobRequest, bytes], None]


def environment(value: object) -> dict[str, str | None]:
    """Read variables: a list of NAME or NAME=VALUE, or a mapping; without a value one is passed on."""
    if isinstance(value, Mapping):
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


KEYS = {
    "command": Key(argv, required=True),
    "timeout": Key(seconds, 3600.0),
    "output_limit": Key(whole_number(1024, 64 * 1024 * 1024), process.OUTPUT_LIMIT),
    "environment": Key(environment, {}, secret=True),
    "directory": Key(text),
}


class CommandJob:
    """Runs a command for every job."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        on_output: OnOutput | None = None,
        on_chunk: OnChunk | None = None,
    ) -> None:
        self._settings = settings
        self._on_output, self._on_chunk = on_output, on_chunk

    async def execute(self, request: JobRequest) -> JobResult:
        """Return success if the command ends with 0 in time; its last line of output is the summary."""
        watcher, log = self._on_output, self._on_chunk
        environment = _environment(self._settings, _variables(request))
        missing = _missing_program(self._settings, environment["PATH"])
        if missing is not None:
            raise JobNotStartedError(missing)
        try:
            ended = await process.run(
                self._settings["command"],
                environment=environment,
                stdin=request.prompt.encode("utf-8", "replace"),
                directory=self._settings["directory"],
                time_limit=self._settings["timeout"],
                output_limit=self._settings["output_limit"],
                on_output=None if watcher is None else lambda line: watcher(request, line),
                on_chunk=None if log is None else lambda chunk: log(request, chunk),
            )
        except OSError as error:
            raise JobNotStartedError(f"{error.strerror}: {error.filename}") from error
        return self._judged(ended)

    def _judged(self, ended: Exit) -> JobResult:
        if ended.timed_out:
            return JobResult(False, ended.summary, f"timed out after {self._settings['timeout']:g} s")
        return JobResult(ended.problem is None, ended.summary, ended.problem)


def unready(settings: Mapping[str, Any], folder: Path) -> Iterator[Problem]:
    """Yield why the command could not be run from this folder."""
    directory = folder / (settings["directory"] or "")
    if not directory.is_dir():
        yield Problem(("directory",), f"is no directory; make {directory}", settings["directory"])
    missing = _missing_program({**settings, "directory": str(directory)}, _environment(settings, {})["PATH"])
    if missing is not None:
        yield Problem(("command",), missing)


def _environment(settings: Mapping[str, Any], own: Mapping[str, str | None]) -> dict[str, str]:
    written: dict[str, str | None] = settings["environment"]
    literal = {name: value for name, value in written.items() if value is not None}
    return process.environment_of({**literal, **own}, [name for name in written if name not in literal])


def _missing_program(settings: Mapping[str, Any], path: str) -> str | None:
    """Return what to do about a program that cannot be found, or None if it can."""
    program = settings["command"][0]
    place = os.path.join(settings["directory"] or "", program) if "/" in program else program
    if shutil.which(place, path=path) is not None:
        return None
    elsewhere = None if "/" in program else shutil.which(program)
    if elsewhere is None:
        return f"there is no program {program!r} on the path {path}"
    return (
        f"there is no program {program!r} on the path {path}; it is {elsewhere} on the PATH of the fleet:"
        " write that, or pass the PATH on with `environment: [PATH]`"
    )


def _variables(request: JobRequest) -> dict[str, str | None]:
    item, metadata = request.work_item, request.metadata
    return {
        "DUTIFUL_AGENT": request.agent.name,
        "DUTIFUL_SCHEDULE": request.schedule_name,
        # A prompt that is too long for a variable is on stdin only.
        "DUTIFUL_PROMPT": request.prompt,
        "DUTIFUL_WORK_ITEM": None if item is None else json.dumps(item._asdict()),
        "DUTIFUL_TRIGGER": None if metadata is None else metadata.trigger_type,
        "DUTIFUL_ATTEMPT": None if metadata is None else str(metadata.attempt),
        "DUTIFUL_ERROR": request.error,
    }
