"""Rows <-> values. The columns of each table are the fields of its type, in the same order.

A new field of `Run`, `State` or `Note` needs a column of the same name in the schema, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dutiful.core.changes import Note
from dutiful.core.errors import CodecError, ImpossibleKey, OvertakenError, StoreError, quoted
from dutiful.core.policy import Overlap, Reason
from dutiful.core.run import Kind, Phase, Run, Status
from dutiful.core.schedule import Alike, SkippedRange, State, Window
from dutiful.core.snapshot import Snapshot
from dutiful.runtime.ports import PART_OF_ID, PausedUntil, RunPlace
from dutiful.stores.codec import Declaration, declare, decode_cadence, decode_policy, revive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Put
    from dutiful.core.errors import FaultyKey
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Move
    from dutiful.runtime.ports import Facets, RunFilter
    from dutiful.stores.codec import Shared

    T = TypeVar("T")

Row = tuple[Any, ...]


def stored_and_parts(facets: Facets) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the facets that are stored with schedules, and the parts of ids that are asked for."""
    stored = [facet for facet in facets if facet[0] != PART_OF_ID]
    return stored, [value for name, value in facets if name == PART_OF_ID]


def pause_condition(paused: bool | PausedUntil | None) -> str:
    """Return the SQL condition for schedules that are paused as asked."""
    if isinstance(paused, PausedUntil):
        end = "IS NULL" if paused.instant is None else f"= {int(paused.instant)}"
        return f"paused = 1 AND pause_until {end}"
    return "true" if paused is None else f"paused = {int(paused)}"


DECLARED = tuple(f"{name}_number" if name in ("cadence", "policy") else name for name in Declaration._fields)
"""The columns of a declaration; cadence and policy are stored as the numbers of their texts."""

SCHEDULE = ("number", "id", "checksum", *DECLARED)
"""The columns of a schedule."""

_SKIPPED, _ATTEMPTED = State._fields.index("skipped"), State._fields.index("attempted_at")
_SKIPPED_RANGE = ("skipped_at", "skipped_reason", "skipped_ticks")
STATE = (*State._fields[:_SKIPPED], *_SKIPPED_RANGE, *State._fields[_SKIPPED + 1 :])
"""The columns of a state; the range of skipped ticks takes three of them."""

READ = (*SCHEDULE, "version", "blocked", "pruned_until", "inline_at", "inline_epoch", *STATE)
"""The columns that `read_due` takes."""

_BIRTH = Run._fields.index("backfill")
RUN = Run._fields[1:_BIRTH]
"""The columns of a run that may change."""

RUN_BIRTH = tuple("key" if name == "own_key" else name for name in Run._fields[_BIRTH:])
"""The columns that only an insert writes, so that updates leave the index of keys alone."""

RUN_ALL = RUN + RUN_BIRTH
"""All columns of a run."""

NOTE = Note._fields
"""The columns of a note."""

_KINDS: Mapping[str, Kind] = {"schedule": "schedule", "manual": "manual"}
_REASONS: Mapping[str | None, Reason | None] = {None: None, **{reason.value: reason for reason in Reason}}
# By the annotation of a field: how its stored words are read.
_WORDS_OF: Mapping[str, Mapping[Any, Any]] = {
    "Kind": _KINDS,
    "Status": {status.value: status for status in Status},
    "Phase": {phase.value: phase for phase in Phase},
    "Reason | None": _REASONS,
    "Overlap | None": {None: None, **{overlap.value: overlap for overlap in Overlap}},
}
# A named tuple keeps the text of an annotation in a ForwardRef.
_ANNOTATIONS = {name: kind.__forward_arg__ for name, kind in Run.__annotations__.items()}
_WORDS_AT = [
    (Run._fields.index(name), _WORDS_OF[kind]) for name, kind in _ANNOTATIONS.items() if kind in _WORDS_OF
]
# A kind is stored as it is; the other words are enums.
_ENUMS_AT = [RUN.index(name) for name in RUN if _ANNOTATIONS[name] in _WORDS_OF and name != "kind"]
# Columns with texts that tasks and executors choose.
_TEXTS_AT = [RUN.index(name) for name in RUN if _ANNOTATIONS[name] in ("str", "str | None")]
RUN_TEXTS = tuple(name for name in RUN_ALL if _ANNOTATIONS.get(name) in (*_WORDS_OF, "str", "str | None"))
"""The columns of a run that hold text."""
CANCEL = ("reason", "detail")
"""The columns of a run that say that a user asked to cancel it, until it ends."""
_KEY, _KIND = Run._fields.index("own_key"), Run._fields.index("kind")
_STARTED = Status.STARTED
END_OF_TIME = 2**63 - 1
"""The last instant that a column can hold."""

