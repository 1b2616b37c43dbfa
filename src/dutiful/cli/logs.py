"""Log formats of a service in the foreground: a line for people, or a JSON object for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_LEVELS = {"WARNING": "warning: ", "ERROR": "error: ", "CRITICAL": "error: "}


def log_to_stdout(form: str, level: int = logging.INFO) -> None:
    """Log dutiful's records to standard output, as `text` or as `json`."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLine() if form == "json" else TextLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("dutiful").setLevel(level)


class TextLine(logging.Formatter):
    """The time, the level from WARNING on, and the message on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows on lines of its own."""
        at = self.formatTime(record, "%H:%M:%S")
        event = getattr(record, "event", {})
        message = _in_words(event) if "schedule" in event else record.getMessage()
        line = f"{at} {_LEVELS.get(record.levelname, '')}{one_line(message)}"
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class JsonLine(logging.Formatter):
    """One JSON object per record: its message and its facts, if it has any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in ("event", "audit"):
            if (facts := getattr(record, name, None)) is not None:
                entry[name] = facts
        if record.exc_info is not None:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _in_words(event: dict[str, Any]) -> str:
    """Return a decision about a schedule in words: what, which tick and why, without usual values."""
    parts = [f"{event['schedule']} {event['name']}"]
    if "runAt" in event:
        day, _, time = event["runAt"].partition("T")
        parts.append(f"tick {day} {time[:8]}Z")
    parts += [f"{event['ticks']} ticks"] if event.get("ticks", 1) > 1 else []
    parts += [f"attempt {event['attempt']}"] if event.get("attempt", 1) > 1 else []
    parts += [event["trigger"]] if event.get("trigger", "schedule") != "schedule" else []
    parts += [str(event[name]) for name in ("reason", "error", "detail") if event.get(name)]
    return ", ".join(parts)


def one_line(text: str) -> str:
    """Return a text without line breaks and terminal control characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
