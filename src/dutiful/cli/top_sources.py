"""The sources of `dutiful top`: a service over HTTP, a fleet through its socket, or a library's store."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import click

from dutiful.cli.api import DEFAULT_URL, ask, ask_about, path_of
from dutiful.cli.output import counted
from dutiful.cli.top_frame import Row, Shown
from dutiful.core.errors import quoted
from dutiful.declarative.inspection import open_tasks
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The states of each view, for sources that list everything at once.
_STATES = {
    "needs": ("failed", "skipped", "aside"),
    "running": ("running",),
    "next": None,
    "all": None,
}


class Source(Protocol):
    """A source to watch. All methods block, and raise ClickException or DutifulError."""

    first_view: str

    def look(self, view: str, find: str, limit: int) -> Shown:
        """Return the present facts, with at most `limit` schedules of a view."""

    def why(self, row: Row) -> str:
        """Return why the last tick of a schedule ran or did not, or when it runs next."""

    def run_now(self, row: Row) -> str:
        """Request a run of the schedule now."""

    def pause(self, row: Row) -> str:
        """Pause a schedule, or resume it if it is paused."""

    def open_page(self, row: Row) -> str:
        """Open the page of a schedule in the browser."""


class ServiceSource:
    """A running service."""

    first_view = "needs"

    def look(self, view: str, find: str, limit: int) -> Shown:
        """Return the summary of the service."""
        found = ask("GET", "/summary")
        lines = ask("GET", "/summary/schedules", {"view": view, "find": find or None, "limit": limit})
        now, health = _read(found["now"]), found["health"]
        paused = f", {found['paused']:,} paused" if found["paused"] else ""
        return Shown(
            _url().partition("://")[2].rstrip("/"),
            now.astimezone(UTC),
            _health(health, now),
            health["ok"],
            f"{found['schedules']:,} schedule{'s' * (found['schedules'] != 1)}{paused}",
            [_line(line) for line in lines["schedules"]],
            {"needs": found["needs"], "running": found["running"], "all": found["schedules"]},
            found["account"],
            found["day"],
        )

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

    def pause(self, row: Row) -> str:
        """Pause or resume the schedule."""
        paused = row.state != "paused"
        ask("POST", "/schedules/pause", body={"schedule_id": row.id, "paused": paused})
        return f"{row.id} is {'paused' if paused else 'active'}"

    def open_page(self, row: Row) -> str:
        """Open the page of the schedule."""
        url = _url().rstrip("/") + "/ui" + path_of(row.id)
        click.launch(url)
        return url


def _url() -> str:
    return os.environ.get("DUTIFUL_URL") or DEFAULT_URL


def _health(health: dict[str, Any], now: datetime) -> str:
    if not health["ok"]:
        return f"not working: {health['reason']}"
    if health["last_pass_at"] is None:
        return "working"
    return f"working, pass {max(0.0, (now - _read(health['last_pass_at'])).total_seconds()):.1f} s ago"


def _line(line: dict[str, Any]) -> Row:
    place = line["timezone"].rpartition("/")[2].replace("_", " ")
    return Row(
        line["schedule_id"],
        line["state"],
        f"{line['meaning']}, {place}",
        line["past"],
        line["to_come"],
        _read_or_none(line["last_at"]),
        _read_or_none(line["next_run_at"]),
        line["note"],
    )


class StoreSource:
    """The tasks of a library, read from its store."""

    first_view = "all"

    def __init__(self, store: str, namespace: str) -> None:
        self._store, self._namespace = store, namespace

    def look(self, view: str, find: str, limit: int) -> Shown:
        """Return the matching tasks."""
        views, leader = self._ask(_tasks_and_leader)
        rows = [_task(task) for task in views]
        health = "no scheduler runs" if leader is None else f"run by process {leader.pid}"
        now = SystemClock().now()
        counts = f"{len(rows):,} task{'s' * (len(rows) != 1)}"
        return Shown(
            self._store,
            now.astimezone(SystemClock().timezone),
            health,
            leader is not None,
            counts,
            _in_view(rows, view, find)[:limit],
            _counts(rows),
        )

    def why(self, row: Row) -> str:
        """Return the newest row of the ledger, if there is one."""
        rows = self._ask(lambda known: known.history(row.id, 1))
        if not rows:
            return f"{row.id} has not run yet"
        last = rows[0]
        text = f"{row.id} at {last['run_at']}: {last['status']} {last['reason'] or ''}".rstrip()
        return f"{text}, {last['detail']}" if last["detail"] else text

    def run_now(self, row: Row) -> str:
        """Request a run."""
        self._ask(lambda known: known.run_now(row.id))
        return f"asked for a run of {row.id}"

    def pause(self, row: Row) -> str:
        """Return a refusal: a library has no pause."""
        return f"{row.id} is declared by its program; remove it from the registrations to stop it"

    def open_page(self, row: Row) -> str:
        """Return that there is no page."""
        return f"a library has no pages; `dutiful tasks show {quoted(row.id)}` shows everything"

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        async def asked() -> Any:
            async with open_tasks(self._store, self._namespace) as known:
                return await question(known)

        return asyncio.run(asked())


async def _tasks_and_leader(known: Any) -> tuple[list[dict[str, Any]], Any]:
    return await known.all(), await known.leader()


def _task(view: dict[str, Any]) -> Row:
    if "damage" in view:
        return Row(view["name"], "aside", "", (), 0, None, None, view["damage"])
    ends = [(view["last_success_at"], "ran"), (view["last_failure_at"], "failed")]
    known = sorted((_read(at), state) for at, state in ends if at is not None)
    last, state = known[-1] if known else (None, "to_come")
    state = "aside" if view["quarantine"] else "running" if view["running_since"] else state
    note = view["quarantine"] or (f"retry: {view['error']}" if view["retry_at"] else "")
    past = [ended for _, ended in known]
    return Row(view["name"], state, view["cron"], past, int(view["next"] is not None), last, _due(view), note)


def _due(view: dict[str, Any]) -> datetime | None:
    return min(filter(None, map(_read_or_none, (view["retry_at"], view["next"]))), default=None)


class FleetSource:
    """The fleet of a file, running or stopped."""

    first_view = "all"

    def __init__(self, path: Path) -> None:
        self._path = path

    def look(self, view: str, find: str, limit: int) -> Shown:
        """Return the matching schedules of the fleet."""
        status = self._ask("status")
        rows = [_fleet_row(each) for each in self._ask("schedules", agent=None)]
        running = sum(agent["running"] for agent in status["agents"])
        agents = len(status["agents"])
        clock = SystemClock()
        return Shown(
            str(self._path),
            clock.now().astimezone(clock.timezone),
            str(status["status"]),
            status["stall"] is None and status["problem"] is None,
            f"{counted(agents, 'agent')}, {counted(running, 'job')} running",
            _in_view(rows, view, find)[:limit],
            _counts(rows),
        )

    def why(self, row: Row) -> str:
        """Return the fleet's own explanation, as of now."""
        at = row.last or SystemClock().now()
        return str(self._ask("explain", **_named(row), at=at.isoformat())["text"])

    def run_now(self, row: Row) -> str:
        """Request a run with the next pass."""
        self._ask("run", **_named(row), prompt=None)
        return f"{row.id} runs with the next pass"

    def pause(self, row: Row) -> str:
        """Disable or enable the schedule."""
        ask_for = "enable" if row.state == "paused" else "disable"
        self._ask(ask_for, **_named(row))
        return f"{row.id} is {ask_for}d"

    def open_page(self, row: Row) -> str:
        """Return the commands that show more, as a fleet has no page here."""
        return f"`dutiful fleet history {quoted(row.id)}` and `dutiful fleet logs` show more of it"

    def _ask(self, question: str, **about: Any) -> Any:
        # Imported late: only this source needs the packages of the extra `fleet`.
        from dutiful.cli.fleet_client import asked

        return asked(self._path, {"ask": question, **about})


