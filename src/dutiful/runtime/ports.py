"""The interfaces that the engine needs: a store, a launcher, a clock, an observer.

The contracts are in the docstrings; `tests/stores/contract.py` tests every store against its contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, tzinfo

    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Changes, Note
    from dutiful.core.errors import FaultyKey
    from dutiful.core.event import Event
    from dutiful.core.plan.outcome import Outcome, Settlement
    from dutiful.core.plan.planner import Batch
    from dutiful.core.plan.reconcile import Survey
    from dutiful.core.policy import Policy
    from dutiful.core.run import Kind, Run
    from dutiful.core.schedule import Alike, Schedule
    from dutiful.core.snapshot import Move, Snapshot
    from dutiful.core.tally import Tally
    from dutiful.core.workflow import Workflow, WorkflowEntry

Observer: TypeAlias = "Callable[[Event], None]"
"""Gets each event, after it is durable. An exception that it raises is swallowed and counted."""


class Loaded(NamedTuple):
    """The due schedules, and the earliest wake among the schedules that are not due."""

    batch: Batch
    next_wake: Instant | None
    # (id, problem) of every schedule known to be damaged; none of them is in the batch.
    damaged: Sequence[tuple[str, str]] = ()


PART_OF_ID = "id"
Facets: TypeAlias = "Sequence[tuple[str, str]]"
"""Names and values by which schedules are found, such as ("user", "ada").

The name `PART_OF_ID` finds the schedules whose ids contain the value; no schedule is stored with it.
"""


class PausedUntil(NamedTuple):
    """Finds the schedules that are paused until exactly this instant; None: until a user resumes them."""

    instant: Instant | None


class Launch(NamedTuple):
    """A run whose record is durable, to be carried to its task."""

    schedule: Schedule
    run: Run
    # The store's number of the schedule.
    number: int = 0


class Committed(NamedTuple):
    """The moves that were recorded, and the runs that this engine must launch now, in their order."""

    made: Sequence[Move]
    launches: Sequence[Launch]
    # How many moves were left out because another transaction keeps a row of their schedule locked.
    locked: int = 0


class Retention(NamedTuple):
    """How long ended rows are kept: at most `age` ms and `rows` of them a schedule.

    A retention in the policy of a schedule takes precedence.
    """

    age: int = 30 * 86_400_000
    rows: int = 1000

    def of(self, policy: Policy) -> Retention:
        """Return the retention of a schedule with this policy."""
        age, rows = policy.retention_age, policy.retention_rows
        return Retention(self.age if age is None else age, self.rows if rows is None else rows)


class Leader(NamedTuple):
    """The leader of a namespace, as other processes see it."""

    pid: int
    since: Instant
    # When the leader last called `lead`, which it does in every pass.
    seen: Instant


class Clock(Protocol):
    """A source of time, and a way to wait."""

    timezone: tzinfo
    """The zone of schedules that name none."""

    def now(self) -> datetime:
        """Return the present instant, aware."""

    def epoch_ms(self) -> Instant:
        """Return the present instant as epoch milliseconds; asked several times a run, so it is cheap."""

    def monotonic(self) -> float:
        """Return seconds that only move forward, at the rate of real time."""

    async def sleep(self, seconds: float) -> None:
        """Return after this many seconds of this clock."""

    async def wait(self, woken: asyncio.Future[None], seconds: float) -> None:
        """Return when `woken` is done, or after `seconds` of this clock, or earlier.

        A clock that can be set returns early and often, so that its reader notices a step. It may end the
        wait by setting `woken`, on which only this call waits. `seconds` may be infinite.
        """

    def hold(self) -> AbstractContextManager[None]:
        """Keep virtual time from moving while work is under way outside the event loop."""


class Launcher(Protocol):
    """Carries a run to its task."""

    in_process: bool
    """Whether a launched run has started; if not, it is only enqueued until a report says so."""

    async def launch(self, launch: Launch) -> Outcome:
        """Invoke the task and return its outcome; an exception counts as a failed task."""


@runtime_checkable
class CancellingLauncher(Protocol):
    """A launcher that can cancel a run which another system has accepted."""

    async def cancel(self, launch: Launch) -> None:
        """Ask the other system once to end the run; raises nothing. The run is already recorded as ended."""


class Found(NamedTuple):
    """A run that was found by its key, and its schedule."""

    run: Run
    schedule: Schedule


class RunFilter(NamedTuple):
    """Selects the runs that match every field that is not None, with ticks in [since, until)."""

    status: str | None = None
    reason: str | None = None
    schedule_id: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    # The user named in the payload of the schedule.
    owner: str | None = None
    # schedule, manual or backfill
    trigger: str | None = None


class RunPlace(NamedTuple):
    """A position in the list of all runs, ordered by tick."""

    run_at: Instant
    number: int
    kind: str


class RunPage(NamedTuple):
    """Runs, and the position after which there may be more; None: there are no more."""

    runs: list[Run]
    more_after: RunPlace | None


class Figures(Protocol):
    """Overview queries over all schedules: counts and short lists, never full lists.

    With an `owner`, only the schedules of that user count.
    """

    async def tallies(
        self, since: Instant, until: Instant, width: int, owner: str | None = None
    ) -> list[Tally]:
        """Return the number of recorded ticks in [since, until) by status and reason, in buckets of `width`
        ms.

        Buckets count from 1970; `since` and `until` are multiples of `width`. The ticks of a range are spread
        over the buckets that it covers.
        """

    async def open_runs(self, limit: int, owner: str | None = None) -> list[Run]:
        """Return runs that have not ended, of schedules that keep a ledger, oldest first."""

    async def latest(self, ids: Collection[str], limit: int) -> dict[str, list[Run]]:
        """Return at most `limit` rows of each of these schedules, newest first, by id.

        Schedules without rows are left out.
        """

    async def find_ids(self, part: str, after: str, limit: int, owner: str | None = None) -> list[str]:
        """Return ids that contain `part` and come after `after`, in order."""

    async def troubled(self, limit: int, owner: str | None = None) -> list[Snapshot]:
        """Return schedules that are quarantined, whose last run failed, or that skip tick after tick.

        Ordered by id. Skipping tick after tick means a growing range of at least three ticks, skipped for a
        reason other than a pause.
        """

    async def cadences(self, owner: str | None = None) -> list[Alike]:
        """Return the schedules that are not paused, those that are alike together."""


class Workflows(Protocol):
    """Durable storage of the service's workflows; `Store.apply` writes them."""

    async def load_workflow(self, workflow_id: str, version: int) -> Workflow | None:
        """Return one version of a workflow, or None."""

    async def workflow_owner(self, workflow_id: str) -> str | None:
        """Return the owner of all versions of a workflow, None where no version is stored."""

    async def workflows(
        self, after: tuple[str, int], limit: int, owner: str | None = None
    ) -> list[WorkflowEntry]:
        """Return at most `limit` versions that come after this id and version, by id and version.

        With an `owner`, only the workflows of that user.
        """

    async def delete_workflow(self, workflow_id: str, version: int) -> bool:
        """Delete one version, and return whether it was there."""


