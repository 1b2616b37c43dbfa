"""The end of a pause in a form: one of the presets, or a time of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dutiful.web.pages import words
from dutiful.web.pages.why import parse_time

if TYPE_CHECKING:
    from datetime import tzinfo

_NEXT_DAY = "tomorrow 09:00"


def presets(zone: str) -> dict[str, str]:
    """Return the ends that the form offers for a zone: the value of each, and its name."""
    place = words.place(zone)
    tomorrow = f"{_NEXT_DAY} UTC" if place == "UTC" else f"{_NEXT_DAY} in {place}"
    return {"": "somebody resumes it", "hour": "one hour from now", "tomorrow": tomorrow}


def asked_end(form: dict[str, str], zone: tzinfo, now: datetime) -> tuple[datetime | None, str]:
    """Return when the pause of a form ends, None without an end, and the problem with the form or "".

    A time of its own is a wall time in the zone, and counts before a preset. One that a clock change skips is
    the instant as long after the change; one that comes twice is the first of the two.
    """
    own, preset = form.get("until_at", "").strip(), form.get("until", "")
    if not own and preset == "hour":
        return now + timedelta(hours=1), ""
    if not own and preset != "tomorrow":
        return None, ""
    end, problem = parse_time(own or _NEXT_DAY, zone, now)
    if end is None:
        return None, problem
    end = end.astimezone(UTC)
    return (end, "") if end > now else (None, "A pause must end in the future: choose a later time.")
