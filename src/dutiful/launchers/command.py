"""Commands: the executor `command:PROGRAM ARGS`, and the way every door runs a program."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful import process
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Failed, Outcome, Succeeded, Unreached

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dutiful.launchers.executor import ExecutorSettings, Meta
    from dutiful.process import Exit

_TIMEOUT = 3600.0


class NotStartedError(Exception):
    """The program could not be started, so nothing of it has run; the text says why."""


class Command(NamedTuple):
    """A program with its arguments, and its limits."""

    argv: Sequence[str]
    timeout: float = _TIMEOUT
    environment: Mapping[str, str | None] = MappingProxyType({})
    """Variables beside those of a run; a variable without a value is passed on from this process."""
    directory: str | None = None
    output_limit: int = process.OUTPUT_LIMIT

    def variables(self, told: Mapping[str, str | None]) -> dict[str, str]:
        """Return the whole environment of a run that gets the variables `told`."""
        literal = {name: value for name, value in self.environment.items() if value is not None}
        inherited = [name for name in self.environment if name not in literal]
        return process.environment_of({**literal, **told}, inherited)

    def missing(self) -> str | None:
        """Return an error text if there is no such program or it may not be executed, else None."""
        program, path = self.argv[0], self.variables({})["PATH"]
        if "/" in program:
            place = os.path.join(self.directory or "", program)
            found, where = shutil.which(place), ""
            if found is None and os.path.isfile(place):
                return f"the program {program!r} may not be executed; run: chmod +x {shlex.quote(place)}"
        else:
            found, where = shutil.which(program, path=path), f" on the path {path}"
        return None if found is not None else f"there is no program {program!r}{where}"

    async def run(
        self,
        told: Mapping[str, str | None],
        stdin: bytes,
        on_output: Callable[[str], None] | None = None,
        on_chunk: Callable[[bytes], None] | None = None,
    ) -> Exit:
        """Return how a run of the command ended; raises NotStartedError.

        `on_output` gets the latest printed line, `on_chunk` all bytes.
        """
        if (missing := self.missing()) is not None:
            raise NotStartedError(missing)
        try:
            return await process.run(
                self.argv,
                environment=self.variables(told),
                stdin=stdin,
                directory=self.directory,
                time_limit=self.timeout,
                output_limit=self.output_limit,
                on_output=on_output,
                on_chunk=on_chunk,
            )
        except OSError as error:
            place = "" if error.filename is None else f": {error.filename}"
            problem = f"{self.argv[0]!r} could not be started: {error.strerror}{place}"
            raise NotStartedError(problem) from error


class CommandExecutor:
    """Runs a command for every run: the DAG on stdin, the meta in the environment."""

    descriptors = process.DESCRIPTORS
    in_process = True

    def __init__(self, argv: list[str], settings: ExecutorSettings) -> None:
        self._command, self._outputs = Command(argv, settings.timeout or _TIMEOUT), settings.outputs

    @classmethod
    def parse(cls, rest: str, settings: ExecutorSettings) -> CommandExecutor:
        """Return the executor of `PROGRAM ARGS`; raises InvalidArgumentError."""
        argv = cls.split(rest)
        if (problem := Command(argv).missing()) is not None:
            absent = "there is no such program; write its whole path"
            raise InvalidArgumentError("executor", argv[0], problem if os.path.isfile(argv[0]) else absent)
        return cls(argv, settings)

    @staticmethod
    def split(rest: str) -> list[str]:
        """Return `PROGRAM ARGS` as a shell would read them; raises InvalidArgumentError."""
        try:
            argv = shlex.split(rest)
        except ValueError as error:
            raise InvalidArgumentError("executor", rest, f"the quotes do not match ({error})") from None
        if not argv:
            raise InvalidArgumentError("executor", rest, "write command:PROGRAM ARGS")
        return argv

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return Succeeded with the last line if the command ends with 0 in time, else Failed.

        A command that could not be started has not run: that is Unreached, which may be retried.
        """
        log = None if self._outputs is None else self._outputs.open(meta.idempotency_key)
        on_chunk = None if log is None else log.write
        try:
            ended = await self._command.run(_told(meta), json.dumps(dag).encode(), on_chunk=on_chunk)
        except NotStartedError as error:
            return Unreached(str(error))
        finally:
            if log is not None:
                log.close()
        return Succeeded(ended.summary) if ended.problem is None else Failed(ended.problem)


def _told(meta: Meta) -> dict[str, str | None]:
    """Return the meta as variables; labels and input are JSON."""
    told = meta.as_json() | {"labels": json.dumps({**meta.labels}), "input": json.dumps(meta.input)}
    return {f"DUTIFUL_{name.upper()}": str(value) for name, value in told.items()}
