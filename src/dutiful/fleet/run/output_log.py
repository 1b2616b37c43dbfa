"""The output of jobs, stored in one file per run under `logs/AGENT/SCHEDULE/` of the state directory.

A file is named NUMBER.RUN_AT.KIND.log: the number counts the runs of the schedule, and the rest is the key of
the run in the history. Each file is bounded, and the oldest files are deleted when there
are too many.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from dutiful.process.output_log import OutputLog, kept_in, older_half

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dutiful.core.cadence import Instant

FOLDER = "logs"
_FILE = re.compile(r"([0-9]+)\.([0-9]+)\.(schedule|manual)\.log")


class LogLimits(NamedTuple):
    """How many runs of a schedule keep their output, and how many bytes of each."""

    runs: int = 20
    bytes: int = 1024 * 1024


class RunLog(NamedTuple):
    """The stored output of one run; `number` counts the runs of its schedule."""

    number: int
    run_at: Instant
    kind: str
    path: Path

    def read(self) -> bytes:
        """Return the stored output."""
        return kept_in(self.path)


def logs_of(state_dir: Path, agent: str, schedule: str) -> list[RunLog]:
    """Return the stored outputs of a schedule, the latest first."""
    return sorted(_logs_in(state_dir / FOLDER / agent / schedule), reverse=True)


def _logs_in(folder: Path) -> Iterator[RunLog]:
    with suppress(OSError):
        for path in folder.iterdir():
            if match := _FILE.fullmatch(path.name):
                yield RunLog(int(match[1]), int(match[2]), match[3], path)


class OutputLogs:
    """Writes the output of jobs. On a full or read-only disk the output is lost, never the job."""

    def __init__(self, state_dir: Path, limits: LogLimits) -> None:
        self._state_dir, self.limits = state_dir, limits

    def open(self, agent: str, schedule: str, run_at: Instant, kind: str) -> OutputLog | None:
        """Return the log of a run, which its retries share; None if outputs are not stored."""
        if not self.limits.runs:
            return None
        folder = self._state_dir / FOLDER / agent / schedule
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            known = sorted(_logs_in(folder))
            own = next((log for log in known if (log.run_at, log.kind) == (run_at, kind)), None)
            if own is None:
                number = known[-1].number + 1 if known else 1
                own = RunLog(number, run_at, kind, folder / f"{number}.{run_at}.{kind}.log")
                for old in known[: max(0, len(known) + 1 - self.limits.runs)]:
                    older_half(old.path).unlink(missing_ok=True)
                    old.path.unlink(missing_ok=True)
            return OutputLog(own.path, self.limits.bytes // 2)
        except OSError:
            return None
