"""Worlds with several nodes: real clusters of real engines over one sharded database, on virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.sim.checkers import JUDGES, attempts, cases, settled
from tests.sim.executor import Call
from tests.sim.genesis import SCALES, Genesis
from tests.sim.nodes import Node
from tests.sim.recorder import key_of
from tests.sim.runner import INJECTED, Result
from tests.sim.sharded import LEASE, Database, Namespace, place_of
from tests.sim.world import BROKEN, Action

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes, Put
from dutiful.core.errors import UnknownScheduleError
from dutiful.core.event import LeadershipChanged, PassFailed
from dutiful.core.plan.edit import arm
from dutiful.core.plan.jitter import first_wake
from dutiful.core.run import IN_FLIGHT
from dutiful.core.schedule import Task
from dutiful.runtime.registrar import Registrar
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from tests.sim.nodes import NodeExecutor
    from tests.sim.sharded import NodeStore
    from tests.sim.world import World

    from dutiful.core.event import Event

FAULTS = ("kill", "freeze", "terminate", "cut", "late", "restart", "join", "leave", "drain", "flaky")
EDITS = ("pause", "resume", "edit", "trigger", "remove")
WANTED = (
    *(f"did {kind}" for kind in (*FAULTS, *EDITS)),
    "two believed leaders",
    "regained epoch",
    "turn bumped",
    "late delivery",
    "late delivery refused",
    "orphan adopted",
    "orphan adopted after hand-over",
    "hand-over put off by a flight",
    "hand-over",
    "frozen past the lease",
)


class Plan(NamedTuple):
    """A world with several nodes, as plain data."""

    world: World
    shards: int
    nodes: int
    # By how many ms the wall clock of each node is wrong; nodes that join later begin again with the first.
    skews: tuple[int, ...]
    actions: tuple[Action, ...]


def plan_of(seed: int) -> Plan:
    """Return the world of a seed: minutes of simulated time, dense schedules, two to five nodes."""
    genesis = Genesis(seed)
    genesis.scale = SCALES[0]
    rng = Random(f"nodes:{seed}")
    genesis._horizon = rng.randint(120, 360)
    genesis._start = genesis._draw_start()
    world = genesis.world()
    entries = tuple(entry for entry in world.entries if entry.schedule.id != BROKEN)
    world = world._replace(entries=entries, actions=(), lists=())
    nodes = rng.randint(2, 5)
    kinds = [kind for kind in FAULTS if rng.random() < 0.5] or ["kill"]
    actions = [_fault(rng, rng.choice(kinds), world.horizon) for _ in range(rng.randint(2, 10))]
    actions += [_edit(rng, world) for _ in range(rng.choice((0, 0, 3)))]
    skews = tuple(rng.choice((0, 900, -700, 5_000, -3_600_000, 86_400_000)) for _ in range(5))
    in_order = tuple(sorted(actions, key=lambda action: action.at))
    return Plan(world, rng.choice((1, 2, 4, 8, 16)), nodes, skews, in_order)


def _fault(rng: Random, kind: str, horizon: int) -> Action:
    amount = rng.choice((0.3, 2, LEASE + 3, 20))
    return Action(rng.uniform(5, horizon - 30), kind, amount, str(rng.randrange(5)))


def _edit(rng: Random, world: World) -> Action:
    some = rng.choice(world.entries).schedule
    changed = some._replace(task=Task("edited"), paused=False)
    at, kind = rng.uniform(5, world.horizon - 10), rng.choice(EDITS)
    # Every other pause ends by itself.
    lasts = 20 if kind == "pause" and int(at) % 2 else 0
    return Action(at, kind, lasts, some.id, changed)


class Town:
    """Runs a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = VirtualClock(datetime.fromtimestamp(plan.world.start / 1000, UTC))
        self.trace: list[tuple[Any, ...]] = []
        self.reach: Counter[str] = Counter()
        self.database = Database(self.clock, plan.shards, self.tell, self.reach)
        self.namespace = Namespace(self.database)
        self.registrar = Registrar(self.namespace, self.clock, lambda: None)
        self.nodes: list[Node] = []
        self.born = 0
        self.calls: list[Any] = []
        self.reports: set[asyncio.Task[None]] = set()
        self.chores: set[asyncio.Task[None]] = set()
        self.healing = False
        self.asked = 0
        self.deceived_until: dict[NodeStore, float] = {}

    # What the parts ask for

    def now(self) -> tuple[int, float]:
        return self.clock.epoch_ms(), self.clock.monotonic()

    def tell(self, what: str, *details: Any) -> None:
        self.trace.append((round(self.clock.monotonic(), 3), self.clock.epoch_ms(), what, *details))

    def look_after(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.namespace.complain("broke", f"{task.get_name()} died of {type(error).__name__}: {error}")

    def hear(self, node: Node, event: Event) -> None:
        if isinstance(event, PassFailed) and not event.error.startswith(INJECTED):
            self.namespace.complain("broke", f"a pass of {node.name} failed of {event.error}")
        self.reach["hand-over"] += isinstance(event, LeadershipChanged) and event.epoch is None
        details = [getattr(event, name, None) for name in ("epoch", "shard", "error")]
        self.tell(type(event).__name__, node.name, *details)

    def is_deceived(self, store: NodeStore) -> bool:
        """Return whether a node may believe in a session that the server has ended early."""
        return self.clock.monotonic() < self.deceived_until.get(store, 0)

    def note_call(self, executor: NodeExecutor, key: Any, attempt: int, manner: str) -> None:
        wall, passed = self.now()
        self.calls.append(Call(wall, passed, executor.engine, key, attempt, manner))

    # The course of a world

    async def run(self) -> Result:
        try:
            return await self._live()
        finally:
            await self._end()

    async def _live(self) -> Result:
        await self._declare()
        for _ in range(self.plan.nodes):
            await self._join()
        for action in self.plan.actions:
            await self._advance_to(action.at)
            await self._act(action)
        await self._advance_to(self.plan.world.horizon)
        await self._heal()
        return await self._judged()

    async def _declare(self) -> None:
        for entry in self.plan.world.entries:
            state = arm(entry.schedule, self.plan.world.start).state
            if not isinstance(entry.schedule.cadence, Every):
                state = type(state)(state.cursor - entry.owed)
            put = Put(entry.schedule, state, first_wake(entry.schedule, state))
            shard = self.database.shards[place_of(entry.schedule, self.plan.shards)]
            await shard.witness.apply(Changes([put]))

    async def _join(self) -> None:
        node = Node(self, self.born)
        self.born += 1
        self.nodes.append(node)
        await asyncio.gather(node.start(), self.clock.advance(0.1))

    async def _advance_to(self, passed: float) -> None:
        while (left := passed - self.clock.monotonic()) > 1e-5:
            await self.clock.advance(min(left, 0.25))
            self._watch()

    def _watch(self) -> None:
        """Notice what worlds are to reach."""
        for place in range(self.plan.shards):
            believing = [node for node in self.nodes if place in node.store.held and not node.store.dead]
            self.reach["two believed leaders"] += len(believing) > 1
        for node in self.nodes:
            session = node.store.session
            frozen = self.clock.monotonic() < node.store.frozen_until
            self.reach["frozen past the lease"] += bool(frozen and session is not None and session.ended)
            wanted = node.cluster.to_give
            self.reach["hand-over put off by a flight"] += any(
                place in node.cluster._hosts and node.cluster._hosts[place].in_flight for place in wanted
            )

    async def _act(self, action: Action) -> None:
        self.tell("act", action.kind, action.target, action.amount)
        if action.kind in EDITS:
            await self._edit(action)
            return
        node = self.nodes[int(action.target) % len(self.nodes)]
        if await self._harm(node, action) or await self._staff(node, action):
            self.reach[f"did {action.kind}"] += 1

    async def _harm(self, node: Node, action: Action) -> bool:
        """Do something to a node's way to the database, or to the database."""
        store, now = node.store, self.clock.monotonic()
        match action.kind:
            case "freeze":
                store.frozen_until = now + action.amount
                self.deceived_until[store] = now + action.amount + LEASE
            case "terminate" if store.session is not None:
                store.session.ended = True
                self.deceived_until[store] = now + LEASE
            case "cut":
                store.cut_until = now + action.amount
            case "late":
                store.late_until = now + action.amount
            case "flaky":
                store.faults = 0.1
            case "restart":
                self.database.restart(min(action.amount, 8))
                self.deceived_until |= {each.store: now + LEASE for each in self.nodes}
            case _:
                return False
        return True

    async def _staff(self, node: Node, action: Action) -> bool:
        """Change which nodes there are, or what they may lead."""
        match action.kind:
            case "kill":
                self._chore(self._replace(node, action.amount))
            case "join" if len(self.nodes) < 6:
                self._chore(self._start_another())
            case "leave" if len(self.nodes) > 1:
                self._chore(self._retire(node, action.amount))
            case "drain":
                owner = node.cluster.me.owner
                await node.store.drain(owner, owner not in self.database.draining)
            case _:
                return False
        return True

    async def _replace(self, node: Node, downtime: float) -> None:
        if node in self.nodes and not node.store.dead:
            node.kill()
            await self.clock.sleep(downtime)
            self.nodes.remove(node)
            await self._start_another()

    async def _retire(self, node: Node, downtime: float) -> None:
        if node in self.nodes and not node.store.dead:
            await node.stop()
            self.nodes.remove(node)
            await self.clock.sleep(downtime)
            await self._start_another()

    async def _start_another(self) -> None:
        while True:
            node = Node(self, self.born)
            self.born += 1
            try:
                await node.start()
            except Exception:  # noqa: BLE001 - the database may be away; another process is started then
                node.store.dead = True
                await self.clock.sleep(1)
                continue
            self.nodes.append(node)
            return

    def _chore(self, work: Any) -> None:
        task = asyncio.create_task(work, name=work.__name__)
        self.chores.add(task)
        task.add_done_callback(self.chores.discard)
        task.add_done_callback(self.look_after)

    async def _edit(self, action: Action) -> None:
        try:
            if action.kind in ("pause", "resume"):
                until = self.clock.epoch_ms() + round(action.amount * 1000) if action.amount else None
                await self.registrar.pause(action.target, action.kind == "pause", until=until)
            elif action.kind == "remove":
                await self.registrar.remove(action.target)
            elif action.kind == "trigger":
                self.asked += 1
                run = await self.registrar.trigger(action.target, f"{self.asked:064x}")
                self.database.record.promised.append(key_of(run))
            elif action.target not in self.database.record.removed:
                await self.registrar.upsert(
                    action.schedule._replace(task=action.schedule.task._replace(name="edited"))
                )
            self.reach[f"did {action.kind}"] += 1
        except UnknownScheduleError:
            self.tell("unknown", action.target)

    # The end

    async def _heal(self) -> None:
        self.tell("heal")
        self.healing = True
        self.database.draining.clear()
        self.database.down_until = 0
        for _ in range(200):
            if not self.chores:
                break
            await self._advance_to(self.clock.monotonic() + 5)
        for node in self.nodes:
            node.executor.healing = True
            node.store.heal()
        # A lease for sessions that the server still believes in, and two seconds until a free shard is taken.
        await self._advance_to(self.clock.monotonic() + LEASE + 4)
        self._check_owned()
        for due in await self.namespace.every():
            if due.schedule.paused:
                await self.registrar.pause(due.schedule.id, paused=False)
        for _ in range(6):
            await self._advance_to(self.clock.monotonic() + await self._patience())

    async def _patience(self) -> float:
        now, waits = self.clock.epoch_ms(), [5000.0]
        if self.plan.world.in_flight_max is not None:
            # A full node waits for calls, also for those whose runs have ended.
            waits += [(node.executor.until - self.clock.monotonic()) * 1000 for node in self.nodes]
        for due in await self.namespace.every():
            timeout = due.schedule.policy.run_timeout or 0
            for run in due.runs:
                flying = run.phase in IN_FLIGHT
                waits.append(((run.started_at or now) + timeout if flying else run.fire_at) - now)
        return min(max(waits), 240_000) / 1000 + 5

    def _check_owned(self) -> None:
        owners = self.database.view(None).owners
        if None in owners:
            self.namespace.complain(
                "owned", f"nobody leads the shards {[p for p, o in enumerate(owners) if o is None]}"
            )

    def _check_balance(self) -> None:
        view = self.database.view(None)
        loads = [view.owners.count(node.cluster.me.owner) for node in self.nodes]
        if max(loads) - min(loads) > 1:
            self.namespace.complain("balance", f"the loads are {loads} at rest")

    async def _judged(self) -> Result:
        self._check_owned()
        self._check_balance()
        record, now = self.database.record, self.clock.epoch_ms()
        problems = [*record.problems, *self._calls_judged()]
        dues = await self.namespace.every()
        for case in cases(record, self.calls):
            judges = [judge for judge in JUDGES if judge is not attempts]
            problems += [f"{judge.__name__}: {case.id} {text}" for judge in judges for text in judge(case)]
        problems += [f"settled: {due.schedule.id} {text}" for due in dues for text in settled(due, now)]
        problems += [
            f"launched: {key} attempt {attempt} was never made" for key, attempt in sorted(record.pending)
        ]
        adopted = sum(record.adopted.values())
        self.reach["orphan adopted"] += adopted
        self.reach["orphan adopted after hand-over"] += bool(adopted and self.reach["hand-over"])
        days = self.clock.monotonic() / 86_400
        return Result(problems, self.trace, self.reach, days, self.calls, dues)

    def _calls_judged(self) -> list[str]:
        """Each attempt is called once; under `at_most_once` another judge looks at keys."""
        made = Counter((call.key, call.attempt) for call in self.calls)
        return [f"attempts: {call} was made {count} times" for call, count in made.items() if count > 1]

    async def _end(self) -> None:
        for node in self.nodes:
            node.kill()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)


def run_nodes(plan: Plan) -> Result:
    """Return what happens in a world with several nodes, judged."""

    async def story() -> Result:
        return await Town(plan).run()

    return asyncio.run(story())
