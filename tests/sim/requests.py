"""What users ask for: runs by hand, the end of runs, past ticks, a prune, an edit that moves no tick."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.sim.world import BROKEN, Action

from dutiful.core.cadence import Every
from dutiful.core.errors import InvalidArgumentError, OversizedBackfillError, UnknownScheduleError
from dutiful.core.policy import Overlap
from dutiful.core.schedule import Task
from dutiful.runtime.ports import Retention

if TYPE_CHECKING:
    from collections import Counter

    from tests.sim.recorder import Recorder
    from tests.sim.world import World

    from dutiful.core.schedule import Schedule
    from dutiful.runtime.registrar import Registrar

SHARE = 0.4
KINDS = ("trigger", "trigger", "backfill", "backfill", "forget", "relabel")


def with_requests(world: World, unit: int) -> World:
    """Return the world, in a share of which users ask for some of these; the rest is as it was drawn."""
    rng = Random(f"asked:{world.seed}")
    schedules = [entry.schedule for entry in world.entries if entry.schedule.id != BROKEN]
    if rng.random() >= SHARE or not schedules:
        return world
    made = [_request(world, rng, rng.choice(schedules), unit) for _ in range(rng.randint(1, 6))]
    # By a generator of its own, so that the other draws stay those of every earlier world.
    rng = Random(f"cancelled:{world.seed}")
    ids = [rng.choice(schedules).id for _ in range(rng.choice((0, 0, 3, 10)))]
    made += [Action(rng.uniform(0, world.horizon), "cancel", 0, id_) for id_ in ids]
    return world._replace(actions=tuple(sorted((*world.actions, *made), key=lambda action: action.at)))


def _request(world: World, rng: Random, some: Schedule, unit: int) -> Action:
    kind, at = rng.choice(KINDS), rng.uniform(0, world.horizon)
    if kind == "relabel":
        renamed = replace(some.policy, queue_limit=some.policy.queue_limit + 1)
        return Action(at, "relabel", 0, some.id, some._replace(task=Task("renamed"), policy=renamed))
    return Action(at, kind, unit * rng.choice((2, 10, 40)), some.id)


class Requests:
    """Carries the requests out through the registrar, and remembers what was promised."""

    def __init__(self, seed: int, recorder: Recorder, registrar: Registrar, reach: Counter[str]) -> None:
        self._seed, self._recorder, self._registrar, self._reach = seed, recorder, registrar, reach
        self._asked = 0

    async def ask(self, action: Action, now: int) -> None:
        """Do what a user asks for, unless the schedule is gone or cannot be asked."""
        try:
            await self._carry_out(action, now)
        except (UnknownScheduleError, InvalidArgumentError, OversizedBackfillError):
            self._reach["request refused"] += 1

    async def _carry_out(self, action: Action, now: int) -> None:
        id_, rng = action.target, Random(f"{self._seed}:{action.at}")
        match action.kind:
            case "trigger":
                self._asked += 1
                run = await self._registrar.trigger(id_, f"{self._asked:064x}")
                self._recorder.record.promised.append((id_, run.run_at, run.kind))
                self._reach["trigger"] += 1
            case "cancel":
                self._reach["cancel"] += len(await self._registrar.cancel(id_))
            case "prune":
                await self._recorder.prune(now, Retention())
            case "forget":
                # Whatever is older than some ticks, and all but the last few rows of each schedule.
                await self._recorder.prune(now, Retention(round(action.amount * 1000), 3))
                self._reach["forget"] += 1
            case "backfill":
                await self._backfill(id_, now - round(action.amount * 1000), now, rng)
            case "relabel" if id_ not in self._recorder.record.removed:
                assert action.schedule is not None
                stored = (await self._recorder.get(id_)) or None
                if stored is not None:
                    changed = stored.schedule._replace(
                        task=action.schedule.task,
                        policy=replace(
                            stored.schedule.policy, queue_limit=action.schedule.policy.queue_limit
                        ),
                    )
                    await self._registrar.upsert(changed)
                    self._reach["relabel"] += 1

    async def _backfill(self, id_: str, start: int, end: int, rng: Random) -> None:
        due = await self._recorder.get(id_)
        if due is None or not due.schedule.policy.ledger or isinstance(due.schedule.cadence, Every):
            return
        overlap = rng.choice((None, *Overlap))
        planned = await self._registrar.backfill(id_, start, end, overlap)
        promised = [(id_, row.run_at, row.kind) for row in planned.changes.rows if row.backfill is not None]
        self._recorder.record.promised += promised
        if len(promised) != planned.accepted:
            self._recorder.complain("backfill", f"{id_} accepted {planned.accepted} and has {len(promised)}")
        self._reach["backfill"] += bool(planned.accepted)
        self._reach["backfill of what ran"] += bool(planned.already_recorded)
        self._reach["backfill of what is unknown"] += bool(planned.unknown)
