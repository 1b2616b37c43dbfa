"""Runs workflows by a command: the DAG on stdin, the meta in the environment, the exit code as outcome."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

from dutiful import process
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Failed, Outcome, Succeeded, Unreached

if TYPE_CHECKING:
    from dutiful.launchers.executor import ExecutorSettings, Meta

_TIMEOUT = 3600.0


class CommandExecutor:
    """Runs a command for every run and waits for its end."""

    descriptors = process.DESCRIPTORS
    in_process = True

    def __init__(self, argv: list[str], settings: ExecutorSettings) -> None:
        self._argv, self._timeout = argv, settings.timeout or _TIMEOUT

    @classmethod
    def parse(cls, rest: str, settings: ExecutorSettings) -> CommandExecutor:
        """Return the executor of `PROGRAM ARGS`, read as a shell would; raises InvalidArgumentError."""
        try:
            argv = shlex.split(rest)
        except ValueError as error:
            raise InvalidArgumentError("executor", rest, f"the quotes do not match ({error})") from None
        if not argv:
            raise InvalidArgumentError("executor", rest, "write command:PROGRAM ARGS")
        if _missing(argv[0]):
            raise InvalidArgumentError("executor", argv[0], "there is no such program; write its whole path")
        return cls(argv, settings)

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return Succeeded with the last line if the command ends with 0 in time, else Failed.

        A command that could not be started was not run: that is Unreached, and may be tried again.
        """
        if _missing(self._argv[0]):
            return Unreached(f"there is no program {self._argv[0]!r}")
        try:
            ended = await process.run(
                self._argv,
                environment=process.environment_of(_told(meta)),
                stdin=json.dumps(dag).encode(),
                time_limit=self._timeout,
            )
        except OSError as error:
            return Unreached(f"{self._argv[0]!r} could not be started: {error.strerror}")
        if ended.timed_out:
            return Failed(f"timed out after {self._timeout:g} s")
        return Succeeded(ended.summary) if ended.problem is None else Failed(ended.problem)


def _missing(program: str) -> bool:
    return shutil.which(program, path=process.environment_of({})["PATH"]) is None


def _told(meta: Meta) -> dict[str, str | None]:
    """Return the meta as variables; labels and input are JSON."""
    told = meta.as_json() | {"labels": json.dumps({**meta.labels}), "input": json.dumps(meta.input)}
    return {f"DUTIFUL_{name.upper()}": str(value) for name, value in told.items()}
