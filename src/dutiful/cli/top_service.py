"""A running service as a source of `dutiful top`."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from dutiful.cli.api import DEFAULT_URL, ask, ask_about, ask_if_changed, path_of
from dutiful.cli.output import counted
from dutiful.cli.top_frame import VIEWS, Row, Shown
from dutiful.runtime.clock import SystemClock


class ServiceSource:
    """A running service. While nothing changes there, a look costs it one small request."""

    first_view = "needs"
    views = VIEWS
    takes_note = True

    def __init__(self) -> None:
        self._clock = SystemClock()
        # The last summary, when it was read, and the lines that were asked for with it.
        self._found: dict[str, Any] = {}
        self._read_at = 0.0
        self._asked: tuple[str, str, int] | None = None
        self._lines: list[Row] = []

    def look(self, view: str, find: str, limit: int) -> Shown:
        """Return the summary of the service, and the schedules of a view."""
        is_new, asked = self._read(), (view, find, limit)
        if is_new or asked != self._asked:
            query = {"view": view, "find": find or None, "limit": limit}
            self._lines = [_line(line) for line in ask("GET", "/summary/schedules", query)["schedules"]]
            self._asked = asked
        found = self._found
        now = _read(found["now"]) + timedelta(seconds=self._clock.monotonic() - self._read_at)
        paused = f", {found['paused']:,} paused" if found["paused"] else ""
        return Shown(
            _url().partition("://")[2].rstrip("/"),
            now.astimezone(UTC),
            health(found, now),
            found["health"]["ok"],
            counted(found["schedules"], "schedule") + paused,
            self._lines,
            {"needs": found["needs"], "running": found["running"], "all": found["schedules"]},
            found["account"],
            found["day"],
        )

    def _read(self) -> bool:
        """Read the summary, and return whether it has changed."""
        answer, headers = ask_if_changed("/summary", self._found.get("revision"))
        if answer is None:
            self._found["health"]["last_pass_at"] = headers.get("dutiful-last-pass")
            return False
        self._found, self._read_at = answer, self._clock.monotonic()
        return True

    def why(self, row: Row) -> str:
        """Return the verdict on the last tick, or on the next one if there was none yet."""
        at = row.last or row.next
        if at is None:
            return f"{row.id} has no tick to explain"
        return str(ask_about("GET", row.id, "explain", query={"at": at.isoformat()})["text"])

    def run_now(self, row: Row) -> str:
        """Trigger the schedule."""
        answer = ask_about("POST", row.id, "trigger")
        return f"{row.id} runs as {answer['idempotency_key']}"

    def pause(self, row: Row, note: str | None = None) -> str:
        """Pause or resume the schedule."""
        paused = row.state != "paused"
        ask("POST", "/schedules/pause", body={"schedule_id": row.id, "paused": paused, "note": note})
        return f"{row.id} is {'paused' if paused else 'active'}"

    def open_page(self, row: Row) -> str:
        """Open the page of the schedule."""
        return _opened(path_of(row.id))

    def edit(self, row: Row) -> str:
        """Open the editor of the schedule."""
        return _opened(path_of(row.id, "edit"))


def health(found: dict[str, Any], now: datetime) -> str:
    """Return whether the service works, who leads, and when it has last passed."""
    known = found["health"]
    if not known["ok"]:
        return f"not working: {known['reason']}"
    parts = ["working", *_leading(found["leaders"], found["standby"])]
    if known["last_pass_at"] is not None:
        age = max(0.0, (now - _read(known["last_pass_at"])).total_seconds())
        parts.append(f"pass {age:.1f} s ago")
    return ", ".join(parts)


def _leading(leaders: list[str], standby: int) -> list[str]:
    if not leaders:
        return []
    said = f"{leaders[0]} leads" if len(leaders) == 1 else f"{len(leaders)} workers lead"
    return [said, f"{standby} stand{'s' * (standby == 1)} by"] if standby else [said]


def _opened(path: str) -> str:
    url = _url().rstrip("/") + "/ui" + path
    click.launch(url)
    return url


def _url() -> str:
    return os.environ.get("DUTIFUL_URL") or DEFAULT_URL


def _line(line: dict[str, Any]) -> Row:
    place = line["timezone"].rpartition("/")[2].replace("_", " ")
    return Row(
        line["schedule_id"],
        line["state"],
        f"{line['meaning']}, {place}",
        line["past"],
        line["to_come"],
        None if line["last_at"] is None else _read(line["last_at"]),
        None if line["next_run_at"] is None else _read(line["next_run_at"]),
        line["note"],
    )


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text)
