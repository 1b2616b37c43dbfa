"""Schedules and runs as the service shows them, with the names and times of its public interface."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from datetime import UTC, date, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.lint import lint
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.upcoming import upcoming
from dutiful.core.schedule import State
from dutiful.core.snapshot import Snapshot
from dutiful.service.declaration import ScheduleView, policy_facts
from dutiful.service.payload import encode, payload_of
from dutiful.service.settings import hides_secrets, without_secrets
from dutiful.service.types import RunView

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Note
    from dutiful.core.cron.lint import Finding
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule


PREVIEW = 5
# Before the year 2242 a float of seconds is exact to the millisecond, and four times as fast.
_EXACT_AS_SECONDS = 2**33 * 1000


def moment(instant: Instant, zone: tzinfo = UTC) -> datetime:
    """Return an instant as a datetime, to the millisecond."""
    if 0 <= instant < _EXACT_AS_SECONDS:
        return datetime.fromtimestamp(instant / 1000, zone)
    return datetime.fromtimestamp(instant // 1000, zone).replace(microsecond=instant % 1000 * 1000)


def next_run_at(due: Snapshot, now: Instant) -> datetime | None:
    """Return the next tick, ignoring a pause; jitter changes its fire time, not the tick."""
    return next((moment(tick) for tick, _ in upcoming(due, now, 1)), None)


def fire_times(due: Snapshot, now: Instant, count: int) -> list[datetime]:
    """Return the next fire times in the schedule's own zone."""
    zone = cron_of(due).zone.tzinfo
    return [moment(fire_at, zone) for _, fire_at in upcoming(due, now, count)]


def facts_of(schedule: Schedule) -> dict[str, Any]:
    """Return the declared values of a schedule, under their names in an upsert."""
    cron, payload = _cron(schedule), payload_of(schedule)
    return {
        "workflow_id": payload.workflow_id,
        "version": payload.version,
        "user_id": payload.user_id,
        "cron_expr": cron.text,
        "timezone": cron.zone.name,
        "start_at": _moment(schedule.window.start),
        "end_at": _moment(schedule.window.end),
        "paused": schedule.paused,
        "pause_until": _moment(schedule.pause_until),
        "labels": dict(payload.labels),
        "dialect": cron.dialect,
        "gap": cron.gap,
        "fold": cron.fold,
        "input": payload.input,
        "executor": payload.executor,
        "calendar": list(cron.calendar),
        **policy_facts(schedule.policy),
    }


def canonical(value: object) -> str:
    """Return one text for each JSON value; compared as Python values, 1, 1.0 and true would be equal."""
    return json.dumps(value, sort_keys=True)


def changed_fields(old: Schedule, new: Schedule) -> list[str]:
    """Return the names of the declared values in which two schedules differ, in the order of a view."""
    before, after = facts_of(old), facts_of(new)
    for facts in (before, after):
        facts["input"] = canonical(facts["input"])
    return [name for name in ScheduleView.__slots__ if before.get(name) != after.get(name)]


def revision_of(known: Snapshot | None) -> str | None:
    """Return a short text that differs for every other declaration of a schedule; None if there is none.

    It may be shown, so it does not depend on the secrets in the URL of an executor.
    """
    if known is None:
        return None
    facts = facts_of(known.schedule)
    if facts["executor"] is not None:
        facts["executor"] = without_secrets(facts["executor"])
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def with_stored_secrets(schedule: Schedule, url: str | None, known: Snapshot | None) -> Schedule:
    """Return a declared schedule whose executor, if its URL is written as it is shown, is the stored one.

    Raises InvalidArgumentError where nothing is stored that is shown so.
    """
    if url is None or not hides_secrets(url):
        return schedule
    stored = None if known is None else payload_of(known.schedule).executor
    if stored is None or without_secrets(stored) != url:
        raise InvalidArgumentError("executor", url, "*** is what a secret is shown as; write the secret")
    payload = encode(payload_of(schedule)._replace(executor=stored))
    return schedule._replace(task=schedule.task._replace(payload=payload))


def view_schedule(due: Snapshot, note: Note | None, now: Instant) -> ScheduleView:
    """Return a schedule as the service shows it."""
    facts = facts_of(due.schedule)
    if facts["executor"] is not None:
        facts["executor"] = without_secrets(facts["executor"])
    zone, ahead = cron_of(due).zone.tzinfo, upcoming(due, now, PREVIEW)
    return ScheduleView(
        schedule_id=due.schedule.id,
        next_run_at=moment(ahead[0][0]) if ahead else None,
        updated_at=moment(note.updated_at if note is not None else 0),
        pause_note=note.pause_note if note is not None else None,
        paused_at=None if note is None else _moment(note.paused_at),
        paused_by=None if note is None else note.paused_by,
        quarantine=due.state.quarantine,
        pruned_until=moment(due.pruned_until) if due.pruned_until else None,
        preview=[moment(fire_at, zone) for _, fire_at in ahead],
        **facts,
    )


def view_run(run: Run) -> RunView:
    """Return one row of the ledger as the service shows it."""
    created_at = run.fire_at if run.created_at is None else run.created_at
    return RunView(
        idempotency_key=run.key,
        schedule_id=run.schedule_id,
        run_at=moment(run.run_at),
        fire_at=moment(run.fire_at),
        status=run.status.value,
        reason=None if run.reason is None else run.reason.value,
        attempt=run.attempt,
        run_id=run.run_id,
        trigger=run.trigger,
        run_until=_moment(run.run_until),
        ticks=run.ticks,
        created_at=moment(created_at),
        updated_at=moment(created_at if run.updated_at is None else run.updated_at),
        started_at=_moment(run.started_at),
        ended_at=_moment(run.ended_at),
        detail=run.detail,
        input=None if run.input is None else json.loads(run.input),
        task_failures=run.task_failures,
    )


