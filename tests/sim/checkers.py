"""The judges of a finished world. Each yields what is wrong, as "rule: what happened"."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tests.sim.oracle import cron_ticks_between, fire_time, ticks
from tests.sim.recorder import key_of

from dutiful.core.cadence import Every
from dutiful.core.cron.cron import Cron
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Reason
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.sim.executor import Call
    from tests.sim.recorder import Era, Key, Record

    from dutiful.core.snapshot import Snapshot

FAILURES = {
    Reason.LAUNCH_REFUSED,
    Reason.LAUNCH_FAILED,
    Reason.UNKNOWN_WORKFLOW,
    Reason.OUTCOME_UNKNOWN,
    Reason.LOST_RUN,
    Reason.INTERRUPTED,
    Reason.TASK_FAILED,
}
SKIPS = set(Reason) - FAILURES
# How the calls of a run may go that fails as its task does.
FAILING = {"fail", "raise", "rubbish", "accept_fail", "repeat"}
PROMPT = {"quick", "fail", "raise", "rubbish", "no_work", "refused", "unknown_workflow", "unreached"}
DAY = 86_400_000


class Case(NamedTuple):
    """One schedule and everything that is known of it."""

    id: str
    eras: Sequence[Era]
    # The final version of every row, by tick.
    rows: Sequence[Run]
    calls: Sequence[Call]
    record: Record

    @property
    def policy(self):
        return self.eras[-1].schedule.policy

    def is_edited(self) -> bool:
        return self.id in self.record.edited

    def is_asked(self) -> bool:
        """Return whether a user asked for runs beside the clock's."""
        return any(key[0] == self.id for key in self.record.promised)

    def forgets(self) -> bool:
        """Return whether a tick may come again although its row is gone."""
        return not self.policy.ledger and (self.repeats() or self.id in self.record.removed)

    def repeats(self) -> bool:
        """Return whether the clock was set back by days, so that instants came twice."""
        return any(era.repeats_until for era in self.eras)


def check(record: Record, calls: Sequence[Call], dues: Mapping[str, Snapshot], now: int) -> list[str]:
    """Return every problem of a world that has been healed."""
    problems = []
    for case in cases(record, calls):
        for judge in JUDGES:
            problems += [f"{judge.__name__}: {case.id} {text}" for text in judge(case)]
    for due in dues.values():
        problems += [f"settled: {due.schedule.id} {text}" for text in settled(due, now)]
    problems += [
        f"launched: {key} attempt {attempt} was never made" for key, attempt in sorted(record.pending)
    ]
    return problems


def cases(record: Record, calls: Sequence[Call]) -> Iterator[Case]:
    rows, made = defaultdict(list), defaultdict(list)
    for key, versions in sorted(record.history.items()):
        if versions:
            rows[key[0]].append(versions[-1].row)
    for call in calls:
        made[call.key[0]].append(call)
    for id_, eras in record.eras.items():
        yield Case(id_, eras, rows[id_], made[id_], record)


# Judges of one schedule


def reasons(case: Case) -> Iterator[str]:
    """Statuses and reasons belong together, and come from the closed list."""
    for row in case.rows:
        legal = {
            Status.SUCCESS: row.reason is None,
            Status.FAILED: row.reason in FAILURES,
            Status.SKIPPED: row.reason in SKIPS,
        }.get(row.status, row.phase is not Phase.ENDED)
        if not legal or (row.run_until is not None) != (row.ticks > 1):
            yield f"has the row {row}"


def failed(case: Case) -> Iterator[str]:
    """A run fails as its task does: no cancellation by the engine is recorded as a failure."""
    manners = defaultdict(set)
    for call in case.calls:
        manners[call.key].add(call.manner)
    for row in case.rows:
        told = row.reason is Reason.TASK_FAILED and not (row.detail or "").startswith("timed out")
        if told and not manners[key_of(row)] & FAILING:
            yield f"has the row {row}, and its task did not fail"


def attempts(case: Case) -> Iterator[str]:
    """Every repeat of a key has a higher attempt, unless the schedule forgets keys after a clock rollback."""
    if case.forgets():
        return
    last: dict[Key, int] = {}
    for call in case.calls:
        if call.attempt <= last.get(call.key, 0):
            yield f"was called for {call.key[1]} with attempt {call.attempt} after {last[call.key]}"
        last[call.key] = call.attempt


