"""The judge of a tormented cluster: compares the calls that arrived with the ledger, tick by tick.

Shares no code with dutiful: ticks are whole seconds counted here, and keys are hashed by the observer.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.crash.service_observer import Seen, expected_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Row = dict[str, Any]

OPEN = {"ENQUEUED", "STARTED"}
# A first call that comes so many seconds after its tick, and after the last deed, is late. The machine that
# runs the tests may be busy.
LATE = 30
# The reasons for which a schedule may skip a tick, and a run may fail, by the first word of its id.
SKIPPED = {
    "all": set[str](),
    "queue": set[str](),
    "none": {"missed"},
    "once": {"coalesced"},
    "edited": set[str](),
    "paused": {"paused"},
}
FAILED = {"once": {"outcome_unknown"}}


class Edit(NamedTuple):
    """A change of a schedule: when it was sent and answered, and the new step in seconds; None is a pause."""

    schedule: str
    sent: float
    answered: float
    step: int | None


class Evidence(NamedTuple):
    """What is judged: calls, rows by schedule, the judged seconds, edits, and the ends of all deeds."""

    log: list[Seen]
    ledger: dict[str, list[Row]]
    first: int
    last: int
    edits: Sequence[Edit] = ()
    ends: Sequence[float] = ()

    @property
    def seconds(self) -> range:
        return range(self.first, self.last + 1)


def ticks_of(row: Row) -> range:
    """Return the seconds that a row accounts for; of a stretch, those that its schedule names."""
    ends = row["run_at"], row["run_until"] or row["run_at"]
    first, last = (round(datetime.fromisoformat(end).timestamp()) for end in ends)
    ticks = row.get("ticks") or 1
    return range(first, last + 1, max(1, (last - first) // max(1, ticks - 1)))


def problems(evidence: Evidence) -> Iterator[str]:
    """Yield everything that is wrong."""
    calls: dict[str, list[Seen]] = defaultdict(list)
    for seen in sorted(evidence.log):
        calls[seen.key].append(seen)
    yield from _calls(evidence, calls)
    for schedule, rows in evidence.ledger.items():
        mine = {key: made for key, made in calls.items() if made[0].schedule == schedule}
        yield from _coverage(evidence, schedule, rows)
        yield from _rows(evidence, schedule, rows, mine)


def _calls(evidence: Evidence, calls: dict[str, list[Seen]]) -> Iterator[str]:
    ends = sorted(evidence.ends)
    for key, made in calls.items():
        first = made[0]
        if key != expected_key(first.schedule, first.tick):
            yield f"extra: {first} has another key than its tick"
        yield from (f"early: {seen}" for seen in made if seen.at < seen.tick)
        before = bisect(ends, first.at)
        since = max(first.tick, ends[before - 1] if before else 0)
        if first.at > since + LATE:
            yield f"late: {first} is {first.at - since:.1f} s late"
        repeated = [attempt for attempt, count in Counter(seen.attempt for seen in made).items() if count > 1]
        if repeated:
            yield f"repeated: the attempts {repeated} of {made}"
        if first.schedule.startswith("once") and len(made) > 1:
            yield f"repeated: {made}, which is at most once"


def _coverage(evidence: Evidence, schedule: str, rows: list[Row]) -> Iterator[str]:
    """Each tick has one row, and each row is of a tick."""
    covered = Counter(tick for row in rows for tick in ticks_of(row))
    for tick in evidence.seconds:
        state = _state(evidence, schedule, tick)
        if state in ("due", "paused") and not covered[tick]:
            yield f"missing: {schedule} has no row for {tick}"
        if state == "idle" and covered[tick]:
            yield f"extra: {schedule} has a row for {tick}, when it was not due"
    yield from (
        f"extra: {schedule} has {count} rows for {tick}" for tick, count in covered.items() if count > 1
    )


def _rows(evidence: Evidence, schedule: str, rows: list[Row], calls: dict[str, list[Seen]]) -> Iterator[str]:
    kind = schedule.partition("-")[0]
    by_key = {row["idempotency_key"]: row for row in rows}
    for key, made in calls.items():
        if key not in by_key and made[0].tick <= evidence.last:
            yield f"without a row: {made}"
    for row in rows:
        ticks, status, reason = ticks_of(row), row["status"], row.get("reason")
        if ticks[0] > evidence.last:
            continue
        called = row["idempotency_key"] in calls
        if status == "SUCCESS" and not called:
            yield f"missing: {row} was never called"
        if status == "SKIPPED" and called and len(ticks) == 1:
            yield f"extra: {row} was called"
        allowed = SKIPPED if status == "SKIPPED" else FAILED
        if status != "SUCCESS" and reason not in allowed.get(kind, ()):
            yield f"unexpected: {row}"
        if status == "SUCCESS" and _state(evidence, schedule, ticks[0]) == "paused":
            yield f"extra: {row} ran while its schedule was paused"


def _state(evidence: Evidence, schedule: str, tick: int) -> str:
    """Return whether a schedule is "due" at a second, "idle", "paused", or "changing" by an edit."""
    step: int | None = 1
    for edit in evidence.edits:
        if edit.schedule == schedule:
            if edit.sent - 1 <= tick <= edit.answered + 1:
                return "changing"
            step = edit.step if edit.answered < tick else step
    if step is None:
        return "paused"
    return "idle" if tick % step else "due"
