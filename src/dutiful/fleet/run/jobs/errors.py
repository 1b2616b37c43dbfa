"""What a job executor may raise besides anything else."""

from __future__ import annotations

from dutiful.core.errors import SchedulerError


class JobNotStartedError(SchedulerError):
    """The job certainly did not begin: its work item is given back instead of being reported as failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the job could not be started: {reason}", reason=reason)