def at_most_once(case: Case) -> Iterator[str]:
    """Under GIVE_UP a launch that may have arrived is not repeated."""
    if case.is_edited() or case.forgets() or case.policy.on_orphan is not OnOrphan.GIVE_UP:
        return
    sent = Counter(call.key for call in case.calls if call.manner != "unreached")
    yield from (f"was sent {count} times for {key[1]}" for key, count in sent.items() if count > 1)


def pre_emption(case: Case) -> Iterator[str]:
    """Any start clears a task's pending retry: no other run comes between two attempts."""
    policy = case.policy
    if (
        case.is_edited()
        or case.is_asked()
        or case.forgets()
        or policy.retry is None
        or policy.overlap is Overlap.ALLOW
    ):
        return
    before: dict[Key, int] = {}
    for number, call in enumerate(case.calls):
        if call.attempt > 1 and before.get(call.key, number) < number - 1:
            yield f"went back to {call.key[1]} after another run had started"
        before[call.key] = number


def answers(case: Case) -> Iterator[str]:
    """A run whose task answered at once is not lost."""
    last = {call.key: call.manner for call in case.calls}
    for row in case.rows:
        manner = last.get((row.schedule_id, row.run_at, row.kind))
        if row.reason is Reason.LOST_RUN and manner in PROMPT:
            yield f"lost {row.run_at}, though it answered ({manner})"


def limit(case: Case) -> Iterator[str]:
    """No more ticks are started than allowed."""
    started = {call.key for call in case.calls if call.key not in case.record.promised}
    if case.policy.max_runs is not None and not case.is_edited() and len(started) > case.policy.max_runs:
        yield f"started {len(started)} runs, of {case.policy.max_runs} allowed"


def grace(case: Case) -> Iterator[str]:
    """A tick within the grace is on time, never missed."""
    for row in case.rows if not case.is_edited() else ():
        if row.reason is Reason.MISSED:
            for seen in case.record.history[row.schedule_id, row.run_at, row.kind]:
                newest = seen.row.run_until or seen.row.run_at
                if newest - case.policy.jitter >= seen.wall - case.policy.grace:
                    yield f"missed {newest}, {seen.wall - newest} ms late"


def late(case: Case) -> Iterator[str]:
    """Where nothing is caught up at once, no tick begins beyond its grace unless it was made to wait."""
    policy = case.policy
    waits = policy.overlap in (Overlap.QUEUE, Overlap.BUFFER_ONE) or policy.capacity is not None
    at_once = policy.catch_up not in (CatchUp.NONE, CatchUp.SPREAD)
    if case.is_edited() or waits or at_once or _is_from_completion(case):
        return
    for row in case.rows:
        first = case.record.history[row.schedule_id, row.run_at, row.kind][0].row
        if row.backfill is not None:
            continue
        began = first.started_at if first.phase is Phase.LAUNCHED else None
        if row.kind == "schedule" and began is not None and began - first.fire_at > policy.grace:
            yield f"began {row.run_at} {began - first.fire_at} ms late"


def _is_from_completion(case: Case) -> bool:
    cadence = case.eras[-1].schedule.cadence
    return isinstance(cadence, Every) and cadence.anchor == "completion"


def jitter(case: Case) -> Iterator[str]:
    """A tick fires when the hash of its key says, and never beyond its neighbours."""
    for row in case.rows if not case.is_edited() else ():
        if row.kind == "manual" or row.backfill is not None:
            continue
        first = case.record.history[row.schedule_id, row.run_at, row.kind][0].row
        schedule, reach = case.eras[-1].schedule, 2 * case.policy.jitter + 2000
        if first.phase is Phase.LAUNCHED and isinstance(schedule.cadence, Cron):
            around = cron_ticks_between(schedule.cadence, row.run_at - reach, row.run_at + reach)
            expected = fire_time(schedule, row.run_at, around)
            if first.fire_at != expected:
                yield f"fires {row.run_at} at {first.fire_at}, not at {expected}"
        elif first.phase is Phase.LAUNCHED and abs(first.fire_at - row.run_at) > case.policy.jitter:
            yield f"fires {row.run_at} at {first.fire_at}"


