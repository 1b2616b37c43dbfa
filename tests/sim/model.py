"""The formal model beside a declared world: its trace in the alphabet of `dutiful.monitor`, judged.

What the store holds counts: a run starts when it is recorded as launched, and ends when it ended, as
its row says. A crash, and the loss of the lead, is a Crash; a list that the store took after a new
lead is an InitSuccess; a forward step of the clock is time that was not granted. The model ends where
the clock is set back: it has no word for that. Lists that must be refused, and how long initialize may
take, are the door's own matter, not the engine's: S4, S5 and L2 are judged in tests/spec.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.sim.gate import RIVAL

from dutiful.core.cron.cron import Cron
from dutiful.monitor import check

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.sim.world import World

    Lines = Iterable[tuple[Any, ...]]
    Steps = list[dict[str, Any]]

# Nothing takes time in a world without faults; a store that fails often makes a start late, by some passes
# of one second each.
PROMPT, LAG = 1, 120
AXIOMS = ("S1", "S2", "S3", "S6", "L1", "L3")


def judge(world: World, lines: Lines) -> tuple[list[str], Counter[str]]:
    """Return the axioms that a world broke, and how often each of them was put to the test."""
    steps, end = steps_of(lines)
    registrations = {
        str(n): [
            (task.id, task.cadence.text, task.policy.retry.delay / 1000)  # type: ignore[union-attr]
            for task in tasks
        ]
        for n, tasks in enumerate(world.lists)
    }
    found = check(steps, registrations=registrations, timezone=_zone(world), lag=_lag(world), end=end)
    return [f"model: {axiom} {message}" for axiom, _, message in found], exercised(steps)


def _lag(world: World) -> float:
    faults = world.faults
    usual = LAG if faults.before or faults.after or faults.locked else PROMPT
    return usual + sum(action.amount for action in world.actions if action.kind in ("outage", "rival"))


def _zone(world: World) -> Any:
    crons = [task.cadence for tasks in world.lists for task in tasks]
    return next((cron.zone.tzinfo for cron in crons if isinstance(cron, Cron)), "UTC")


def steps_of(lines: Lines) -> tuple[Steps, float]:
    """Return the steps of a world's trace, and the instant until which it is one."""
    reader = _Reader()
    for line in lines:
        if line[2:4] == ("act", "jump") and line[5] < 0:
            break
        reader.read(*line[1:])
    # A run ends before its end is recorded, with a store that fails maybe long before.
    return sorted(reader.steps, key=lambda step: step["at"]), reader.now


class _Reader:
    """Turns the lines of a trace into steps of the model."""

    def __init__(self) -> None:
        self.steps: Steps = []
        self.now = 0.0
        self._list = "0"
        self._led = self._initialized = False
        self._flying: dict[tuple[Any, ...], int] = {}

    def read(self, wall: int, what: str, *details: Any) -> None:
        self.now = wall / 1000
        match what, details:
            case "act", ("jump", _, seconds):
                self._add("Frozen")
                self._add("Unfrozen", at=self.now + seconds)
            case "boot", (_, number):
                self._list = str(number)
            case "lead", (owner, _):
                # The lead was lost before, also where the same process has taken it again.
                self._crash()
                self._led = owner != RIVAL
            case "applied", () if self._led and not self._initialized:
                self._initialized = True
                self._add("InitStart", list=self._list)
                self._add("InitSuccess", list=self._list)
            case "stopping", () if self._initialized:
                self._add("StopStart")
            case "stopped", (left,) if self._initialized and not left:
                self._add("StopEnd")
                self._led = self._initialized = False
            case (("crash" | "stopped"), _):
                self._crash()
            case "row", _:
                self._row(*details)

    def _crash(self) -> None:
        if self._initialized:
            self._add("Crash")
        self._led = self._initialized = False

    def _row(
        self, task: str, run_at: int, kind: str, phase: str, reason: Any, attempt: int, *rest: Any
    ) -> None:
        key, ended_at = (task, run_at, kind), rest[-1]
        before = self._flying.pop(key, None)
        if phase == "launched":
            self._flying[key] = attempt
            if before != attempt:
                self._add("RunStart", task=task)
        elif before is not None:
            name = "RunSuccess" if reason is None else "RunFailure"
            self._add(name, task=task, at=ended_at / 1000)

    def _add(self, name: str, **details: Any) -> None:
        self.steps.append({"name": name, "at": self.now, **details})


def exercised(steps: Sequence[dict[str, Any]]) -> Counter[str]:
    """Return how often the axioms had something to forbid or to demand."""
    found = Counter(f"model {step['name']}" for step in steps)
    running: set[str] = set()
    succeeded: set[str] = set()
    for step in steps:
        match step["name"]:
            case "RunStart":
                # Allowed by S1, and demanded by L1.
                found.update(("axiom S1", "axiom L1"))
                running.add(step["task"])
            case "RunSuccess":
                found["axiom S2"] += step["task"] in succeeded
                succeeded.add(step["task"])
                running.discard(step["task"])
            case "RunFailure":
                running.discard(step["task"])
            case "StopStart":
                # Both have something to say only where a stop has something to wait for.
                found.update({"axiom S3": bool(running), "axiom L3": bool(running)})
            case "Crash":
                found["model orphan"] += len(running)
                running.clear()
            case "InitSuccess":
                found["axiom S6"] += 1
    return found
