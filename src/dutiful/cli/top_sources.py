"""The sources of `dutiful top`: a running service, a fleet through its socket, or a library's store."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from dutiful.cli.api import DEFAULT_URL, ask, ask_about, ask_if_changed, path_of
from dutiful.cli.output import counted
from dutiful.cli.tasks import ask_tasks, listed
from dutiful.cli.top_frame import VIEWS, Row, Shown
from dutiful.core.errors import quoted
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from dutiful.declarative.inspection import Tasks
    from dutiful.runtime.ports import Clock

T = TypeVar("T")
_FLEET_VIEWS = {**VIEWS, "fleet": "fleet"}
_NO_SCHEDULE = "This is an agent; its schedules are in the other views."
# The states of each view, for sources that list everything at once.
_STATES = {
    "needs": ("failed", "skipped", "aside"),
    "running": ("running",),
    "next": None,
    "all": None,
}


class ServiceSource:
    """A running service. While nothing changes, a query costs the service one small request."""

    first_view = "needs"
    # The names of its views, in their order.
    views = VIEWS
    # Whether a pause has a note.
    takes_note = True

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
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
        since = timedelta(seconds=self._clock.monotonic() - self._read_at)
        now = datetime.fromisoformat(found["now"]) + since
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
        age = max(0.0, (now - datetime.fromisoformat(known["last_pass_at"])).total_seconds())
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
        _read(line["last_at"]),
        _read(line["next_run_at"]),
        line["note"],
    )


class StoreSource:
    """The tasks of a library, read from its store."""

    first_view = "all"
    views = VIEWS
    takes_note = False

    def __init__(self, store: str, namespace: str) -> None:
        self._store, self._namespace = store, namespace

    def look(self, view: str, find: str, limit: int) -> Shown:
        """Return the matching tasks."""
        views, leader = self._ask(listed)
        rows = [_task(task) for task in views]
        health = "no scheduler runs" if leader is None else f"run by process {leader.pid}"
        now = SystemClock().now()
        counts = counted(len(rows), "task")
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

    def pause(self, row: Row, note: str | None = None) -> str:  # noqa: ARG002
        """Return a refusal: a library has no pause."""
        return f"{row.id} is declared by its program; remove it from the registrations to stop it"

    def open_page(self, row: Row) -> str:
        """Return that there is no page."""
        return f"a library has no pages; `dutiful tasks show {quoted(row.id)}` shows everything"

    def edit(self, row: Row) -> str:
        """Return where a task is edited."""
        return f"{row.id} is declared by its program; edit its registration there"

    def _ask(self, question: Callable[[Tasks], Awaitable[T]]) -> T:
        return ask_tasks(self._store, self._namespace, question)


def _task(view: dict[str, Any]) -> Row:
    if "damage" in view:
        return Row(view["name"], "aside", "", (), 0, None, None, view["damage"])
    ends = [(view["last_success_at"], "ran"), (view["last_failure_at"], "failed")]
    known = sorted((datetime.fromisoformat(at), state) for at, state in ends if at is not None)
    last, state = known[-1] if known else (None, "to_come")
    state = "aside" if view["quarantine"] else "running" if view["running_since"] else state
    note = view["quarantine"] or (f"retry: {view['error']}" if view["retry_at"] else "")
    past = [ended for _, ended in known]
    return Row(view["name"], state, view["cron"], past, int(view["next"] is not None), last, _due(view), note)


def _due(view: dict[str, Any]) -> datetime | None:
    return min(filter(None, map(_read, (view["retry_at"], view["next"]))), default=None)


class FleetSource:
    """The fleet of a file, running or stopped."""

    first_view = "all"
    views = _FLEET_VIEWS
    takes_note = False

    def __init__(self, path: Path) -> None:
        self._path = path

    def look(self, view: str, find: str, limit: int) -> Shown:
        """Return the matching schedules of the fleet."""
        status = self._ask("status")
        schedules = [_fleet_row(each) for each in self._ask("schedules", agent=None)]
        agents = [_agent_row(each, schedules) for each in status["agents"]]
        running = sum(agent["running"] for agent in status["agents"])
        if view == "fleet":
            rows = [row for row in agents if find in row.id][:limit]
        else:
            rows = self._with_past(_in_view(schedules, view, find)[:limit])
        clock = SystemClock()
        return Shown(
            str(self._path),
            clock.now().astimezone(clock.timezone),
            str(status["status"]),
            status["stall"] is None and status["problem"] is None,
            f"{counted(len(agents), 'agent')}, {counted(running, 'job')} running",
            rows,
            {**_counts(schedules), "fleet": len(agents)},
        )

    def why(self, row: Row) -> str:
        """Return the fleet's own explanation, as of now."""
        if _is_agent(row):
            return _NO_SCHEDULE
        at = row.last or SystemClock().now()
        return str(self._ask("explain", **_named(row), at=at.isoformat())["text"])

    def run_now(self, row: Row) -> str:
        """Request a run with the next pass."""
        if _is_agent(row):
            return _NO_SCHEDULE
        self._ask("run", **_named(row), prompt=None)
        return f"{row.id} runs with the next pass"

    def pause(self, row: Row, note: str | None = None) -> str:  # noqa: ARG002
        """Disable or enable the schedule, or all of an agent."""
        ask_for = "enable" if row.state == "paused" else "disable"
        self._ask(ask_for, **_named(row))
        return f"{row.id} is {ask_for}d"

    def open_page(self, row: Row) -> str:
        """Return the commands that show more, as a fleet has no page here."""
        return f"`dutiful fleet history {quoted(row.id)}` and `dutiful fleet logs` show more of it"

    def edit(self, row: Row) -> str:
        """Return the file in which the schedule is edited."""
        return f"{row.id} is in {self._path}; the fleet takes up what you save there"

    def _with_past(self, rows: list[Row]) -> list[Row]:
        """Return rows with their last ticks, from the history."""
        past = self._ask("past", ids=[row.id for row in rows])
        return [row._replace(past=past.get(row.id, ())) for row in rows]

    def _ask(self, question: str, **about: Any) -> Any:
        # Imported late: only this source needs the packages of the extra `fleet`.
        from dutiful.cli.fleet_client import asked

        return asked(self._path, {"ask": question, **about})


