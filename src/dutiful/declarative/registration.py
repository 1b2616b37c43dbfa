"""Registrations of the declarative scheduler: checked in order, then turned into schedules."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import (
    CronExpressionInvalidError,
    InvalidCronExpressionError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
)
from dutiful.core.name import exact, name_flaw
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import tzinfo

Registration: TypeAlias = "tuple[str, str, Callable[[], Awaitable[Any]], timedelta | float]"

_MS = timedelta(milliseconds=1)


class Registered(NamedTuple):
    """A valid list: its schedules, and the callbacks by name."""

    schedules: list[Schedule]
    callbacks: dict[str, Callable[[], Awaitable[Any]]]


def check(registrations: Sequence[Registration], timezone: str | tzinfo) -> Registered:
    """Return the schedules that the registrations mean, or raise the error of the first bad one."""
    if not isinstance(registrations, list | tuple):
        raise RegistrationsNotArrayError
    registered, crons = Registered([], {}), dict[str, Cron]()
    for index, registration in enumerate(registrations):
        name, text, callback, delay = _shape(index, registration)
        name, text = exact(name), exact(text)
        _check_name(name, registered)
        # A million tasks have a few hundred texts.
        cron = crons.get(text) or crons.setdefault(text, _cron(text, timezone))
        registered.schedules.append(Schedule(name, Task(name), cron, _policy_for(delay)))
        registered.callbacks[name] = callback
    return registered


def _shape(index: int, registration: Any) -> Any:
    if isinstance(registration, (list, tuple)) and len(registration) == 4:
        name, text, callback, delay = registration
        is_duration = isinstance(delay, (timedelta, int, float)) and not isinstance(delay, bool)
        if isinstance(name, str) and isinstance(text, str) and callable(callback) and is_duration:
            return registration
    raise RegistrationShapeError(index, registration)


def _check_name(name: str, registered: Registered) -> None:
    if (flaw := name_flaw(name)) is not None:
        raise InvalidRegistrationError("name", name, flaw)
    if name in registered.callbacks:
        raise ScheduleDuplicateTaskError(name)


def _cron(text: str, timezone: str | tzinfo) -> Cron:
    try:
        return Cron.parse(text, "posix", timezone)
    except InvalidCronExpressionError as error:
        raise CronExpressionInvalidError(error) from error


def _delay_ms(delay: timedelta | float) -> int:
    if not isinstance(delay, timedelta):
        delay = _duration(delay)
    if delay < timedelta(0):
        raise NegativeRetryDelayError(delay / _MS)
    whole, rest = divmod(delay, _MS)
    return whole + bool(rest)


def _duration(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        raise InvalidRegistrationError(
            "retryDelay", seconds, "must be a number of seconds that a timedelta can hold"
        ) from None


@lru_cache(maxsize=1024)
def _policy_for(delay: timedelta | float) -> Policy:
    return policy(_delay_ms(delay))


@lru_cache(maxsize=1024)
def policy(delay_ms: int) -> Policy:
    """Return what every declared task does: one run at a time, one obligation, a fixed retry delay."""
    return Policy(
        overlap=Overlap.BUFFER_ONE,
        catch_up=CatchUp.LATEST,
        grace=0,
        retry=Retry(delay_ms),
        on_orphan=OnOrphan.RESTART,
        run_timeout=None,
        ledger=False,
    )
