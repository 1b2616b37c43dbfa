"""The audit log: who asked for which change, and what came of it; one JSON object a line, only appended."""

from __future__ import annotations

import logging
from datetime import UTC
from typing import TYPE_CHECKING, Any

from dutiful.httpd.audit_chain import ChainedFile
from dutiful.httpd.errors import AuditUnavailableError
from dutiful.httpd.instants import rfc_3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dutiful.runtime.ports import Clock

logger = logging.getLogger("dutiful.audit")


class AuditLog:
    """Changes as log records of `dutiful.audit`, and as lines of a file if one is named.

    The file has a line of phase `asked` before a change, and one of phase `done` after it. Both have the same
    `request`. A change that was asked for and has no line `done` was refused, or a crash came between.
    """

    def __init__(self, clock: Clock, path: str | Path | None = None) -> None:
        """Open the file; raises InvalidArgumentError where that is not possible."""
        self._clock = clock
        self._file = None if path is None else ChainedFile(path)

    def intend(self, request: str, who: str, action: str, what: Sequence[Mapping[str, Any]]) -> None:
        """Write down a change before it is made, a line for each thing that changes.

        Raises AuditUnavailableError where the file cannot be written: the change must not be made then.
        """
        if self._file is not None:
            try:
                self._file.append(self._entries(request, who, action, "asked", what))
            except OSError as error:
                logger.error("the audit log cannot be written: %s", error)  # noqa: TRY400 - no bug of ours
                raise AuditUnavailableError from None

    def record(self, request: str, who: str, action: str, **what: Any) -> None:
        """Write down a change that was made. Where that fails the log says so: the intent is in the file."""
        [entry] = self._entries(request, who, action, "done", [what])
        ids = what.get("schedule_ids")
        subject = f"{len(ids)} schedules" if ids else what.get("schedule_id") or what.get("workflow_id") or ""
        logger.info("%s: %s %s", who, action, subject, extra={"audit": entry})
        if self._file is not None:
            try:
                self._file.append([entry])
            except OSError as error:
                logger.error("the audit log lacks a line: %s", error, extra={"audit": entry})  # noqa: TRY400

    def _entries(
        self, request: str, who: str, action: str, phase: str, what: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        at = rfc_3339(self._clock.now().astimezone(UTC))
        common = {"at": at, "who": who, "action": action, "phase": phase, "request": request}
        return [{**common, **each} for each in what]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
