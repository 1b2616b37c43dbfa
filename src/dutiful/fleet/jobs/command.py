"""Jobs that are commands: the prompt on stdin, the facts in the environment, the last line as summary."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any, TypeAlias

from dutiful import process
from dutiful.fleet.jobs.errors import JobNotStartedError
from dutiful.fleet.jobs.line import one_line
from dutiful.fleet.settings import Key, argv, names, seconds, text, whole_number
from dutiful.fleet.types import JobResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
# The same wherever the fleet was started from; whatever else a job needs is named in `environment`.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# One variable may be 128 KiB on Linux, its name included. A longer prompt is on stdin only.
_VARIABLE_MAX = 100_000
_ERROR_LINES = 3


class CommandJob:
    """Runs a command for every job."""

    def __init__(self, settings: Mapping[str, Any], on_output: OnOutput | None = None) -> None:
        self._settings = settings
        self._on_output = on_output

    async def execute(self, request: JobRequest) -> JobResult:
        """Return success if the command ends with 0 in time; its last line of output is the summary."""
        watcher = self._on_output
        environment = _inherited(self._settings["environment"]) | _told(request)
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
        summary = _last_lines(ended.stdout, 1)
        if ended.timed_out:
            return JobResult(False, summary, f"timed out after {self._settings['timeout']:g} s")
        if ended.code == 0:
            return JobResult(True, summary)
        problem = f"exit code {ended.code}" if ended.code > 0 else f"killed by signal {-ended.code}"
        said = _last_lines(ended.stderr, _ERROR_LINES)
        return JobResult(False, summary, f"{problem}: {said}" if said else problem)


def _inherited(allowed: list[str]) -> dict[str, str]:
    fixed = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/")}
    return fixed | {name: os.environ[name] for name in allowed if name in os.environ}


def _told(request: JobRequest) -> dict[str, str]:
    item = request.work_item
    told = {
        "DUTIFUL_AGENT": request.agent.name,
        "DUTIFUL_SCHEDULE": request.schedule_name,
        "DUTIFUL_PROMPT": request.prompt,
        "DUTIFUL_WORK_ITEM": None if item is None else json.dumps(item._asdict()),
    }
    return dict(_fitting(told))


def _fitting(told: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    for name, value in told.items():
        if value is not None and len(value.encode("utf-8", "replace")) <= _VARIABLE_MAX:
            # A prompt may quote anybody; no variable can hold a NUL or half a character.
            yield name, value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _last_lines(output: str, count: int) -> str | None:
    lines = [line.strip() for line in output.splitlines() if line.strip()][-count:]
    return one_line(" | ".join(lines))