def _moment(instant: Instant | None) -> datetime | None:
    return None if instant is None else moment(instant)


def cron_of(due: Snapshot) -> Cron:
    """Return the cadence of a schedule of the service."""
    return _cron(due.schedule)


def _cron(schedule: Schedule) -> Cron:
    assert isinstance(schedule.cadence, Cron), "the service stores no other cadence"
    return schedule.cadence


# How many fire times of either schedule are compared; `compared_until` tells how far that reaches.
COMPARED = 500


class MovedTime(NamedTuple):
    """A fire time that is replaced by another one on the same day."""

    before: datetime
    after: datetime


class Counts(NamedTuple):
    """How many fire times there are before and after an upsert."""

    before: int
    after: int


class Preview(NamedTuple):
    """The schedule after an upsert, and how its fire times until `compared_until` would differ."""

    schedule_id: str | None
    created: bool
    changed: Sequence[str]
    meaning: str
    findings: Sequence[Finding]
    preview: Sequence[datetime]
    compared_until: datetime | None
    counts: Counts
    # When the stored schedule was changed last, None for a new one.
    updated_at: datetime | None
    # Names the stored declaration, None for a new schedule; a bulk can demand that it is still the same.
    revision: str | None
    added: Sequence[datetime]
    removed: Sequence[datetime]
    moved: Sequence[MovedTime]


def preview(
    known: Snapshot | None, note: Note | None, schedule: Schedule, schedule_id: str | None, now: Instant
) -> Preview:
    """Return the effect of storing `schedule` in place of `known`, from `now` on."""
    wanted = Snapshot(schedule, State(cursor=now))
    after = fire_times(wanted, now, COMPARED)
    if known is not None and known.schedule == schedule:
        # Most schedules of a plan are unchanged, and computing fire times is most of its cost.
        before = after
    else:
        before = [] if known is None else fire_times(known, now, COMPARED)
    until = min((times[-1] for times in (before, after) if len(times) == COMPARED), default=None)
    old, new = _up_to(before, until), _up_to(after, until)
    added, removed, moved = _differences(_whole_days(old, until), _whole_days(new, until))
    cron = cron_of(wanted)
    return Preview(
        schedule_id,
        known is None,
        [] if known is None else changed_fields(known.schedule, schedule),
        f"{cron.describe()}, in {cron.zone.name}",
        lint(cron, after[0]) if after else [],
        after[:5],
        until,
        Counts(len(old), len(new)),
        None if note is None else moment(note.updated_at),
        revision_of(known),
        added,
        removed,
        moved,
    )


def _up_to(times: Sequence[datetime], until: datetime | None) -> list[datetime]:
    return [at for at in times if until is None or at <= until]


def _whole_days(times: Sequence[datetime], until: datetime | None) -> Sequence[datetime]:
    """Return the times before the day of `until`, whose later times are not compared, if it is not the first.

    A time that moves beyond `until` would seem to be removed.
    """
    if until is None or not times or times[0].date() == until.date():
        return times
    return [at for at in times if at.date() < until.date()]


def _differences(
    before: Sequence[datetime], after: Sequence[datetime]
) -> tuple[list[datetime], list[datetime], list[MovedTime]]:
    """Return added, removed and moved times; times of the same day are paired in order as moves."""
    gone, new = _by_day({*before} - {*after}), _by_day({*after} - {*before})
    added, removed, moved = list[datetime](), list[datetime](), list[MovedTime]()
    for day in sorted({*gone, *new}):
        for old, became in zip_longest(gone.get(day, ()), new.get(day, ())):
            if old is None:
                added.append(became)
            elif became is None:
                removed.append(old)
            else:
                moved.append(MovedTime(old, became))
    return added, removed, moved


def _by_day(times: set[datetime]) -> dict[date, list[datetime]]:
    days: dict[date, list[datetime]] = {}
    for at in sorted(times):
        days.setdefault(at.date(), []).append(at)
    return days


LIMIT_MAX = 1000


def page_size(limit: object) -> int:
    """Return a valid page size, or raise InvalidArgumentError."""
    if type(limit) is not int or not 1 <= limit <= LIMIT_MAX:
        raise InvalidArgumentError("limit", limit, f"write a whole number from 1 to {LIMIT_MAX}")
    return limit


def encode_cursor(*place: str | int) -> str:
    """Return a position in a list as a text."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> list[str | int]:
    """Return the position in a cursor, or raise InvalidArgumentError."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        place = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (AttributeError, ValueError, binascii.Error, RecursionError):
        place = None
    if not isinstance(place, list) or [*map(type, place)] != [*kinds] or not all(map(_storable, place)):
        raise InvalidArgumentError("cursor", cursor, "hand back the next_cursor of the last page as it was")
    return place


def _storable(part: str | int) -> bool:
    """Return whether a store can search for this value: 64 bits, or a text of UTF-8 without NUL."""
    if isinstance(part, int):
        return -(2**63) <= part < 2**63
    return "\0" not in part and not any("\ud800" <= each <= "\udfff" for each in part)