# All methods block, and raise ClickException or DutifulError.
Source: TypeAlias = ServiceSource | StoreSource | FleetSource


def _named(row: Row) -> dict[str, str | None]:
    agent, _, schedule = row.id.partition("/")
    return {"agent": agent, "schedule": schedule or None}


def _is_agent(row: Row) -> bool:
    return "/" not in row.id


def _agent_row(agent: dict[str, Any], schedules: list[Row]) -> Row:
    """Return an agent with its places and counts; it is paused if all of its schedules are."""
    own = {row.state for row in schedules if row.id.startswith(f"{agent['name']}/")}
    state = "failed" if agent["failing"] else "ran" if agent["done"] else "to_come"
    state = "running" if agent["running"] else "paused" if own == {"paused"} else state
    places = f"{agent['running']} of {agent['max_concurrent']} places taken"
    counts = f"{agent['done']:,} done, {agent['failed']:,} failed"
    failing = f", {counted(agent['failing'], 'schedule')} failing" if agent["failing"] else ""
    note = f"{places}, {counted(agent['schedules'], 'schedule')}, {counts}{failing}"
    return Row(agent["name"], state, "", (), 0, None, None, note)


def _fleet_row(each: dict[str, Any]) -> Row:
    # Imported late, as in `_ask`.
    from dutiful.fleet.types import ScheduleSkipReason

    last, error = _read(each["last_run_at"]), each["problem"] or each["last_error"]
    state = "to_come" if last is None else "failed" if error else "ran"
    state = {"running": "running", "disabled": "paused"}.get(each["status"], state)
    # A schedule that is not due yet needs no note: its next time says so.
    reason = each["skip_reason"] or "not_due"
    note = error or (ScheduleSkipReason(reason).for_people if reason != "not_due" else "")
    due = _read(each["next_run_at"])
    name = f"{each['agent']}/{each['schedule']}"
    return Row(name, state, each["when"], (), int(due is not None), last, due, note)


def _in_view(rows: list[Row], view: str, find: str) -> list[Row]:
    states = _STATES[view]
    found = [row for row in rows if find in row.id and (states is None or row.state in states)]
    if view == "next":
        timed = sorted((row.next, row.id, row) for row in found if row.next is not None)
        return [row for _, _, row in timed]
    return found


def _counts(rows: list[Row]) -> dict[str, int | None]:
    return {view: len(_in_view(rows, view, "")) for view in ("needs", "running", "all")}


def _read(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
