"""Registrations of the declarative scheduler: checked in order, then turned into schedules."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.dialect import legal_dialect
from dutiful.core.errors import (
    CronExpressionInvalidError,
    DutifulError,
    InvalidCronExpressionError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
    quoted,
)
from dutiful.core.name import exact, name_flaw
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task
from dutiful.declarative.callback import callback_flaw

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

Callback: TypeAlias = Callable[[], Awaitable[Any]]
Registration: TypeAlias = tuple[str, str, Callback, timedelta | float]

_MS = timedelta(milliseconds=1)
_RETRY_LIMIT_MAX, _BACKOFF_MAX = 1_000_000, 100
_PARTS = ("the name must be a str", "the cron text must be a str", "the callback must be callable")
_DELAY_PART = "the retry delay must be a timedelta or a number of seconds"


class Options(NamedTuple):
    """The options of a task beside its four parts; durations in milliseconds."""

    timeout: int | None = None
    retry_limit: int | None = None
    retry_backoff: int = 1


PLAIN = Options()


class TaskRegistration(tuple[str, str, Callback, timedelta | float]):
    """A registration with options: still a 4-tuple of name, cron text, callback and retry delay."""

    options: Options = PLAIN


class Registered(NamedTuple):
    """A valid list: its schedules, and the callbacks by name."""

    schedules: list[Schedule]
    callbacks: dict[str, Callback]


def task(
    name: str,
    cron: str,
    callback: Callback,
    delay: timedelta | float,
    *,
    timeout: timedelta | float | None = None,
    retry_limit: int | None = None,
    retry_backoff: int = 1,
) -> TaskRegistration:
    """Return a registration with options, for the list that `Scheduler.initialize` takes.

    A run that takes longer than `timeout` is cancelled and has failed. A failed run is retried at most
    `retry_limit` times, without limit by default, and waits `retry_backoff` times longer each time. Raises
    InvalidRegistrationError for an invalid option; `initialize` checks the four parts.
    """
    registration = TaskRegistration((name, cron, callback, delay))
    registration.options = Options(
        None if timeout is None else _timeout_ms(timeout),
        None if retry_limit is None else _whole("retryLimit", retry_limit, 0, _RETRY_LIMIT_MAX),
        _whole("retryBackoff", retry_backoff, 1, _BACKOFF_MAX),
    )
    return registration


def check(
    registrations: Sequence[Registration],
    timezone: str | tzinfo,
    dialect: str = "posix",
    ledger: bool = False,
) -> Registered:
    """Return the schedules that the registrations mean, or raise the error of the first bad one."""
    if not isinstance(registrations, list | tuple):
        raise RegistrationsNotArrayError
    registered, crons = Registered([], {}), dict[str, Cron]()
    for index, registration in enumerate(registrations):
        name, text, callback, delay = _shape(index, registration)
        name, text = exact(name), exact(text)
        _check_name(index, name, registered)
        try:
            # Parse each text once: a million tasks have a few hundred distinct texts.
            cron = crons.get(text) or crons.setdefault(text, _cron(text, dialect, timezone))
            if (flaw := callback_flaw(callback)) is not None:
                raise InvalidRegistrationError("callback", callback, flaw)
            options = registration.options if isinstance(registration, TaskRegistration) else PLAIN
            chosen = _policy_for(delay, ledger, options)
        except DutifulError as error:
            # The message texts are fixed, so a note names the task.
            error.add_note(f"in the registration of the task {quoted(name)!r}")
            raise
        registered.schedules.append(Schedule(name, Task(name), cron, chosen))
        registered.callbacks[name] = callback
    return registered


def _shape(index: int, registration: Any) -> Any:
    if isinstance(registration, (list, tuple)) and len(registration) == 4:
        name, text, callback, delay = registration
        if isinstance(name, str) and isinstance(text, str) and callable(callback) and _is_duration(delay):
            return registration
    error = RegistrationShapeError(index, registration)
    # The message text is fixed, so a note names the wrong part.
    error.add_note(f"registrations[{index}]: {_misshapen(registration)}")
    raise error


def _is_duration(value: object) -> bool:
    return isinstance(value, (timedelta, int, float)) and not isinstance(value, bool)


def _misshapen(registration: Any) -> str:
    """Return which part of a registration has the wrong type, and which type it has."""
    if not isinstance(registration, (list, tuple)):
        return f"a registration must be a tuple, not {type(registration).__name__}"
    if len(registration) != 4:
        return (
            f"a registration must have 4 parts (name, cron, callback, retry delay), not {len(registration)}"
        )
    name, text, callback, delay = registration
    fits = (isinstance(name, str), isinstance(text, str), callable(callback), _is_duration(delay))
    place = fits.index(False)
    if inspect.iscoroutine(callback):
        # Close the coroutine, which asyncio would report as never awaited: it was made for this registration
        # alone.
        callback.close()
        return f"{_PARTS[2]}, not coroutine; write {callback.__name__} without ()"
    return f"{(*_PARTS, _DELAY_PART)[place]}, not {type(registration[place]).__name__}"


def _check_name(index: int, name: str, registered: Registered) -> None:
    if (flaw := name_flaw(name)) is not None:
        error = InvalidRegistrationError("name", name, flaw)
        error.add_note(f"in registrations[{index}]")
        raise error
    if name in registered.callbacks:
        raise ScheduleDuplicateTaskError(name)


def _cron(text: str, dialect: str, timezone: str | tzinfo) -> Cron:
    try:
        return Cron.parse(text, dialect, timezone)
    except InvalidCronExpressionError as error:
        raise CronExpressionInvalidError(error, legal_dialect(text)) from None


def _delay_ms(delay: timedelta | float) -> int:
    if isinstance(delay, timedelta):
        length, in_ms = delay, delay / _MS
    else:
        length, in_ms = _duration("retryDelay", delay), delay * 1000
    # Not the sign of `length`: a timedelta rounds a tiny negative number to zero.
    if in_ms < 0:
        raise NegativeRetryDelayError(in_ms)
    return _milliseconds(length)


def _timeout_ms(timeout: timedelta | float) -> int:
    if not _is_duration(timeout):
        raise InvalidRegistrationError("timeout", timeout, "must be a timedelta or a number of seconds")
    length = timeout if isinstance(timeout, timedelta) else _duration("timeout", timeout)
    if length <= timedelta(0):
        raise InvalidRegistrationError("timeout", timeout, "must be longer than zero; leave it out for none")
    return _milliseconds(length)


def _milliseconds(length: timedelta) -> int:
    """Return whole milliseconds, rounded up."""
    whole, rest = divmod(length, _MS)
    return whole + bool(rest)


def _duration(field: str, seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        reason = "must be a number of seconds that a timedelta can hold"
        raise InvalidRegistrationError(field, seconds, reason) from None


def _whole(field: str, value: int, low: int, high: int) -> int:
    # Compare types exactly: `isinstance(True, int)` is true.
    if type(value) is not int or not low <= value <= high:
        raise InvalidRegistrationError(field, value, f"must be a whole number from {low} to {high}")
    return value


@lru_cache(maxsize=1024)
def _policy_for(delay: timedelta | float, ledger: bool, options: Options) -> Policy:
    return policy(_delay_ms(delay), ledger, options)


@lru_cache(maxsize=1024)
def policy(delay_ms: int, ledger: bool = False, options: Options = PLAIN) -> Policy:
    """Return the policy of a declared task: one run at a time, one run for all missed ticks, a retry."""
    return Policy(
        overlap=Overlap.BUFFER_ONE,
        catch_up=CatchUp.LATEST,
        grace=0,
        retry=Retry(delay_ms, options.retry_limit, options.retry_backoff),
        on_orphan=OnOrphan.RESTART,
        run_timeout=options.timeout,
        ledger=ledger,
    )