def _named(row: Row) -> dict[str, str]:
    agent, _, schedule = row.id.partition("/")
    return {"agent": agent, "schedule": schedule}


def _fleet_row(each: dict[str, Any]) -> Row:
    # Imported late, as in `_ask`.
    from dutiful.fleet.types import ScheduleSkipReason

    last, error = _read_or_none(each["last_run_at"]), each["problem"] or each["last_error"]
    state = "to_come" if last is None else "failed" if error else "ran"
    state = {"running": "running", "disabled": "paused"}.get(each["status"], state)
    past = [] if last is None else ["failed" if error else "ran"]
    # A schedule that is not due yet needs no note: its next time says so.
    reason = each["skip_reason"] or "not_due"
    note = error or (ScheduleSkipReason(reason).for_people if reason != "not_due" else "")
    due = _read_or_none(each["next_run_at"])
    name = f"{each['agent']}/{each['schedule']}"
    return Row(name, state, each["type"], past, int(due is not None), last, due, note)


def _in_view(rows: list[Row], view: str, find: str) -> list[Row]:
    states = _STATES[view]
    found = [row for row in rows if find in row.id and (states is None or row.state in states)]
    if view == "next":
        timed = sorted((row.next, row.id, row) for row in found if row.next is not None)
        return [row for _, _, row in timed]
    return found


def _counts(rows: list[Row]) -> dict[str, int | None]:
    return {view: len(_in_view(rows, view, "")) for view in ("needs", "running", "all")}


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _read_or_none(text: str | None) -> datetime | None:
    return None if text is None else _read(text)
