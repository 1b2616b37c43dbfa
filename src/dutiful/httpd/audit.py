"""Who changed what: one JSON object a line, only ever added to."""

from __future__ import annotations

import logging
from datetime import UTC
from typing import TYPE_CHECKING, Any

from dutiful.httpd.audit_chain import ChainedFile
from dutiful.httpd.instants import rfc_3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dutiful.runtime.ports import Clock

logger = logging.getLogger("dutiful.audit")


class AuditLog:
    """Every change as a log record of `dutiful.audit`, and as a line of a file if one is named."""

    def __init__(self, clock: Clock, path: str | Path | None = None) -> None:
        self._clock = clock
        self._file = None if path is None else ChainedFile(path)

    def record(self, who: str, action: str, **what: Any) -> None:
        """Write down one change."""
        subject = what.get("schedule_id") or what.get("workflow_id") or ""
        [entry] = self._write(who, action, [what])
        logger.info("%s: %s %s", who, action, subject, extra={"audit": entry})

    def record_all(self, who: str, action: str, schedules: Mapping[str, Any]) -> None:
        """Write down what was given of many schedules: a line each, and one record of the log for all."""
        what = [{"schedule_id": schedule_id, "given": given} for schedule_id, given in schedules.items()]
        [first, *_] = self._write(who, action, what)
        entry = {"at": first["at"], "who": who, "action": action, "schedule_ids": [*schedules]}
        logger.info("%s: %s %d schedules", who, action, len(schedules), extra={"audit": entry})

    def _write(self, who: str, action: str, what: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        common = {"at": rfc_3339(self._clock.now().astimezone(UTC)), "who": who, "action": action}
        entries = [{**common, **each} for each in what]
        if self._file is not None:
            self._file.append(entries)
        return entries

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
