"""Small, plausible mistakes in the engine, the planner and the store. The checkers must notice each."""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import replace
from random import Random

from tests.sim.gate import Gate
from tests.sim.mutation import MUTANTS, mutant
from tests.sim.recorder import key_of

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import StoreError
from dutiful.core.plan import backfill, clock_rollback, draft, edit, fast_path, jitter, outcome, planner
from dutiful.core.plan.draft import Draft
from dutiful.core.plan.outcome import raised
from dutiful.core.policy import CatchUp, Reason
from dutiful.core.run import IN_FLIGHT, Phase
from dutiful.core.snapshot import Limits
from dutiful.declarative.scheduler import Scheduler
from dutiful.monitor import Monitor
from dutiful.runtime import engine
from dutiful.runtime.engine import Engine
from dutiful.runtime.in_flight import Flights
from dutiful.runtime.ports import Launch
from dutiful.stores.memory import MemoryStore

# The engine


@mutant(Engine, "_settle_finished")
def forgets_the_end_of_a_run_whose_schedule_is_locked(original):
    async def settle_finished(self, epoch, now):
        await original(self, epoch, now)
        if self._locked_out:
            self._finished.clear()

    return settle_finished


@mutant(Engine, "_carry")
def records_the_cancellation_of_what_it_dropped(original):
    async def carry(self, launch, key):
        await original(self, launch, key)
        if not any(each is launch for each, *_ in self._finished):
            self._finished.append((launch, raised(CancelledError()), self._now()))

    return carry


@mutant(Engine, "_commit")
def launches_before_it_commits(original):
    async def commit(self, moves, epoch):
        runs = [(move.due.schedule, run) for move in moves for run in (*move.inserts, *move.changes)]
        for schedule, run in runs:
            if run.phase is Phase.LAUNCHED:
                self._start(Launch(schedule, run), self._now(), 0)
        committed = await original(self, moves, epoch)
        return committed._replace(launches=[])

    return commit


@mutant(Engine, "_resolve_unsure")
def never_asks_after_a_lost_answer(_):
    async def resolve(self):
        self._unsure.clear()

    return resolve


@mutant(Engine, "_resolve_unsure")
def launches_after_a_lost_answer_without_asking(_):
    async def resolve(self):
        for move in self._unsure:
            for run in (*move.inserts, *move.changes):
                if run.phase is Phase.LAUNCHED:
                    self._start(Launch(move.due.schedule, run), self._now(), 0)
        self._unsure.clear()

    return resolve


@mutant(Engine, "_resolve_unsure")
def asks_for_the_key_and_not_for_the_row(_):
    async def resolve(self):
        while self._unsure:
            move = self._unsure[-1]
            due = await self._store.get(move.due.schedule.id)
            self._unsure.pop()
            present = {key_of(run) for run in (due.runs if due is not None else ())}
            for run in (*move.inserts, *move.changes):
                if run.phase is Phase.LAUNCHED and key_of(run) in present:
                    self._start(Launch(move.due.schedule, run), self._now(), 0)
            self._running.cancel(run for run in move.cancels if key_of(run) not in present)

    return resolve


@mutant(Engine, "_drop_runs")
def carries_on_with_what_it_lost(original):
    # One that is abandoned is dead, and carries nothing.
    return lambda self: original(self) if self._stopping else None


@mutant(Engine, "_settle_finished")
def forgets_answers_that_could_not_be_stored(original):
    async def settle(self, *args):
        try:
            await original(self, *args)
        except StoreError:
            self._finished.clear()
            raise

    return settle


@mutant(engine, "_REARM_BEYOND")
def re_arms_after_every_step_back(_):
    return 0


@mutant(Engine, "_commit")
def cancels_what_an_edit_saved(original):
    async def commit(self, moves, epoch):
        committed = await original(self, moves, epoch)
        self._running.cancel(run for move in moves for run in move.cancels)
        return committed

    return commit


