"""The clock: the one place that reads the wall clock."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """The host's clock."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return datetime.now(UTC)