# Most rows that one query of `matching` scans. A page that ends here has a position to continue from.
SCAN_MAX = 5000
NEWEST_FIRST = {"order": "DESC", "after": "<", "within": ">="}
OLDEST_FIRST = {"order": "ASC", "after": ">", "within": "<="}


def listed(columns: Iterable[str]) -> str:
    """Return columns as a list for SELECT or INSERT."""
    return ", ".join(columns)


def assigned(columns: Iterable[str]) -> str:
    """Return columns as assignments for UPDATE."""
    return ", ".join(f"{column} = ?" for column in columns)


def scan_range(wanted: RunFilter, after: RunPlace | None, oldest_first: bool) -> tuple[RunPlace, Instant]:
    """Return the position after which a scan of runs begins, and the last tick that it may reach."""
    first = 0 if wanted.since is None else wanted.since
    until = END_OF_TIME if wanted.until is None else wanted.until
    if oldest_first:
        begin = RunPlace(first, -1, "")
        return max(begin, after or begin), until - 1
    begin = RunPlace(until, -1, "")
    return min(begin, after or begin), first


class Known(NamedTuple):
    """What an edit needs of the stored schedule: the texts are None where they are missing."""

    number: int
    cadence: str | None
    policy: str | None
    group: str | None
    version: int
    damaged: int
    shard: int = 0


def check_versions(puts: Iterable[Put], known: Mapping[str, Known]) -> None:
    """Raise OvertakenError for a put that was made from another version than the stored one."""
    for put in puts:
        there = known.get(put.schedule.id)
        # Reads leave out damaged schedules, so for callers a damaged schedule has version 0.
        present = 0 if there is None or there.damaged else there.version
        if put.version is not None and put.version != present:
            raise OvertakenError(put.schedule.id, put.version, present)


def declared_over(known: Known | None, schedule: Schedule) -> Declaration:
    """Return the declaration that replaces a stored one.

    A stored text with the same meaning is kept: a later release may have added keys to it. The texts of a
    damaged schedule are written anew: a text may be the damage, and other schedules may share it.
    """
    declaration = declare(schedule)
    if known is None or known.damaged:
        return declaration
    cadence = _kept(known.cadence, decode_cadence, schedule.cadence, declaration.cadence)
    policy = _kept(known.policy, decode_policy, schedule.policy, declaration.policy)
    return declaration._replace(cadence=cadence, policy=policy)


def _kept(stored: str | None, decode: Callable[[str], T], value: T, text: str) -> str:
    try:
        return text if stored is None or decode(stored) != value else stored
    except CodecError:
        return text


def read_due(row: Row, texts: Mapping[tuple[int, int], Shared]) -> Snapshot:
    """Return the snapshot in the columns READ, without the runs in the table `runs`, or raise CodecError."""
    (
        number, schedule_id, checksum, task, payload, cadence, policy, start, end, paused, until,
        version, blocked, pruned, inline_at, inline_epoch, *columns,
    ) = row  # fmt: skip
    schedule = revive(schedule_id, texts[cadence, policy], task, payload, start, end, paused, until, checksum)
    skipped = None if columns[_SKIPPED] is None else _skipped(*columns[_SKIPPED : _SKIPPED + 3])
    # tuple.__new__ takes half as long as the named tuple's constructor.
    state = tuple.__new__(State, (*columns[:_SKIPPED], skipped, *columns[_SKIPPED + 3 :]))
    runs = (
        () if inline_at is None else (inline_run(schedule_id, inline_at, inline_epoch, columns[_ATTEMPTED]),)
    )
    return tuple.__new__(Snapshot, (schedule, state, runs, version, blocked == 1, pruned, (), number))


def faulty_key(row: Row, texts: Mapping[tuple[int, int], Shared]) -> FaultyKey | None:
    """Return the key for which the columns READ cannot be read; None where no key is to blame."""
    try:
        read_due(row, texts)
    except CodecError as error:
        return error.key
    return None


def read_schedule(row: Row, texts: Mapping[tuple[int, int], Shared]) -> Schedule:
    """Return the schedule in the columns SCHEDULE, or raise CodecError."""
    _, schedule_id, checksum, task, payload, cadence, policy, start, end, paused, until = row
    return revive(schedule_id, texts[cadence, policy], task, payload, start, end, paused, until, checksum)


def inline_run(schedule_id: str, inline_at: int, inline_epoch: int, attempted_at: int) -> Run:
    """Return the inline run of a state: a tick that was launched at `attempted_at`."""
    return Run.launched(schedule_id, inline_at, inline_at, attempted_at, inline_epoch, _STARTED, None)