class Store(Workflows, Figures, Protocol):
    """Durable storage. Every method is one transaction: all of it happened, or none."""

    async def open(self) -> None:
        """Prepare the store; raise StoreError, and change nothing, where it cannot be read."""

    async def close(self) -> None:
        """Release all resources; a closed store may be opened again."""

    async def claim(self, door: str) -> None:
        """Record that this door owns the namespace. Raises NamespaceOwnedError where another door does."""

    async def leader(self) -> Leader | None:
        """Return the leader; None where there is none, or where other processes cannot see it."""

    async def lead(self, owner: str) -> int | None:
        """Return the epoch under which `owner` leads, or None while another instance does.

        A new leadership has a higher epoch than any before, and makes every schedule with runs in
        flight due, so that they are adopted. Asking again while leading returns the same epoch.
        """

    def holds(self, epoch: int) -> bool:
        """Return, without I/O, whether this opening of the store still leads under `epoch`."""

    async def apply(self, changes: Changes) -> None:
        """Write and delete schedules, all together. A put replaces declaration, state and wake.

        Raises OvertakenError, and writes nothing, when a put was made from a version that is no longer
        present, a row to be dropped has changed, or a stored workflow is not the one to be replaced or has
        another owner. Raises LostLeadershipError, and writes nothing, when the changes require an epoch that
        does not lead.
        """

    async def request(self, run: Run) -> Run | None:
        """Record a manual run, make its schedule due, and return the run.

        Each manual run has an instant of its own: its `run_at`, or the instant after the latest that is
        taken. A run whose key is known is returned as it stands. None: there is no such schedule.
        """

    async def load(self, now: Instant, limit: int, also: Collection[str] = ()) -> Loaded:
        """Return at most `limit` schedules whose wake is at or before `now`, the most overdue first.

        Schedules with the same wake come in the order in which they were first stored. After them come the
        schedules with the ids `also`, ordered by id, whatever their wake.
        """

    async def commit(self, moves: Sequence[Move], epoch: int) -> Committed:
        """Record the moves; return which were made, and the runs that this engine must launch now.

        A move whose schedule was edited or moved since it was loaded is left out whole. An insert whose
        (schedule, run_at, kind) exists is left out alone: that tick was decided before. A range of skipped
        ticks that begins at such a tick begins just after it instead. A change applies only to a row still in
        an earlier attempt or phase. A run that its own move also ends is not launched. When a move frees a
        slot of a group, the schedules blocked on that group become due. A move whose rows another transaction
        keeps locked is left out whole, and counted. Raises LostLeadershipError, and writes nothing, when
        `epoch` is no longer the current one.
        """

    async def settle(self, settlements: Sequence[Settlement], epoch: int) -> Sequence[bool | None]:
        """Record the outcomes of attempts, and return for each whether it applied.

        None: another transaction keeps its rows locked, so it was left out, and must be tried again.

        An outcome applies to a row still launched in the same attempt, of the schedule with that number. The
        schedule's timestamps follow, and its wake becomes the idle wake of its last move. A schedule that is
        blocked on this run, or on its group, becomes due.
        """

    async def report(self, found: Run, became: Settlement) -> bool:
        """Record an executor's report on a run that was `found`, and return whether it applied.

        Needs no leadership. It applies to a row still in the same attempt, phase and status, and changes the
        schedule as an outcome from a launcher does.
        """

    async def get(self, schedule_id: str) -> Snapshot | None:
        """Return one schedule with its state and open runs."""

    async def some(self, ids: Iterable[str]) -> list[Snapshot]:
        """Return the schedules among these that are stored, ordered by id."""

    async def page(
        self, after: str, limit: int, facets: Facets = (), paused: bool | None = None
    ) -> list[Snapshot]:
        """Return at most `limit` schedules whose ids come after this one, ordered by id.

        With facets only schedules that have all of them; the cost follows the schedules returned, but for
        parts of ids, which no index finds.
        """

    async def count(self, facets: Facets = (), paused: bool | PausedUntil | None = None) -> int:
        """Return how many schedules have all of these facets, and are paused as asked."""

    async def soonest(self, limit: int, facets: Facets = ()) -> list[Snapshot]:
        """Return at most `limit` schedules that are not paused, by their next wake."""

    async def count_due(self, until: Instant, limit: int, facets: Facets = ()) -> int:
        """Return how many schedules that are not paused wake at or before `until`, counted up to `limit`."""

    async def revision(self) -> str:
        """Return a text that differs after every write; equal texts mean that nothing was written."""

    async def notes(self, ids: Iterable[str]) -> dict[str, Note]:
        """Return the notes of these schedules; schedules without a note are left out."""

    async def every(self) -> list[Snapshot]:
        """Return all schedules that can be read, in the order in which they were first stored."""

    async def survey(self, declared: Sequence[Schedule]) -> Survey:
        """Return how the stored schedules differ from a declaration, which has each id once.

        Differing are schedules that are not stored, are stored with another declaration, or have open runs;
        where users can edit stored schedules, also those with times that no engine writes. Whether a schedule
        is paused is no part of its declaration.
        """

    async def damaged(self) -> list[tuple[str, str]]:
        """Return (id, problem) of the schedules that some earlier read found damaged.

        They stay stored, and the engine does not run them.
        """

    async def faulty_key(self, schedule_id: str) -> FaultyKey | None:
        """Read a damaged schedule again, and return the key of its stored texts that is to blame.

        None where no key is: the schedule can be read after all, or has another damage.
        """

    async def ledger(
        self, schedule_id: str, until: Instant | None, limit: int, kind: Kind | None = None
    ) -> list[Run]:
        """Return rows with run_at <= until, newest first; with a kind only the rows of that kind."""

    async def recent(self, limit: int) -> list[Run]:
        """Return rows of all schedules that keep a ledger, newest first."""

    async def runs(
        self, wanted: RunFilter, after: RunPlace | None, limit: int, oldest_first: bool = False
    ) -> RunPage:
        """Return at most `limit` rows that match and come after a position, newest or oldest first.

        The cost of one call is bounded: a page may have fewer rows than match, and then `more_after` is set.
        Rows of schedules that keep no ledger are left out.
        """

    async def note_start(self, key: str, now: Instant, keep: int) -> None:
        """Record a run outside the ledger that was started under a key; forget those older than `keep` ms."""

    async def has_start(self, key: str) -> bool:
        """Return whether a start under this key is recorded."""

    async def open_counts(self) -> dict[str, int]:
        """Return how many runs that have not ended are in each phase."""

    async def find(self, key: str) -> Found | None:
        """Return the row with this key, of a schedule that keeps a ledger and can be read."""

    async def rearm(self, now: Instant, beyond: int) -> int:
        """Re-arm schedules that a clock more than `beyond` ms ahead has written; return how many.

        `core.plan.clock_rollback` defines the new state; the schedules become due.
        """

    async def prune(self, now: Instant, retention: Retention) -> int:
        """Delete ended rows beyond the retention; return how many.

        Rows of ticks after the cursor stay, and so do the rows of manual runs and backfills.
        """


@runtime_checkable
class Sized(Protocol):
    """A store that can tell its size."""

    async def size(self) -> int:
        """Return how many bytes the store takes on disk; raises StoreError."""
