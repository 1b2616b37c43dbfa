"""Rows <-> values: which columns there are, in which order, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dutiful.core.errors import CodecError, quoted
from dutiful.core.policy import Overlap, Reason
from dutiful.core.run import Kind, Phase, Run, Status
from dutiful.core.schedule import SkippedRange, State
from dutiful.core.snapshot import Due
from dutiful.stores.codec import revive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.core.schedule import Schedule
    from dutiful.stores.codec import Shared

SCHEDULE_COLUMNS = (
    "number, id, checksum, task, payload, cadence_number, policy_number, window_start, window_end, paused"
)
STATE_COLUMNS = (
    "version, cursor, runs_started, attempted_at, succeeded_at, failed_at, ended_at, quarantine,"
    " skipped_at, skipped_reason, skipped_ticks, decided_until"
)
READ_COLUMNS = f"{SCHEDULE_COLUMNS}, {STATE_COLUMNS}, blocked, pruned_until, inline_at, inline_epoch"
RUN_COLUMNS = (
    "run_at, kind, status, phase, fire_at, reason, attempt, epoch, started_at, ended_at, run_until, ticks,"
    " run_id, detail, updated_at"
)
# Written with a new row and never again, so that the index of the keys is left alone.
BIRTH_COLUMNS = "backfill, key, created_at"
ALL_RUN_COLUMNS = f"{RUN_COLUMNS}, {BIRTH_COLUMNS}"

Row = tuple[Any, ...]

_KINDS: Mapping[str, Kind] = {"schedule": "schedule", "manual": "manual"}
_STATUSES = {status.value: status for status in Status}
_PHASES = {phase.value: phase for phase in Phase}
_REASONS: Mapping[str | None, Reason | None] = {None: None, **{reason.value: reason for reason in Reason}}


_STARTED, _LAUNCHED = Status.STARTED, Phase.LAUNCHED
_OVERLAPS: Mapping[str | None, Overlap | None] = {None: None, **{each.value: each for each in Overlap}}


def group_of(schedule: Schedule) -> str | None:
    """Return the name of the capacity group, if there is one."""
    capacity = schedule.policy.capacity
    return None if capacity is None else capacity.group


def read_due(row: Row, texts: Mapping[tuple[int, int], Shared]) -> Due:
    """Return what READ_COLUMNS hold, without the runs that have rows, or raise CodecError."""
    (
        number, schedule_id, checksum, task, payload, cadence, policy, start, end, paused,
        version, cursor, started, attempted, succeeded, failed, ended, quarantine,
        skipped_at, reason, ticks, decided, blocked, pruned, inline_at, inline_epoch,
    ) = row  # fmt: skip
    schedule = revive(schedule_id, texts[cadence, policy], task, payload, start, end, paused, checksum)
    skipped = None if skipped_at is None else _skipped(skipped_at, reason, ticks)
    # A named tuple's own constructor takes twice as long.
    state = tuple.__new__(
        State, (cursor, started, attempted, succeeded, failed, ended, skipped, quarantine, decided)
    )
    runs = () if inline_at is None else (inline_run(schedule_id, inline_at, inline_epoch, attempted),)
    return tuple.__new__(Due, (schedule, state, runs, version, blocked == 1, pruned, (), number))


def inline_run(schedule_id: str, inline_at: int, inline_epoch: int, attempted_at: int) -> Run:
    """Return the run that a state tells of: a tick that went off at the last attempt."""
    return tuple.__new__(Run, (
        schedule_id, inline_at, "schedule", _STARTED, _LAUNCHED, inline_at, None, 1, inline_epoch,
        attempted_at, None, None, 1, None, None, None, None, None, None,
    ))  # fmt: skip


def _skipped(run_at: int, reason: str, ticks: int) -> SkippedRange:
    known = _REASONS.get(reason)
    if known is None:
        raise CodecError("state", f"the reason {quoted(reason)!r} is unknown")
    return SkippedRange(run_at, known, ticks)


def read_run(schedule_id: str, row: Row) -> Run:
    """Return what ALL_RUN_COLUMNS hold, or raise CodecError."""
    run_at, kind, status, phase, fire_at, reason, *rest, backfill, key, created_at = row
    own_key = key.hex() if kind == "manual" and key is not None else None
    try:
        words = _KINDS[kind], _STATUSES[status], _PHASES[phase], fire_at, _REASONS[reason]
        return Run._make((schedule_id, run_at, *words, *rest, _OVERLAPS[backfill], own_key, created_at))
    except KeyError as error:
        raise CodecError(f"run at {run_at}", f"the word {quoted(error.args[0])!r} is unknown") from error


def state_columns(state: State) -> Row:
    """Return the values of STATE_COLUMNS, all but the version."""
    cursor, started, attempted, succeeded, failed, ended, skipped, quarantine, decided = state
    run_at, reason, ticks = skipped if skipped is not None else (None, None, None)
    shown = None if reason is None else reason.value
    problem = _storable(quarantine)
    return cursor, started, attempted, succeeded, failed, ended, problem, run_at, shown, ticks, decided


def run_columns(run: Run) -> Row:
    """Return the values of RUN_COLUMNS; plain strings, because binding an enum is slow."""
    _, run_at, kind, status, phase, fire_at, reason, *rest, run_id, detail, updated_at, _, _, _ = run
    shown = None if reason is None else reason.value
    texts = _storable(run_id), _storable(detail)
    return run_at, kind, status.value, phase.value, fire_at, shown, *rest, *texts, updated_at


def birth_columns(run: Run) -> Row:
    """Return the values of BIRTH_COLUMNS; runs that leave no ledger need no key to be found by."""
    backfill = None if run.backfill is None else run.backfill.value
    findable = run.own_key is not None or run.created_at is not None
    return backfill, bytes.fromhex(run.key) if findable else None, run.created_at


def _storable(text: str | None) -> str | None:
    # What a task says of its failure may hold half a surrogate pair, such as from a file name.
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()