def launches_inline(move: Move) -> bool:
    """Return whether a move only launches one run, which the state of its schedule can hold inline."""
    due, state, wake_at, idle_wake_at, blocked, inserts, changes, _ = move
    schedule, before, runs, _, _, _, _, _ = due
    if runs or changes or blocked or len(inserts) != 1 or wake_at is None or idle_wake_at is not None:
        return False
    policy, (cursor, _, attempted, *_) = schedule.policy, state
    # A tick that was decided before may have a row, from a time when the schedule kept a ledger.
    if policy.ledger or policy.capacity or attempted is None or cursor <= state.decided_until:
        return False
    same = state[3:] == before[3:]
    return same and inserts[0] == inline_run(schedule.id, cursor, inserts[0].epoch, attempted)


def _skipped(run_at: int, reason: str, ticks: int) -> SkippedRange:
    known = _REASONS.get(reason)
    if known is None:
        key = ImpossibleKey("state.reason", reason, "is unknown")
        raise CodecError("state", f"the reason {quoted(reason)!r} is unknown", key)
    return SkippedRange(run_at, known, ticks)


def read_run(schedule_id: str, row: Row) -> Run:
    """Return the run in the columns RUN_ALL, or raise CodecError."""
    values: list[Any] = [schedule_id, *row]
    try:
        for place, words in _WORDS_AT:
            values[place] = words[values[place]]
    except KeyError as error:
        raise CodecError(f"run at {row[0]}", f"the word {quoted(error.args[0])!r} is unknown") from error
    # The key of a tick is derived from the tick, so only manual runs carry theirs.
    key = values[_KEY]
    values[_KEY] = key.hex() if key is not None and values[_KIND] == "manual" else None
    return tuple.__new__(Run, values)


class Damage(NamedTuple):
    """A schedule whose rows cannot be read, why, and the version in which it was read."""

    number: int
    id: str
    problem: str
    version: int


def with_runs(stored: dict[int, Snapshot], rows: Iterable[Row], damage: list[Damage]) -> list[Snapshot]:
    """Return the schedules with their open runs; an unreadable run makes its schedule damaged.

    The rows have the number of a schedule and the columns RUN_ALL, in the order of the runs.
    """
    runs: defaultdict[int, list[Row]] = defaultdict(list)
    for number, *row in rows:
        runs[number].append(tuple(row))
    for number in [number for number in runs if number in stored]:
        due = stored[number]
        try:
            known = [read_run(due.schedule.id, row) for row in runs[number]]
            stored[number] = due._replace(runs=[*due.runs, *known])
        except CodecError as error:
            del stored[number]
            damage.append(Damage(number, due.schedule.id, str(error), due.version))
    return [*stored.values()]


def readable_run(schedule_id: str, row: Row) -> Run:
    """Return a row of the ledger, or raise StoreError where it cannot be read."""
    try:
        return read_run(schedule_id, row)
    except CodecError as error:
        problem = f"The ledger of {schedule_id!r} cannot be read"
        raise StoreError(problem, f"{error}; repair the row in the table runs") from error


def readable_cadences(
    rows: Iterable[tuple[int, int, int | None, int | None, int, str]],
    texts: Mapping[tuple[int, int], Shared],
) -> list[Alike]:
    """Return the schedules that are alike, each row with the number of them and their first id.

    A text that cannot be read is left out: its schedules are damaged.
    """
    found = []
    for cadence_number, policy_number, start, end, number, first_id in rows:
        try:
            cadence, policy, _ = texts[cadence_number, policy_number]
        except CodecError:
            continue
        found.append(Alike(cadence, policy, Window(start, end), number, first_id))
    return found


def state_columns(state: State) -> Row:
    """Return the values of the columns STATE."""
    skipped, quarantine = state.skipped, state.quarantine
    if quarantine is not None:
        state = state._replace(quarantine=_storable(quarantine))
    columns = (None, None, None) if skipped is None else (skipped[0], skipped[1].value, skipped[2])
    return *state[:_SKIPPED], *columns, *state[_SKIPPED + 1 :]


def run_columns(run: Run) -> Row:
    """Return the values of the columns RUN; plain strings, because binding an enum is slow."""
    values: list[Any] = list(run[1:_BIRTH])
    for place in _ENUMS_AT:
        if values[place] is not None:
            values[place] = values[place].value
    for place in _TEXTS_AT:
        if values[place] is not None:
            values[place] = _storable(values[place])
    return tuple(values)


def birth_columns(run: Run) -> Row:
    """Return the values of the columns RUN_BIRTH; runs without a ledger get no key."""
    backfill = None if run.backfill is None else run.backfill.value
    findable = run.own_key is not None or run.created_at is not None
    key = bytes.fromhex(run.key) if findable else None
    return backfill, key, *run[_KEY + 1 :]


def _storable(text: str) -> str:
    # The detail of a failure may hold half a surrogate pair, for example from a file name, or a NUL
    # character, which PostgreSQL cannot store.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
