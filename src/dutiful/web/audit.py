"""Who changed what: one JSON object a line, only ever added to."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from dutiful.ports import Clock

logger = logging.getLogger("dutiful.audit")


class AuditLog:
    """Every change as a log record of `dutiful.audit`, and as a line of a file if one is named."""

    def __init__(self, clock: Clock, path: str | Path | None = None) -> None:
        self._clock = clock
        # Appended by the system itself, so that processes that share the file never overwrite each other.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = None if path is None else os.open(path, flags, 0o600)

    def record(self, who: str, action: str, **what: Any) -> None:
        """Write down one change."""
        now: datetime = self._clock.now()
        entry = {
            "at": now.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "who": who,
            "action": action,
            **what,
        }
        line = json.dumps(entry, separators=(",", ":"))
        subject = what.get("schedule_id") or what.get("workflow_id") or ""
        logger.info("%s: %s %s", who, action, subject, extra={"audit": entry})
        if self._file is not None:
            # One call a line: lines of several processes do not mix.
            os.write(self._file, f"{line}\n".encode())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