def complete(case: Case) -> Iterator[str]:
    """Each tick that the cursor passed has one row; one that was skipped may run when it comes again.

    A stretch of another cadence takes no tick from this one but its first, so a tick may be in both.
    """
    if not case.policy.ledger:
        return
    covered: Counter[int] = Counter()
    skipped: Counter[int] = Counter()
    by_era = list(_ticks_by_era(case))
    for row in case.rows:
        if row.kind == "manual":
            continue
        found = {tick for era, due in by_era for tick in _fitting(era, due, row)}
        covered.update(found)
        # One that ran and found nothing to do is skipped too, and was decided otherwise.
        skipped.update(found if row.status is Status.SKIPPED and row.attempt == 0 else ())
    for era, due in by_era:
        for tick in due:
            those = [other for other in case.eras if other.opened < tick <= other.closed]
            cadences = {other.schedule.cadence for other in those}
            twice = skipped[tick] > len(cadences) or (covered[tick] > 1 and len(those) == 1)
            if covered[tick] == 0 or twice:
                yield f"has {covered[tick]} rows for the tick {tick} of {era.schedule.cadence}"


def genuine(case: Case) -> Iterator[str]:
    """No row without a tick, and no stretch with a wrong count."""
    by_era = list(_ticks_by_era(case))
    for row in case.rows:
        if row.kind == "manual":
            if (row.schedule_id, row.run_at, row.kind) not in case.record.promised:
                yield f"has a manual run that no user asked for: {row}"
            continue
        if row.backfill is not None and any(
            ticks(era.schedule, row.run_at - 1, row.run_at) == [row.run_at] for era in case.eras
        ):
            # A user may ask for ticks from before the schedule was stored.
            continue
        if not any(_fitting(era, due, row) for era, due in by_era):
            yield f"has a row without its ticks: {row}"


def _ticks_by_era(case: Case) -> Iterator[tuple[Era, list[int]]]:
    for era in case.eras:
        yield era, ticks(era.schedule, era.opened, era.closed)


def _fitting(era: Era, due: list[int], row: Run) -> list[int]:
    """Return the ticks of a row, if they are just those of the era between its ends."""
    last = row.run_until or row.run_at
    if not era.opened < row.run_at <= last <= era.closed:
        return []
    if isinstance(era.schedule.cadence, Every) and era.schedule.cadence.anchor == "completion":
        return [row.run_at]
    inside = due[bisect_left(due, row.run_at) : bisect_right(due, last)]
    exact = len(inside) == row.ticks and (inside[:1], inside[-1:]) == ([row.run_at], [last])
    return inside if exact else []


def beat(case: Case) -> Iterator[str]:
    """A period from completion never ticks faster than its period."""
    for era in case.eras if not case.repeats() else ():
        cadence = era.schedule.cadence
        if isinstance(cadence, Every) and cadence.anchor == "completion":
            ran = [
                row
                for row in case.rows
                if row.kind == "schedule"
                and [era] == [e for e in case.eras if e.opened < row.run_at <= e.closed]
            ]
            for one, other in pairwise(ran):
                if other.run_at - (one.run_until or one.run_at) < cadence.period:
                    yield f"ticked at {one.run_at} and {other.run_at}"


def promised(case: Case) -> Iterator[str]:
    """What a user was promised is called, or its row says why not; nothing of it is forgotten."""
    called = {call.key for call in case.calls}
    for key in case.record.promised:
        versions = case.record.history.get(key)
        row = versions[-1].row if versions else None
        gone = case.id in case.record.removed or not case.policy.ledger
        told = row is not None and row.phase is Phase.ENDED and row.reason is not None
        if key[0] == case.id and not (key in called or gone or told):
            yield f"was promised {key[1:]}, and it became {row}"


JUDGES = (
    promised,
    reasons,
    failed,
    answers,
    attempts,
    at_most_once,
    pre_emption,
    limit,
    grace,
    late,
    jitter,
    complete,
    genuine,
    beat,
)


# The healed world


def settled(due: Snapshot, now: int) -> Iterator[str]:
    """Nothing is left to do: no open run, no undecided tick."""
    if due.state.quarantine is not None:
        return
    for run in due.runs:
        since = (run.started_at or now) if run.phase in IN_FLIGHT else run.fire_at
        if since <= now:
            yield f"still has the open run {run}"
    policy, cadence = due.schedule.policy, due.schedule.cadence
    if policy.max_runs is not None and due.state.runs_started >= policy.max_runs:
        return
    slack = 2000 + policy.jitter
    if isinstance(cadence, Every) and cadence.anchor == "completion":
        next_ = max(due.state.cursor, due.state.ended_at or 0) + cadence.period
        if next_ <= now - slack or next_ > now + cadence.period + DAY:
            yield f"is due at {next_}, and it is {now}"
        return
    undecided = ticks(due.schedule, due.state.cursor, now - slack)
    if undecided:
        yield f"has not decided {len(undecided)} ticks from {undecided[0]}; it is {now}"
