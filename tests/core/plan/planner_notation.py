"""A short way to write down what the planner is shown and what it answers.

Times are "10:01" or "10:01:30" of one Monday in UTC; `shown(move)` is a whole Move as one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dutiful.core.cron.cron import Cron
from dutiful.core.plan.planner import Batch, plan
from dutiful.core.policy import NO_OVERRIDES, Overrides, Policy
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import Schedule, State, Task, Window
from dutiful.core.snapshot import Limits, Move, Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

MONDAY = 1_767_571_200_000  # 2026-01-05T00:00Z
MINUTELY = Cron.parse("* * * * *")
EPOCH = 7
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def at(clock: str) -> int:
    """Return the instant of a wall time such as "10:01", "10:01:30" or "1+10:01" (a day later)."""
    day, _, time = clock.rpartition("+")
    hours, minutes, seconds = [*map(float, time.split(":")), 0.0][:3]
    return MONDAY + int(day or 0) * 24 * HOUR + round(((hours * 60 + minutes) * 60 + seconds) * 1000)


def clock(instant: int) -> str:
    """Return how `at` would write an instant."""
    days, rest = divmod(instant - MONDAY, 24 * HOUR)
    minutes, milliseconds = divmod(rest, MINUTE)
    text = f"{days}+" * bool(days) + f"{minutes // 60:02}:{minutes % 60:02}"
    return text + f":{milliseconds / 1000:06.3f}".rstrip("0").rstrip(".") * bool(milliseconds)


def schedule(
    cadence: Any = MINUTELY, id_: str = "s", window: Window | None = None, **policy: Any
) -> Schedule:
    paused, until = policy.pop("paused", False), policy.pop("pause_until", None)
    return Schedule(id_, Task("task"), cadence, Policy(**policy), window or Window(), paused, until)


def run(tick: str, phase: Phase = Phase.LAUNCHED, **changes: Any) -> Run:
    """Return a recorded run: by default one that was launched at its tick, under the present epoch."""
    flying = phase in (Phase.LAUNCHED, Phase.ACCEPTED)
    tried = flying or phase is Phase.RETRY
    known = Run(
        "s", at(tick), "schedule", Status.STARTED if flying else Status.ENQUEUED, phase, at(tick),
        attempt=int(tried), epoch=EPOCH, started_at=at(tick) if tried else None,
    )  # fmt: skip
    return known._replace(**changes)


def decided(
    declared: Schedule,
    now: str,
    cursor: str,
    *runs: Run,
    used: dict[str, int] | None = None,
    blocked: bool = False,
    repeated: Sequence[Run] = (),
    overrides: Overrides = NO_OVERRIDES,
    **state: Any,
) -> Move:
    """Return the move that the planner makes for one schedule; `blocked` is what its last move said."""
    due = Snapshot(declared, State(at(cursor), **state), runs, blocked=blocked, repeated=repeated)
    (move,) = plan(Batch([due], used or {}), at(now), Limits(EPOCH, overrides=overrides))
    return move


def shown(move: Move) -> str:
    """Return a move as one line, such as "launch 10:01; cursor 10:01; wake 10:02"."""
    parts = [_insert(row) for row in move.inserts]
    parts += [_change(row) for row in move.changes]
    parts += [f"cancel {clock(row.run_at)}" for row in move.cancels]
    parts.append(f"cursor {clock(move.state.cursor)}")
    parts.append("wake never" if move.wake_at is None else f"wake {clock(move.wake_at)}")
    return "; ".join(parts + ["blocked"] * move.blocked)


def _insert(row: Run) -> str:
    match row.phase:
        case Phase.LAUNCHED:
            return f"launch {clock(row.run_at)}"
        case Phase.QUEUED:
            return f"queue {clock(row.run_at)}"
        case Phase.DELAYED:
            return f"delay {clock(row.run_at)} to {clock(row.fire_at)}"
        case _:
            return f"skip {_stretch(row)}"


def _change(row: Run) -> str:
    match row.phase:
        case Phase.LAUNCHED:
            return f"attempt {row.attempt} of {clock(row.run_at)}"
        case Phase.QUEUED:
            return f"queue {clock(row.run_at)}"
        case Phase.ENDED if row.status is Status.SKIPPED and row.started_at is None and row.run_until:
            return f"more {_stretch(row)}"
        case _:
            return f"{row.status} {row.reason} {clock(row.run_at)}"


def _stretch(row: Run) -> str:
    until = f"-{clock(row.run_until)} x{row.ticks}" if row.run_until is not None else ""
    return f"{row.reason} {clock(row.run_at)}{until}"
