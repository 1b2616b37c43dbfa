"""One seed decides everything: the date, the zones, the schedules, their policies, and the faults."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

from tests.sim.declared import SHARE, as_declared
from tests.sim.encounters import with_encounters
from tests.sim.oracle import offsets
from tests.sim.requests import with_requests
from tests.sim.world import BROKEN, DEPOSED, LABELS, Action, Entry, Faults, World

from dutiful.core.cadence import Cadence, Every, Once, OnDemand
from dutiful.core.cron.cron import Cron
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task, Window

ZONES = (
    "America/New_York", "America/St_Johns", "America/Havana", "Europe/Berlin", "Europe/Dublin",
    "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza", "Asia/Kathmandu", "Pacific/Kiritimati", "UTC",
)  # fmt: skip
DATES = ("2024-02-28T20:00", "2025-12-31T20:00", "2028-02-29T00:00", "2027-02-28T23:00", "2026-06-15T09:00")
MINUTE, HOUR, DAY = 60, 3600, 86_400


class Scale(NamedTuple):
    """How dense a world is: the usual distance of ticks and the length of a world, in seconds."""

    unit: int
    horizon: tuple[int, int]
    # Texts of the dialects posix, standard and seconds.
    posix: tuple[str, ...]
    standard: tuple[str, ...]
    seconds: tuple[str, ...]


SCALES = (
    Scale(
        30,
        (4 * MINUTE, 20 * MINUTE),
        ("* * * * *", "0-29,31-59 * * * *"),
        ("*/2 * * * *", "1/3 * * * *"),
        ("*/15 * * * * *", "7,30 * * * * *", "0 */2 * * * *"),
    ),
    Scale(
        15 * MINUTE,
        (4 * HOUR, 12 * HOUR),
        ("0,30 * * * *", "15 * * * *", "10,50 1,2,3 * * *"),
        ("*/10 * * * *", "5-50/15 0-6,20-23 * * *", "@hourly"),
        ("30 */20 * * * *", "59 59 * * * *"),
    ),
    Scale(
        6 * HOUR,
        (3 * DAY, 12 * DAY),
        ("30 1,2 * * *", "0 0 * * *", "30 2 * * *", "15 0,1,2,3 * * 0"),
        ("0 */3 * * *", "0 9 * * mon-fri", "45 23 * * sun", "@daily"),
        ("59 59 1,2,23 * * *", "1 0 0,12 * * *"),
    ),
    Scale(
        4 * DAY,
        (40 * DAY, 500 * DAY),
        ("0 0 29 2 *", "59 23 31 12 *", "30 2 1,15 * *", "0 0 13 * 5"),
        ("@weekly", "@monthly", "@yearly", "0 1 * * 7"),
        ("30 30 2 */5 * *",),
    ),
)
MANNERS = {
    "well": ("quick", "slow"),
    "badly": ("quick", "slow", "fail", "raise", "rubbish", "no_work", "refused", "unknown_workflow"),
    "remotely": ("accept", "accept_fail", "overtake", "repeat", "unreached", "unanswered", "quick"),
    "silently": ("quick", "slow", "hang", "stubborn", "accept_never", "fail"),
}
EVENTS = (
    "crash",
    "crash",
    "kill",
    "rival",
    "stop",
    "jump",
    "far",
    "edit",
    "overtake",
    "pause",
    "outage",
    "prune",
    "remove",
    "add",
)


def world_of(seed: int) -> World:
    """Return the world of a seed."""
    genesis = Genesis(seed)
    world = genesis.world()
    if Random(f"door:{seed}").random() >= SHARE:
        return genesis.with_encounters(world)
    return as_declared(world, genesis.scale.posix, genesis.zone, genesis.scale.unit)


class Genesis:
    """Draws a world."""

    def __init__(self, seed: int) -> None:
        self._seed, self._rng = seed, Random(seed)
        self.scale = self._rng.choice(SCALES)
        self._horizon = self._rng.randint(*self.scale.horizon)
        self.zone = self._rng.choice(ZONES)
        self._start = self._draw_start()

    def world(self) -> World:
        rng = self._rng
        entries = [self._entry(f"s{number}") for number in range(rng.randint(1, 5))]
        actions = self._actions(entries)
        if rng.random() < 0.05:
            broken = Schedule(BROKEN, Task("task"), Every(0, "start"))
            entries.append(Entry(broken, ("quick",), 1))
        rates = (0.0, 0.0, 0.03, 0.15)
        # By a generator of its own, so that the other draws stay those of every earlier world.
        locked = Random(f"locks:{self._seed}").choice((0, 0, 0, 0.1))
        faults = Faults(rng.choice(rates), rng.choice(rates), rng.choice((0, 0, 0.3)), locked)
        in_process, batch = rng.random() < 0.6, rng.choice((1, 2, 100))
        # A full engine looks every second, which takes long where runs hang for days.
        full = rng.choice((None, 1, 3)) if self.scale.unit < HOUR else None
        world = World(self._seed, self._start, self._horizon, tuple(entries), actions, faults)
        return world._replace(in_process=in_process, batch=batch, in_flight_max=full)

    def with_encounters(self, world: World) -> World:
        return with_requests(with_encounters(world, self._rng, self.scale.unit, self._cron), self.scale.unit)

    def _draw_start(self) -> int:
        """Return an instant shortly before something happens to the calendar or to the zone's clocks."""
        rng = self._rng
        changes = [at for at, _, _ in offsets(self.zone).changes if at > 1_600_000_000][:20]
        if changes and rng.random() < 0.6:
            anchor = rng.choice(changes)
        elif rng.random() < 0.7:
            anchor = int(datetime.fromisoformat(rng.choice(DATES)).replace(tzinfo=UTC).timestamp())
        else:
            anchor = rng.randrange(1_600_000_000, 1_900_000_000)
        return (anchor - rng.randrange(self._horizon)) * 1000 + rng.choice((0, 0, 1, 500, 999))

    # Schedules

    def _entry(self, id_: str) -> Entry:
        rng, unit = self._rng, self.scale.unit
        known = MANNERS[rng.choice(list(MANNERS))]
        manners = tuple(rng.sample(known, rng.randint(1, len(known))))
        cadence = self._cadence()
        schedule = Schedule(
            id_, Task("task"), cadence, self._policy(), self._window(cadence), rng.random() < 0.05
        )
        owed = rng.choice((0, 0, 0, 2, 15)) * unit * 1000
        return Entry(schedule, manners, rng.choice((1, unit // 2, unit * 2)), owed)

    def _cadence(self) -> Cadence:
        rng, unit = self._rng, self.scale.unit
        kind = rng.choice(("cron",) * 6 + ("start", "completion", "completion", "once", "demand"))
        if kind == "cron":
            return self._cron()
        if kind in ("start", "completion"):
            return Every(max(5, int(unit * rng.choice((0.5, 1, 2)))) * 1000, kind)
        if kind == "once":
            return Once(self._start + rng.randrange(-self._horizon // 10, self._horizon) * 1000)
        return OnDemand()

    def _cron(self) -> Cron:
        rng = self._rng
        dialect = rng.choice(("posix", "standard", "seconds"))
        text = rng.choice(getattr(self.scale, dialect))
        zone = self.zone if rng.random() < 0.8 else rng.choice(ZONES)
        if rng.random() < 0.2:
            return Cron.parse(text, dialect, zone, dst="vixie")
        gap, fold = rng.choice(("skip", "run_after")), rng.choice(("both", "first", "last"))
        return Cron.parse(text, dialect, zone, gap, fold)

    def _window(self, cadence: Cadence) -> Window:
        rng, horizon = self._rng, self._horizon
        if rng.random() < 0.8 or isinstance(cadence, Every):
            return Window()
        drawn = [self._start + rng.randrange(-horizon // 4, horizon * 5 // 4) * 1000 for _ in range(2)]
        return Window(rng.choice((None, min(drawn))), rng.choice((None, max(drawn))))

    def _policy(self) -> Policy:
        rng, unit = self._rng, self.scale.unit * 1000
        on_orphan = rng.choice(list(OnOrphan))
        return Policy(
            overlap=rng.choice(list(Overlap)),
            catch_up=rng.choice(list(CatchUp)),
            grace=rng.choice((60_000, 60_000, 10_000, 2 * unit)),
            catch_up_cap=rng.choice((1, 3, 100)),
            jitter=rng.choice((0, 0, 0, unit // 7, 3 * unit)),
            jitter_early=rng.random() < 0.5,
            **self._retries(on_orphan),
            capacity=rng.choice((None, None, Capacity("g", 1), Capacity("g", 2), Capacity("h", 1))),
            max_runs=rng.choice((None, None, None, 1, 4)),
            on_orphan=on_orphan,
            run_timeout=rng.choice((3, 5)) * unit,
            queue_limit=rng.choice((0, 1, 3, 1000)),
            ledger=rng.random() < 0.85,
        )

    def _retries(self, on_orphan: OnOrphan) -> dict[str, Retry]:
        """Return how tasks, and how launches, are tried again."""
        rng, unit = self._rng, self.scale.unit * 1000
        if rng.random() < 0.4:
            return {}
        # At most once means that a task which may have run is not run again.
        of = (
            ("launch",)
            if on_orphan is OnOrphan.GIVE_UP
            else rng.choice((("task",), ("launch",), ("task", "launch")))
        )
        names = {"task": "retry", "launch": "launch_retry"}
        return {
            names[each]: Retry(rng.choice((0, 1000, unit // 3, unit)), rng.choice((1, 3)), rng.choice((1, 2)))
            for each in of
        }

    # What happens

    def _actions(self, entries: list[Entry]) -> tuple[Action, ...]:
        """Return what happens: each class of events is on or off, so that rare pairs meet."""
        rng = self._rng
        kinds = [kind for kind in EVENTS if rng.random() < 0.3]
        made: list[Action] = []
        for _ in range(rng.randint(0, 8) if kinds else 0):
            made += self._action(
                rng.choice(kinds), rng.uniform(0, self._horizon), rng.choice(entries).schedule
            )
        return tuple(sorted(made, key=lambda action: action.at))

    def _action(self, kind: str, at: float, some: Schedule) -> list[Action]:
        rng, unit = self._rng, self.scale.unit
        away = rng.choice((1.5, 20, 3 * MINUTE, unit * 1.5, unit * 12))
        match kind:
            case "crash":
                label = rng.choice(LABELS)
                # Leadership begins with a process, so there must be a new one.
                kill = [Action(at + 1, "kill", 1)] if label == "led" else []
                return [Action(at, kind, away, label), *kill]
            case "rival":
                # The shortest: the lock is lost, and free to be taken again at once.
                seconds = 0 if away == 1.5 else min(away, 3 * MINUTE)
                return [Action(at, kind, seconds, rng.choice(DEPOSED))]
            case "outage":
                return [Action(at, kind, min(away, 3 * MINUTE))]
            case "jump":
                return [Action(at, kind, rng.choice((away, -min(away, unit * 20, 20 * HOUR))))]
            case "far":
                # Early enough for the same instants to come round again, some of them forgotten.
                prune = [Action(at / 2, "prune")] * rng.randint(0, 1)
                return [*prune, Action(at / 2, "jump", -rng.uniform(25, 80) * HOUR)]
            case "pause":
                end = at + rng.choice((10, unit * 4))
                if int(at) % 2:
                    # The pause has an end of its own.
                    return [Action(at, kind, end - at, some.id)]
                return [Action(at, kind, 0, some.id), Action(end, "resume", 0, some.id)]
            case "edit" | "overtake":
                return [Action(at, kind, 0, some.id, self._edited(some))]
            case "add":
                added = self._entry(f"a{rng.randrange(1000)}").schedule._replace(paused=False)
                return [Action(at, kind, 0, added.id, added)]
            case _:
                return [Action(at, kind, away, some.id)]

    def _edited(self, old: Schedule) -> Schedule:
        if self._rng.random() < 0.5 and old.id != BROKEN:
            return old._replace(cadence=self._cadence(), window=Window())
        changed = self._policy()
        return old._replace(policy=replace(changed, capacity=old.policy.capacity, ledger=old.policy.ledger))