@mutant(Flights, "cancel")
def never_cancels_what_it_gave_up(_):
    return lambda _self, _runs: None


@mutant(Engine, "stop")
def stops_without_waiting(original):
    async def stop(self, *_args, **_kwargs):
        drained = await original(self, within=0)
        return drained._replace(in_flight=[])

    return stop


# The planner, without its short cut where the mistake is in one of its steps


@mutant(fast_path, "_RUNS_LATE")
def runs_what_came_too_late(_):
    return frozenset(CatchUp)


@mutant(planner, "adopt_orphans")
def ignores_orphans(_):
    return lambda _draft: None


@mutant(planner, "_catch_up")
def has_no_grace(original):
    def catch_up(made, last):
        policy, made.policy = made.policy, replace(made.policy, grace=0)
        original(made, last)
        made.policy = policy

    return catch_up


@mutant(planner, "_catch_up")
def catches_up_with_nothing(original):
    def catch_up(made, last):
        if made.policy.catch_up is CatchUp.LATEST and not made.blocked and not made.from_completion:
            made.skip_through(last, Reason.COALESCED)
        original(made, last)

    return catch_up


@mutant(outcome, "_retried")
def retries_too_early(original):
    def again(run, retry, tries, reason, detail, now):
        became = original(run, retry, tries, reason, detail, now)
        return (
            became._replace(fire_at=now + (became.fire_at - now) // 2)
            if became.phase is Phase.RETRY
            else became
        )

    return again


@mutant(planner, "_enqueue")
def drops_what_it_should_queue(_):
    def enqueue(made, tick):
        made.cursor = tick

    return enqueue


@mutant(planner, "_wait_for_room")
def passes_over_ticks_without_room(_):
    def wait(made):
        made.cursor = made.last_due(made.now) or made.cursor

    return wait


@mutant(planner, "retry_failed_runs")
def lets_no_tick_pre_empt_a_retry(original):
    def retry(made):
        launched, made.launched = made.launched, 0
        original(made)
        made.launched += launched

    return retry


@mutant(Draft, "busy")
def sees_no_run_in_flight(_):
    return lambda _self: False


@mutant(Draft, "at_capacity")
def sees_room_everywhere(_):
    return lambda _self: False


@mutant(draft, "count_ticks")
def counts_one_tick_too_many(original):
    return lambda *args: original(*args) + 1


@mutant(draft, "recorded")
def skips_a_second_time_what_is_on_record(_):
    return lambda *_: []


@mutant(draft, "recorded")
def takes_all_before_a_row_for_decided(original):
    def recorded(cadence, rows, after, _):
        spans = original(cadence, rows, after, float("inf"))
        return [(after + 1, max(ends for _, ends in spans))] if spans else []

    return recorded


@mutant(clock_rollback, "_span")
def takes_ticks_of_a_new_cadence_for_decided(_):
    return lambda _cadence, row: (row.run_at, row.run_until or row.run_at)


@mutant(jitter, "_uniform")
def draws_jitter_afresh(_):
    rng = Random(0)
    return lambda _id, _tick: rng.getrandbits(60)


# The registrar


@mutant(edit, "edited")
def forgets_at_an_edit_what_was_decided(original):
    def edited(due, *args):
        changes = original(due, *args)
        return changes._replace(
            puts=[put._replace(state=put.state._replace(decided_until=0)) for put in changes.puts]
        )

    return edited


# The declarative door


@mutant(planner, "_serve_what_was_missed")
def makes_up_for_what_an_orphan_missed(_):
    return lambda _draft: None


@mutant(Scheduler, "_opening_state")
def owes_nothing_in_the_first_minute(original):
    return lambda self: original(self)._replace(cursor=epoch_ms(self._clock.now()))


# The monitor


@mutant(Monitor, "_run_end")
def counts_completions(original):
    """Take two successes for one too many where the first outlasted its minute."""

    def run_end(self, event_name, name):
        original(self, event_name, name)
        task = self._tasks.get(name)
        if task is not None and task.succeeded is not None:
            task.succeeded = task.ended

    return run_end


# The store


@mutant(MemoryStore, "_insert")
def accepts_a_key_twice(_):
    def insert(self, row, run):
        self._write(row, row.open.get((run.run_at, run.kind)), run)
        return True

    return insert


@mutant(MemoryStore, "_settle")
def settles_whatever_attempt_is_in_flight(original):
    def settle(self, run, *rest):
        row = self._rows.get(run.schedule_id)
        known = row.open.get((run.run_at, run.kind)) if row is not None else None
        if known is not None and known.phase in IN_FLIGHT:
            row.open[run.run_at, run.kind] = known._replace(attempt=run.attempt)
        return original(self, run, *rest)

    return settle


@mutant(MemoryStore, "_check")
def checks_no_epoch(_):
    return lambda _self, _epoch: None


@mutant(MemoryStore, "lead")
def goes_on_without_the_lead(original):
    async def lead(self, owner):
        return await original(self, owner) or self._epoch

    return lead


@mutant(MemoryStore, "commit")
def commits_over_an_edit(original):
    async def commit(self, moves, epoch):
        rows = self._rows
        dues = [move.due for move in moves]
        now = [rows[due.schedule.id].version if due.schedule.id in rows else due.version for due in dues]
        present = [due._replace(version=version) for due, version in zip(dues, now, strict=True)]
        changed = [move._replace(due=due) for move, due in zip(moves, present, strict=True)]
        return await original(self, changed, epoch)

    return commit


@mutant(MemoryStore, "prune")
def prunes_too_early_and_forgets_it(original):
    async def prune(self, now, retention):
        count = await original(self, now, retention._replace(age=0, rows=0))
        for row in self._rows.values():
            row.pruned_until = 0
        return count

    return prune


@mutant(MemoryStore, "lead")
def keeps_timers_in_memory(original):
    async def lead(self, owner):
        epoch = self._epoch
        led = await original(self, owner)
        for row in self._rows.values() if self._epoch != epoch else ():
            if any(run.phase in (Phase.DELAYED, Phase.RETRY) for run in row.open.values()):
                row.wake_at = None
        return led

    return lead


@mutant(MemoryStore, "_wake_group")
def wakes_nobody_when_a_run_ends(_):
    return lambda _self, _group, _at=0: None


@mutant(Gate, "_call")
def moves_the_cursor_outside_the_claim(original):
    async def call(self, name, *args):
        if name == "commit":
            for move in args[0]:
                row = self._store._rows.get(move.due.schedule.id)
                if row is not None and row.version == move.due.version:
                    row.state = row.state._replace(cursor=move.state.cursor)
        return await original(self, name, *args)

    return call


# What users ask for


@mutant(MemoryStore, "request")
def forgets_a_run_that_was_asked_for(_):
    async def request(self, run):
        return run if run.schedule_id in self._rows else None

    return request


@mutant(backfill, "_is_skip")
def backfills_what_has_run(_):
    return lambda row: row.kind == "schedule" and row.phase is Phase.ENDED


@mutant(MemoryStore, "prune")
def prunes_runs_that_wait(original):
    async def prune(self, now, retention):
        count = await original(self, now, retention)
        for row in self._rows.values():
            row.open = {key: run for key, run in row.open.items() if run.phase is not Phase.DELAYED}
        return count

    return prune


@mutant(edit, "_account")
def drops_what_is_owed_by_an_edit(_):
    def account(due, _schedule, now, _moved):
        draft = Draft(due, now, Limits(), {})
        last = None if draft.waits_for_run() or draft.from_completion else draft.last_due(now)
        if last is not None:
            draft.skip_through(last, Reason.REPLACED)
        move = draft.move()
        return move.state, [*move.inserts, *move.changes]

    return account


__all__ = ["MUTANTS"]
