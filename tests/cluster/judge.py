"""The judge of a tormented cluster: compares the calls that arrived with the ledger, tick by tick.

Shares no code with dutiful: ticks are whole seconds counted here, and keys are hashed by the observer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.excuses import Deed, Excuses, Led
from tests.crash.service_observer import expected_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    Row = dict[str, Any]
    Calls = dict[str, list["Call"]]

OPEN = {"ENQUEUED", "STARTED"}
# Seconds between the ticks of a schedule, by the first word of its id; all others have one each second.
STEPS = {"long": 10, "asked": 60}
# The reasons for which a schedule may skip a tick, and a run may fail, by the first word of its id.
SKIPPED = {"none": {"missed"}, "once": {"coalesced"}, "paused": {"paused"}}
FAILED = {"once": {"outcome_unknown"}}
# On a busy machine two ticks may be due in one pass without any fault, and the older one is then skipped: at
# most this share of the ticks that no deed excuses.
SKIPPED_SHARE = 0.02
# At least this share of the ticks of a schedule that may skip some must have succeeded.
SUCCESS_SHARE = 0.75


class Call(NamedTuple):
    """One call that arrived: when, for which run, and from which node."""

    at: float
    schedule: str
    tick: int
    key: str
    attempt: int
    node: str = ""
    source: str = "schedule"


class Edit(NamedTuple):
    """A change of a schedule: when it was sent and answered, and the new step in seconds; None is a pause."""

    schedule: str
    sent: float
    answered: float
    step: int | None


class Life(NamedTuple):
    """A schedule that was removed: when it was there, and when its removal was sent and answered."""

    schedule: str
    since: float
    sent: float
    answered: float


class Evidence(NamedTuple):
    """What is judged: calls, rows by schedule, the judged seconds, and everything that was done."""

    log: list[Call]
    ledger: dict[str, list[Row]]
    first: int
    last: int
    edits: Sequence[Edit] = ()
    deeds: Sequence[Deed] = ()
    led: Sequence[Led] = ()
    lives: Sequence[Life] = ()
    # Keys of runs that were asked for by hand, and ticks that were asked for once more, by schedule.
    triggered: Collection[str] = ()
    backfilled: Mapping[str, Collection[int]] = {}
    # When the executor's report of a run was answered, by key; other runs end with their call.
    reported: Mapping[str, float] = {}

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
    excuses = Excuses(evidence.deeds, evidence.led)
    calls: Calls = defaultdict(list)
    for seen in sorted(evidence.log):
        calls[seen.key].append(seen)
    yield from _calls(calls)
    yield from _times(evidence, calls, excuses)
    for schedule, rows in evidence.ledger.items():
        mine = {key: made for key, made in calls.items() if made[0].schedule == schedule}
        of_clock = [row for row in rows if row.get("trigger", "schedule") != "manual"]
        yield from _coverage(evidence, schedule, of_clock)
        yield from _rows(evidence, schedule, rows, mine)
        yield from _skips(evidence, schedule, of_clock, excuses)
        yield from _by_time(evidence, schedule, of_clock)
    for life in evidence.lives:
        yield from _life(evidence, life, excuses)
    yield from _asked(evidence, calls)


def _calls(calls: Calls) -> Iterator[str]:
    """A call has the key of its tick, does not come before it, and is repeated with another attempt."""
    for key, made in calls.items():
        first = made[0]
        if first.source != "manual" and key != expected_key(first.schedule, first.tick):
            yield f"extra: {first} has another key than its tick"
        yield from (f"early: {seen}" for seen in made if seen.at < seen.tick)
        attempts = [seen.attempt for seen in made]
        repeated = [attempt for attempt, count in Counter(attempts).items() if count > 1]
        if repeated:
            yield f"repeated: the attempts {repeated} of {made}"
        if first.schedule.startswith("once") and len(made) > 1:
            yield f"repeated: {made}, which is at most once"


def _times(evidence: Evidence, calls: Calls, excuses: Excuses) -> Iterator[str]:
    """A call is late, or is made again, only by a deed that touched the leader of its schedule."""
    judged = [made for made in calls.values() if made[0].tick >= evidence.first]
    for made in judged:
        first = made[0]
        due = max(first.tick, _end_before(evidence, calls, first))
        allowed = excuses.until(first.schedule, due)
        if first.source == "schedule" and first.at > allowed:
            yield f"late: {first} is {first.at - due:.1f} s late, {allowed - due:.1f} s allowed"
        # An attempt that was overtaken by the next one may arrive after it: its node was frozen.
        in_turn = sorted(made, key=lambda seen: seen.attempt)
        for one, two in pairwise(in_turn):
            if not excuses.may_repeat(one.schedule, min(one.at, two.at), max(one.at, two.at)):
                yield f"repeated: {two} follows {one} for no reason"


def _end_before(evidence: Evidence, calls: Calls, call: Call) -> float:
    """Return when the run before this one ended, which a run of a queue waits for; 0 for other schedules."""
    before = calls.get(expected_key(call.schedule, call.tick - 1))
    if not call.schedule.startswith("queue") or not before:
        return 0.0
    return max(before[-1].at, evidence.reported.get(before[-1].key, 0.0))


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


def _rows(evidence: Evidence, schedule: str, rows: list[Row], calls: Calls) -> Iterator[str]:
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


def _skips(evidence: Evidence, schedule: str, rows: list[Row], excuses: Excuses) -> Iterator[str]:
    """Ticks that were skipped, or whose fate is unknown, are few, and nearly all have a cause."""
    if schedule.partition("-")[0] not in ("none", "once"):
        return
    strict = [tick for tick in evidence.seconds if not excuses.excuses(schedule, tick)]
    ended = {tick: row for row in rows for tick in ticks_of(row)}
    became = Counter(ended[tick]["status"] for tick in evidence.seconds if tick in ended)
    if became["SUCCESS"] < SUCCESS_SHARE * len(evidence.seconds):
        yield f"too few: {schedule} has {became}"
    plain = [ended[tick] for tick in strict if tick in ended]
    skipped = sum(row["status"] == "SKIPPED" for row in plain)
    if skipped > max(1, SKIPPED_SHARE * len(strict)):
        yield f"skipped: {schedule} has skipped {skipped} of {len(strict)} ticks for no reason"
    yield from (f"unknown: {row} for no reason" for row in plain if row["status"] == "FAILED")


def _by_time(evidence: Evidence, schedule: str, rows: list[Row]) -> Iterator[str]:
    """Count calls against ticks by their times alone, whatever keys and ticks the calls claim to have."""
    if any(edit.schedule == schedule for edit in evidence.edits):
        return
    due = [tick for tick in evidence.seconds if _state(evidence, schedule, tick) == "due"]
    mine = sorted(
        (seen.at, seen.attempt)
        for seen in evidence.log
        if (seen.schedule, seen.source) == (schedule, "schedule") and evidence.first <= seen.tick
    )
    firsts = [at for at, attempt in mine if attempt == 1]
    for place, (tick, at) in enumerate(zip(due, firsts, strict=False)):
        if at < tick:
            yield f"early: call {place} of {schedule} came at {at}, before tick {place} at {tick}"
            break
    not_run = sum(
        evidence.first <= tick <= evidence.last
        for row in rows
        if row["status"] != "SUCCESS"
        for tick in ticks_of(row)
    )
    if len(mine) < len(due) - not_run:
        yield f"missing: {schedule} has {len(mine)} calls for {len(due) - not_run} ticks"


def _life(evidence: Evidence, life: Life, excuses: Excuses) -> Iterator[str]:
    """A removed schedule has no rows: each of its ticks was called while it lived, and none afterwards."""
    called = {seen.tick for seen in evidence.log if seen.schedule == life.schedule}
    for tick in range(int(life.since) + 2, int(life.sent)):
        if tick not in called and excuses.until(life.schedule, tick) < life.sent:
            yield f"missing: {life.schedule} was not called for {tick}"
    yield from (
        f"extra: {life.schedule} was called for {tick}, after its removal"
        for tick in sorted(called)
        if tick > life.answered + 1
    )


def _asked(evidence: Evidence, calls: Calls) -> Iterator[str]:
    """Each run that was asked for was called, and nothing else was called by hand."""
    by_hand = {key for key, made in calls.items() if made[0].source == "manual"}
    yield from (f"missing: the asked run {key}" for key in sorted({*evidence.triggered} - by_hand))
    yield from (f"extra: {calls[key]}, by hand" for key in sorted(by_hand - {*evidence.triggered}))
    again = {(made[0].schedule, made[0].tick) for made in calls.values() if made[0].source == "backfill"}
    asked = {(schedule, tick) for schedule, ticks in evidence.backfilled.items() for tick in ticks}
    yield from (f"missing: the backfill of {tick}" for tick in sorted(asked - again))
    yield from (f"extra: the backfill of {tick}" for tick in sorted(again - asked))


def _state(evidence: Evidence, schedule: str, tick: int) -> str:
    """Return whether a schedule is "due" at a second, "idle", "paused", or "changing" by an edit."""
    if tick in evidence.backfilled.get(schedule, ()):
        return "due"
    step: int | None = STEPS.get(schedule.partition("-")[0], 1)
    for edit in evidence.edits:
        if edit.schedule == schedule:
            if edit.sent - 1 <= tick <= edit.answered + 1:
                return "changing"
            step = edit.step if edit.answered < tick else step
    if step is None:
        return "paused"
    return "idle" if tick % step else "due"
