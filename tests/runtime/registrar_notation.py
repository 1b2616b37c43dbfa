"""A registrar on a rig, and short ways to say what became of its schedules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.core.plan.planner_notation import at, clock
from tests.sim.rig import Rig

from dutiful.core.plan.outcome import Succeeded
from dutiful.core.run import Run, Status
from dutiful.runtime.registrar import Registrar

if TYPE_CHECKING:
    from dutiful.core.plan.outcome import Outcome
    from dutiful.core.plan.verdict import Verdict
    from dutiful.core.schedule import Schedule
    from dutiful.runtime.ports import Launch


def registrar(rig: Rig) -> Registrar:
    """Return a registrar that writes to the rig's store and wakes its engine."""
    return Registrar(rig.store, rig.time, rig.engine.wake)


def slow_rig(seconds: float, *schedules: Schedule) -> Rig:
    """Return a rig whose runs take this long."""

    async def behave(_: Launch) -> Outcome:
        await rig.time.sleep(seconds)
        return Succeeded()

    rig = Rig(*schedules, behave=behave)
    return rig


def answering_rig(outcome: Outcome, *schedules: Schedule) -> Rig:
    """Return a rig whose launches all end with this outcome, at once."""

    async def behave(_: Launch) -> Outcome:
        return outcome

    return Rig(*schedules, behave=behave)


async def stretches(rig: Rig, id_: str = "s") -> list[str]:
    """Return the skipped rows, oldest first, as "paused 10:01-10:05 x5"."""
    rows = await rig.store.ledger(id_, None, 1000)
    return [_stretch(row) for row in rows[::-1] if row.status is Status.SKIPPED]


def _stretch(row: Run) -> str:
    until = f"-{clock(row.run_until)}" if row.run_until is not None else ""
    return f"{row.reason} {clock(row.run_at)}{until} x{row.ticks}"


def utc(when: str) -> datetime:
    """Return a time of the rig's Monday as a datetime."""
    return datetime.fromtimestamp(at(when) / 1000, UTC)


async def explained(rig: Rig, when: str | datetime) -> Verdict:
    """Return the verdict on the schedule "s" at this time."""
    return await registrar(rig).explain("s", utc(when) if isinstance(when, str) else when)


async def crash_and_boot(rig: Rig, down: float) -> None:
    """Be down for so many seconds, and a second later."""
    await rig.crash()
    await rig.time.advance(down)
    rig.boot()
    await rig.time.advance(1)
