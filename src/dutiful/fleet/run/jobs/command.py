"""Jobs that are commands: the prompt on stdin, the facts in the environment, the last line as summary."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, TypeAlias

from dutiful import process
from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.file.settings import Key, argv, names, seconds, text, whole_number
from dutiful.fleet.types import JobResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dutiful.fleet.types import JobRequest
    from dutiful.process import Exit

    OnOutput: TypeAlias = Callable[[JobRequest, str], None]

KEYS = {
    "command": Key(argv, required=True),
    "timeout": Key(seconds, 3600.0),
    "output_limit": Key(whole_number(1024, 64 * 1024 * 1024), process.OUTPUT_LIMIT),
    "environment": Key(names, []),
    "directory": Key(text),
}


class CommandJob:
    """Runs a command for every job."""

    def __init__(self, settings: Mapping[str, Any], on_output: OnOutput | None = None) -> None:
        self._settings = settings
        self._on_output = on_output

    async def execute(self, request: JobRequest) -> JobResult:
        """Return success if the command ends with 0 in time; its last line of output is the summary."""
        watcher = self._on_output
        environment = process.environment_of(_told(request), self._settings["environment"])
        self._require_program(environment["PATH"])
        try:
            ended = await process.run(
                self._settings["command"],
                environment=environment,
                stdin=request.prompt.encode("utf-8", "replace"),
                directory=self._settings["directory"],
                time_limit=self._settings["timeout"],
                output_limit=self._settings["output_limit"],
                on_output=None if watcher is None else lambda line: watcher(request, line),
            )
        except OSError as error:
            raise JobNotStartedError(f"{error.strerror}: {error.filename}") from error
        return self._judged(ended)

    def _require_program(self, path: str) -> None:
        program = self._settings["command"][0]
        place = os.path.join(self._settings["directory"] or "", program) if "/" in program else program
        if shutil.which(place, path=path) is None:
            raise JobNotStartedError(f"there is no program {program!r} on the path {path}")

    def _judged(self, ended: Exit) -> JobResult:
        if ended.timed_out:
            return JobResult(False, ended.summary, f"timed out after {self._settings['timeout']:g} s")
        return JobResult(ended.problem is None, ended.summary, ended.problem)


def _told(request: JobRequest) -> dict[str, str | None]:
    item = request.work_item
    return {
        "DUTIFUL_AGENT": request.agent.name,
        "DUTIFUL_SCHEDULE": request.schedule_name,
        # A prompt that is too long for a variable is on stdin only.
        "DUTIFUL_PROMPT": request.prompt,
        "DUTIFUL_WORK_ITEM": None if item is None else json.dumps(item._asdict()),
    }
