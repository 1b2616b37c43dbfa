"""A launcher with every behaviour: quick, slow, failing, silent, lying, or absent."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tests.sim.gate import RIVAL
from tests.sim.recorder import key_of

from dutiful.core.errors import StoreError
from dutiful.core.plan.outcome import (
    Accepted,
    Failed,
    NoWork,
    Outcome,
    Refused,
    Settlement,
    Succeeded,
    Unanswered,
    Unreached,
    settle,
)
from dutiful.core.policy import Reason
from dutiful.core.run import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.recorder import Key, Recorder
    from tests.sim.world import World

    from dutiful.core.run import Run
    from dutiful.runtime.ports import Launch
    from dutiful.testing import VirtualClock

RAISED = (
    ValueError("no"),
    SystemExit(1),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    BaseException("own"),
)
ANSWERS = {
    "quick": Succeeded(),
    "fail": Failed("as drawn"),
    "no_work": NoWork(),
    "refused": Refused(Reason.LAUNCH_REFUSED),
    "unknown_workflow": Refused(Reason.UNKNOWN_WORKFLOW),
    "unreached": Unreached("as drawn"),
    "rubbish": None,
}


class Call(NamedTuple):
    """One invocation: when, by which engine, for which run, and how it was meant to go."""

    wall: int
    passed: float
    engine: int | None
    key: Key
    attempt: int
    manner: str


class Executor:
    """What the engine launches with; one object outlives all engines, as an executor would."""

    def __init__(
        self,
        world: World,
        clock: VirtualClock,
        recorder: Recorder,
        wake: Callable[[], None],
        now,
        tell,
        look_after,
    ) -> None:
        self.in_process, self._most = world.in_process, world.in_flight_max
        self._seed, self._clock, self._recorder = world.seed, clock, recorder
        self._entries = {entry.schedule.id: entry for entry in world.entries}
        self._wake, self._now, self._tell, self._look_after = wake, now, tell, look_after
        self._again_after = max(5, world.horizon / 100)
        self.healing = False
        # Which engine is alive, if any.
        self.engine: int | None = None
        self.calls: list[Call] = []
        # Calls in flight that were not cancelled.
        self.ongoing: set[tuple[Key, int]] = set()
        self.reports: set[asyncio.Task[None]] = set()
        # When the last of the calls that end by themselves has ended, in seconds that passed.
        self.until = 0.0

    async def launch(self, launch: Launch) -> Outcome:
        rng = Random(f"{self._seed}:{key_of(launch.run)}:{launch.run.attempt}")
        manner, lasts = self._draw(launch, rng)
        with self._clock.hold():
            await self._note(launch, manner)
        call = key_of(launch.run), launch.run.attempt
        if any(key == call[0] for key, _ in self.ongoing):
            self._recorder.complain("twice", f"{call} began beside another attempt")
        self.ongoing.add(call)
        given_up_after = (launch.schedule.policy.run_timeout or 0) / 1000 + 2
        ends = lasts + (given_up_after if manner in ("hang", "stubborn") else 0)
        self.until = max(self.until, self._clock.monotonic() + ends)
        self._check_most()
        carrier = self.engine
        try:
            return await self._behave(launch, manner, lasts, rng)
        except asyncio.CancelledError:
            if manner != "raise" and self.engine == carrier:
                self._check_given_up(launch.run)
            raise
        finally:
            self.ongoing.discard(call)

    def _draw(self, launch: Launch, rng: Random) -> tuple[str, float]:
        entry = self._entries.get(launch.run.schedule_id)
        if self.healing or entry is None:
            return "quick", 0.0
        return rng.choice(entry.manners), round(rng.uniform(0, entry.lasts), 3)

    async def _note(self, launch: Launch, manner: str) -> None:
        run, (wall, passed) = launch.run, self._now()
        key = key_of(run)
        self.calls.append(Call(wall, passed, self.engine, key, run.attempt, manner))
        self._tell("call", *key, run.attempt, manner)
        self._recorder.record.pending.discard((key, run.attempt))
        row = await self._recorder.peek(key)
        # What was recorded before the lead was lost may still be on its way.
        if self._recorder.owner == RIVAL and run.epoch == self._recorder.epoch:
            self._recorder.complain("leads", f"{key} was launched while another instance led")
        if key[0] not in self._recorder.record.removed:
            if row is None or (row.attempt, row.phase) != (run.attempt, Phase.LAUNCHED):
                self._recorder.complain("durable", f"{key} was launched while its row was {row}")
            # What fell due, and has waited for its turn, was not early when the clock was set back.
            latest = max(seen.wall for seen in self._recorder.record.history[key])
            if run.attempt == 1 and max(run.started_at or 0, latest) < run.fire_at:
                self._recorder.complain(
                    "early", f"{key} was launched at {run.started_at}, before {run.fire_at}"
                )

    def _check_most(self) -> None:
        """No more calls are made at once than allowed, beside those that are being cancelled."""
        history = self._recorder.record.history
        flying = [call for call in sorted(self.ongoing) if history[call[0]][-1].row.phase is not Phase.ENDED]
        if self._most is not None and len(flying) > self._most:
            self._recorder.complain("in_flight_max", f"{flying} are in flight at once")

    def _check_given_up(self, run: Run) -> None:
        """A run is cancelled because it is over, or because another instance may carry it."""
        record = self._recorder.record
        row = record.history[key_of(run)][-1].row
        still = (row.phase, row.attempt, row.epoch) == (Phase.LAUNCHED, run.attempt, self._recorder.epoch)
        if still and run.schedule_id not in record.removed:
            self._recorder.complain("saved", f"{key_of(run)} was cancelled, and its row is {row}")

    async def _behave(self, launch: Launch, manner: str, lasts: float, rng: Random) -> Outcome:
        match manner:
            case "slow":
                await self._clock.sleep(lasts)
                return Succeeded()
            case "raise":
                raise rng.choice(RAISED)
            case "hang":
                await asyncio.Event().wait()
            case "stubborn":
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    # It was told, and does not listen.
                    self.ongoing.discard((key_of(launch.run), launch.run.attempt))
                    await self._clock.sleep(lasts)
                return Succeeded()
            case "unanswered":
                # It may have been taken all the same, and then there will be a report.
                if rng.random() < 0.5:
                    self._report_later(launch, lasts, Succeeded())
                return Unanswered()
            case "overtake":
                self._report_later(launch, 0, Succeeded())
                await self._clock.sleep(lasts)
                return Accepted("overtaken")
            case "accept_never":
                return Accepted("silence")
            case "accept" | "accept_fail" | "repeat":
                self._report_later(launch, lasts, Failed() if manner == "accept_fail" else Succeeded())
                if manner == "repeat":
                    self._report_later(launch, lasts * 2, Failed("said twice"))
                return Accepted("taken")
        return ANSWERS[manner]  # type: ignore[return-value]

    def _report_later(self, launch: Launch, after: float, outcome: Outcome) -> None:
        task = asyncio.create_task(self._report(launch, after, outcome), name="report")
        task.add_done_callback(self._look_after)
        self.reports.add(task)
        task.add_done_callback(self.reports.discard)

    async def _report(self, launch: Launch, after: float, outcome: Outcome) -> None:
        """Report to the store how a run ended, as an executor does, whichever process leads."""
        await self._clock.sleep(after + 0.001)
        while True:
            ended = settle(launch.run, outcome, launch.schedule.policy, self._now()[0])
            try:
                with self._clock.hold():
                    heard = await self._recorder.report(launch.run, Settlement(ended, keep=True))
            except StoreError:
                await self._clock.sleep(self._again_after)
                continue
            self._tell("report", *key_of(launch.run), launch.run.attempt, heard)
            self._wake()
            return
