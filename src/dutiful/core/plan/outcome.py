"""Outcomes of attempts, and the run's next phase after each outcome: the other half of the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, assert_never

from dutiful.core.errors import as_text
from dutiful.core.policy import NO_OVERRIDES, OnOrphan, Reason
from dutiful.core.run import CANCEL_ASKED, Phase, Run, Status
from dutiful.core.schedule import State

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.policy import Overrides, Policy, Retry


class Succeeded(NamedTuple):
    """The task ran and ended well."""

    detail: str | None = None


class Failed(NamedTuple):
    """The task ran and failed; `error` is the exception it raised, which observers get and no store keeps."""

    detail: str | None = None
    error: BaseException | None = None


class NoWork(NamedTuple):
    """The work source was empty, so the task was not invoked."""

    detail: str | None = None


class Accepted(NamedTuple):
    """An executor took the run and will report how it ended."""

    run_id: str | None = None


class Refused(NamedTuple):
    """The launcher refused the run; a retry would not help."""

    reason: Reason
    detail: str | None = None


class Unreached(NamedTuple):
    """The executor could not be reached; nothing was sent."""

    detail: str | None = None
    # Milliseconds that the executor asks to wait before the next attempt.
    retry_after: int = 0


class Unanswered(NamedTuple):
    """The launch was sent and not answered: it may or may not have happened."""

    detail: str | None = None
    # Milliseconds that the executor asks to wait before the next attempt.
    retry_after: int = 0


Outcome: TypeAlias = Succeeded | Failed | NoWork | Accepted | Refused | Unreached | Unanswered


class TimedOut(NamedTuple):
    """The engine cancelled the task at its timeout, while it drained and planned no more."""


def checked(answer: object) -> Outcome:
    """Return what a launcher answered, in a form that every store can record.

    Users write launchers and functions. An outcome with a number or an exception in place of a text would
    make each attempt to record it fail, and with it the records of all other runs.
    """
    if type(answer) is Succeeded and answer.detail is None:
        # Nearly all runs.
        return answer
    match answer:
        case Accepted(run_id):
            return Accepted(_text(run_id))
        case Succeeded() | Failed() | NoWork() | Refused(reason=Reason()):
            return answer._replace(detail=_text(answer.detail))
        case Unreached(retry_after=int()) | Unanswered(retry_after=int()):
            return answer._replace(detail=_text(answer.detail))
    return Failed(f"the answer was {answer!r:.80}")


def _text(value: object) -> str | None:
    return value if value is None or type(value) is str else as_text(value)


# Cached: enum attribute access is slow, and nearly every run ends in SUCCESS.
_SUCCESS = Status.SUCCESS
_DELAY_MAX = 2**55
# An executor's `retry_after` delays a run by at most one hour (ms).
RETRY_AFTER_MAX = 3_600_000
# Rows keep this many characters of an error or a summary; the log has the whole text. A ledger with
# thousands of long details would be slow to read.
DETAIL_MAX = 2000
_HALF = DETAIL_MAX // 2


class Settlement(NamedTuple):
    """A run after its attempt, and whether its row stays in the ledger once it has ended."""

    run: Run
    keep: bool
    # Whether the schedule may have a wake at this run's timeout, which must be withdrawn.
    timed: bool = True
    # The store's number of the schedule.
    number: int = 0


def settlement(
    run: Run,
    outcome: Outcome | TimedOut,
    policy: Policy,
    now: Instant,
    number: int,
    overrides: Overrides = NO_OVERRIDES,
) -> Settlement:
    """Return what to record about a run of the schedule that has this number in the store."""
    became = settle(run, outcome, policy, now, overrides)
    # A named tuple's own constructor takes twice as long.
    return tuple.__new__(Settlement, (became, policy.ledger, policy.run_timeout is not None, number))


def settle(
    run: Run, outcome: Outcome | TimedOut, policy: Policy, now: Instant, overrides: Overrides = NO_OVERRIDES
) -> Run:
    """Return the run after `outcome`: ended, accepted or waiting for a retry."""
    match outcome:
        case Succeeded():
            return run.ended(_SUCCESS, None, now, outcome.detail and _kept(outcome.detail))
        case NoWork(detail):
            return run.ended(Status.SKIPPED, Reason.NO_WORK, now, _kept(detail))
        case Accepted(run_id):
            # Clear the failure of an earlier launch attempt.
            return run.to(
                Phase.ACCEPTED, status=Status.ENQUEUED, run_id=run_id, reason=None, detail=None,
                ended_at=None, updated_at=run.noted(now),
            )  # fmt: skip
        case Refused(reason, detail):
            return run.ended(Status.FAILED, reason, now, _kept(detail))
        case Failed(detail):
            return _task_failed(run, detail, policy, now)
        case TimedOut():
            return timed_out(run, policy, now)
        case Unreached(detail, retry_after):
            return _launch_failed(
                run, detail, overrides.launch_retry or policy.launch_retry, now, retry_after
            )
        case Unanswered(detail) if policy.on_orphan is OnOrphan.GIVE_UP:
            return run.ended(Status.FAILED, Reason.OUTCOME_UNKNOWN, now, _kept(detail))
        case Unanswered(detail, retry_after):
            return _launch_failed(
                run, detail, overrides.launch_retry or policy.launch_retry, now, retry_after
            )
        case _:
            assert_never(outcome)


def _task_failed(run: Run, detail: str | None, policy: Policy, now: Instant) -> Run:
    failed = run._replace(task_failures=run.task_failures + 1)
    return _retried(failed, policy.retry, failed.task_failures, Reason.TASK_FAILED, detail, now)


def _launch_failed(run: Run, detail: str | None, retry: Retry | None, now: Instant, retry_after: int) -> Run:
    launches = run.attempt - run.task_failures
    tried = _retried(run, retry, launches, Reason.LAUNCH_FAILED, detail, now)
    earliest = now + min(retry_after, RETRY_AFTER_MAX)
    return (
        tried if tried.phase is Phase.ENDED or tried.fire_at >= earliest else tried._replace(fire_at=earliest)
    )


def timed_out(run: Run, policy: Policy, now: Instant) -> Run:
    """Return a run that outlived its timeout as a failure, which is retried like any other."""
    became = _task_failed(run, f"timed out after {(policy.run_timeout or 0) / 1000:g} s", policy, now)
    return became._replace(reason=Reason.LOST_RUN) if became.phase is Phase.ENDED else became


def _may_retry(retry: Retry | None, tries: int) -> bool:
    return retry is not None and (retry.limit is None or tries <= retry.limit)


def _retried(
    run: Run, retry: Retry | None, tries: int, reason: Reason, detail: str | None, now: Instant
) -> Run:
    """Return the run waiting for a retry after `tries` attempts, or ended where no attempt is left."""
    detail = _kept(detail)
    if retry is None or not _may_retry(retry, tries):
        return run.ended(Status.FAILED, reason, now, detail)
    # Bound the exponent and the delay, so that an instant always fits in 64 bits.
    fire_at = now + min(retry.delay * retry.backoff ** min(tries - 1, 64), _DELAY_MAX)
    return run.to(
        Phase.RETRY, status=Status.ENQUEUED, reason=reason, fire_at=fire_at, ended_at=now, detail=detail,
        updated_at=run.noted(now),
    )  # fmt: skip


def _kept(detail: str | None) -> str | None:
    if detail is None or len(detail) <= DETAIL_MAX:
        return detail
    # A message says the most at its beginning; a traceback names its exception in the last line.
    return f"{detail[: _HALF - 1]}…{detail[-_HALF:]}"


def still_cancelled(known: Run, run: Run) -> Run:
    """Return a run to be written over the stored one: while it is open, a request to cancel it stands.

    The attempt may have been accepted, or have failed and be retried, after the user asked.
    """
    if known.reason is not CANCEL_ASKED or run.phase is Phase.ENDED:
        return run
    return run._replace(reason=known.reason, detail=known.detail)


def ended_state(state: State, run: Run) -> State:
    """Return the state of a schedule after an attempt of its run has ended, whether it is retried or not.

    Stores that keep a state as columns derive from this function which columns they write.
    """
    at = run.ended_at
    if run.status is _SUCCESS:
        # Slices, because `_replace` takes three times as long and nearly every run ends in success.
        return tuple.__new__(State, (*state[:3], at, state[4], at, *state[6:]))
    if run.status is Status.SKIPPED:
        return state._replace(ended_at=at)
    return state._replace(failed_at=at, ended_at=at)


def wake_after(wake_at: Instant | None, idle_wake_at: Instant | None, run: Run) -> Instant | None:
    """Return when to look at a schedule after an attempt of its run has ended.

    The run's timeout no longer counts; a retry does. A schedule that is blocked on the run, or on its slot in
    a group, is due at once instead, which the store sees to.
    """
    wake = wake_at if idle_wake_at is None else idle_wake_at
    if run.phase is not Phase.RETRY:
        return wake
    return run.fire_at if wake is None else min(wake, run.fire_at)


def raised(error: BaseException) -> Failed:
    """Return the outcome for an exception; also for one whose text cannot be rendered."""
    name, trace = type(error).__name__, error.__traceback__
    try:
        detail = f"{name}: {text}" if (text := str(error)) else name
    except Exception:  # noqa: BLE001 - the task defines the exception's text, which may raise anything
        detail = f"{name}, which cannot be shown"
    # Drop the catching frame from the traceback: it refers to this outcome, which would make a reference
    # cycle.
    return Failed(detail, error.with_traceback(trace and trace.tb_next))


class Report(NamedTuple):
    """A report by an executor: the run STARTED, or ended in SUCCESS or FAILED."""

    status: Literal[Status.STARTED, Status.SUCCESS, Status.FAILED]
    # The attempt that the report is about; None is the present one.
    attempt: int | None = None
    run_id: str | None = None
    error: str | None = None


def hear(run: Run, report: Report, policy: Policy, now: Instant) -> Run | None:
    """Return the run after a report; None where the report adds nothing.

    A report may come before the launch is answered, and after the engine stopped waiting for the answer. The
    first terminal report of any attempt decides how the run ended. A start, or a failure that is retried,
    counts only for the present attempt.
    """
    if run.phase is Phase.ENDED or run.attempt == 0:
        return None
    stale = report.attempt is not None and report.attempt < run.attempt
    known_as, run = run.run_id, run._replace(run_id=report.run_id or run.run_id)
    match report.status:
        case Status.SUCCESS:
            return run.ended(Status.SUCCESS, None, now)
        case Status.FAILED if _may_retry(policy.retry, run.task_failures + 1):
            known = run.phase is Phase.RETRY and run.reason is Reason.TASK_FAILED
            return None if stale or known else _task_failed(run, report.error, policy, now)
        case Status.FAILED:
            return _task_failed(run, report.error, policy, now)
        case Status.STARTED if stale or (run.status is Status.STARTED and run.run_id == known_as):
            return None
        case Status.STARTED if run.status is Status.STARTED:
            return run._replace(updated_at=run.noted(now))
        case Status.STARTED:
            return run.to(
                Phase.ACCEPTED, status=Status.STARTED, reason=None, ended_at=None, detail=None,
                updated_at=run.noted(now),
            )  # fmt: skip
        case _:
            assert_never(report.status)
