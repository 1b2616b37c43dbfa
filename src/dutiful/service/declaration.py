"""A schedule as a deploy declares it and as it is shown; a declaration is read strictly into a `Schedule`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar
from zoneinfo import available_timezones

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import epoch_ms, zone
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.name import exact, subject_flaw
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task, Window
from dutiful.launchers.url import check_url
from dutiful.service.payload import TASK, Payload, encode
from dutiful.service.settings import hides_secrets

if TYPE_CHECKING:
    # Only the web evaluates the annotations of ScheduleInput and ScheduleView: a worker needs no pydantic.
    from pydantic import Field

    from dutiful.httpd.fields import Days, Id, Instant, Labels, Seconds, SomeSeconds, User, Version, one_of

E = TypeVar("E", bound=StrEnum)

INPUT_MAX = 16_384
_URL_MAX = 4096
_RETRIES_MAX, _BACKOFF_MAX = 1000, 100
_ROWS_MAX, _DAYS_MAX = 1_000_000, 36_600
_QUEUE_MAX = 1_000_000
# Browsers and clients take the path /schedules/.. for another one.
_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}")
_ID_ADVICE = "write 1 to 128 letters, digits, dots, underlines and dashes, more than one or two dots"
_INTEGER_MAX = 2**53 - 1
_DAY_MS = 86_400_000
_YEAR_S = 366 * 86_400
_LABELS_MAX, _LABEL_LENGTH_MAX = 64, 1000
# A launch that cannot be made is tried again after 1, 2, 4 seconds and so on.
_LAUNCH_DELAY_MS, _LAUNCH_BACKOFF = 1000, 2
_USUAL, _NO_RETRY = Policy(), Retry(delay=0, limit=0)


class Delivery(StrEnum):
    """What to do with a launch that was not answered."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"


_ORPHANS = {Delivery.AT_LEAST_ONCE: OnOrphan.RELAUNCH, Delivery.AT_MOST_ONCE: OnOrphan.GIVE_UP}


class Defaults(NamedTuple):
    """The values of a schedule that declares no others."""

    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.NONE
    jitter_ms: int = 0
    catch_up_cap: int = 100
    launch_retries: int = 3
    # A shorter grace is raised to this.
    grace_min: int = 0


class ScheduleInput(NamedTuple):
    """The declaration of a schedule in a deploy.

    None takes the default of the settings; for `paused` it leaves an existing schedule as it is.
    """

    workflow_id: Id
    version: Version
    user_id: User
    cron_expr: Annotated[str, Field(max_length=256)]
    schedule_id: Id | None = None
    timezone: Annotated[str, Field(max_length=64)] = "UTC"
    start_at: Instant | None = None
    end_at: Instant | None = None
    jitter_ms: Annotated[int, Field(ge=0, le=_DAY_MS)] | None = None
    overlap_policy: Annotated[str, one_of(*Overlap)] | None = None
    catchup_policy: Annotated[str, one_of(*CatchUp)] | None = None
    paused: bool | None = None
    dialect: Annotated[str, one_of("posix", "standard", "seconds")] | None = None
    gap: Annotated[str, one_of("skip", "run_after")] | None = None
    fold: Annotated[str, one_of("both", "first", "last")] | None = None
    dst: Annotated[str, one_of("vixie")] | None = None
    grace_s: Seconds | None = None
    delivery: Annotated[str, one_of(*Delivery)] | None = None
    run_timeout_s: SomeSeconds | None = None
    queue_limit: Annotated[int, Field(ge=0, le=_QUEUE_MAX)] | None = None
    labels: Labels | None = None
    # Any JSON value of at most 16 KiB, handed to the executor.
    input: Any = None
    # A failed task is retried this often, after this delay, each time `retry_backoff` times longer.
    retry_limit: Annotated[int, Field(ge=0, le=_RETRIES_MAX)] | None = None
    retry_delay_s: Seconds | None = None
    retry_backoff: Annotated[int, Field(ge=1, le=_BACKOFF_MAX)] | None = None
    retention_days: Annotated[int, Field(ge=1, le=_DAYS_MAX)] | None = None
    retention_rows: Annotated[int, Field(ge=1, le=_ROWS_MAX)] | None = None
    executor: Annotated[str, Field(max_length=_URL_MAX)] | None = None
    # Seconds after its fire time by which a tick should start and its run end; and how often a run should
    # succeed.
    start_within_s: SomeSeconds | None = None
    finish_within_s: SomeSeconds | None = None
    succeed_every_s: SomeSeconds | None = None
    # Days without ticks: 2026-12-25, 2026-12-24/2027-01-01, or 12-25 for every year.
    calendar: Days | None = None
    # When a pause ends by itself; only beside `paused=True`.
    pause_until: Instant | None = None


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it stands. `preview` is in the schedule's own zone, all else in UTC."""

    schedule_id: str
    workflow_id: str
    version: int
    user_id: str
    cron_expr: str
    timezone: str
    start_at: Instant | None
    end_at: Instant | None
    next_run_at: Instant | None
    paused: bool
    jitter_ms: int
    overlap_policy: str
    catchup_policy: str
    updated_at: Instant
    pause_note: str | None
    # When the schedule was paused, and by whom; None while it is not paused, and where it was not recorded.
    paused_at: Instant | None
    paused_by: str | None
    # When the pause ends by itself; None: only a user ends it.
    pause_until: Instant | None
    labels: Mapping[str, str]
    delivery: str
    dialect: str
    gap: str
    fold: str
    grace_s: float
    run_timeout_s: float | None
    queue_limit: int
    input: Any
    retry_limit: int
    retry_delay_s: float
    retry_backoff: int
    retention_days: int | None
    retention_rows: int | None
    executor: str | None
    start_within_s: float | None
    finish_within_s: float | None
    succeed_every_s: float | None
    calendar: Sequence[str]
    # Why the schedule is quarantined, or None.
    quarantine: str | None
    # Entries of ticks up to here may have been deleted; None where none was.
    pruned_until: Instant | None
    preview: list[Instant]

    @property
    def cron(self) -> Cron:
        """Return the cron of the schedule as it is stored."""
        settings = self.dialect, self.timezone, self.gap, self.fold
        return Cron.parse(self.cron_expr, *settings, calendar=self.calendar)  # type: ignore[arg-type]


def declared(given: ScheduleInput, schedule_id: str, paused: bool, defaults: Defaults) -> Schedule:
    """Return the schedule, or raise InvalidArgumentError or InvalidCronExpressionError."""
    return Schedule(
        identify("schedule_id", schedule_id),
        Task(TASK, encode(_payload(given))),
        _cron(given),
        _policy(given, defaults),
        _window(given),
        paused,
    )


def identify(field: str, value: object) -> str:
    """Return an id, or raise InvalidArgumentError."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise InvalidArgumentError(field, value, _ID_ADVICE)
    return exact(value)


def user(field: str, value: object) -> str:
    """Return the name of a user, or raise InvalidArgumentError."""
    if (flaw := subject_flaw(value)) is not None:
        raise InvalidArgumentError(field, value, flaw)
    return exact(str(value))


def instant(field: str, value: object) -> int:
    """Return an aware datetime in epoch milliseconds, rounded up, or raise InvalidArgumentError."""
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidArgumentError(field, value, "write a time with its offset, such as 2026-01-05T09:00:00Z")
    return epoch_ms(value) + (value.microsecond % 1000 > 0)


def choose(field: str, value: object, choices: type[E]) -> E:
    """Return one of the choices, or raise InvalidArgumentError that lists them."""
    try:
        return value if isinstance(value, choices) else choices(str(value))
    except ValueError:
        raise InvalidArgumentError(field, value, f"choose from {', '.join(choices)}") from None


def _payload(given: ScheduleInput) -> Payload:
    return Payload(
        identify("workflow_id", given.workflow_id),
        whole_number("version", given.version),
        user("user_id", given.user_id),
        _labels(given.labels),
        json_value("input", given.input),
        _executor(given.executor),
    )


def json_value(field: str, value: Any) -> Any:
    """Return a JSON value of at most 16 KiB, or raise InvalidArgumentError."""
    if value is None:
        return None
    try:
        size = len(json.dumps(value, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(field, "…", f"is not JSON: {error}") from error
    if size > INPUT_MAX:
        raise InvalidArgumentError(field, f"{size} bytes", f"write at most {INPUT_MAX} bytes of JSON")
    return value


def _executor(url: object) -> str | None:
    if url is None:
        return None
    if not isinstance(url, str) or not url.isprintable() or len(url) > _URL_MAX:
        raise InvalidArgumentError("executor", "…", f"write one line of at most {_URL_MAX} characters")
    # The stored URL, which was checked, takes the place of one that is written as it is shown.
    if not hides_secrets(url):
        check_url(url)
    return url


def _labels(labels: object) -> dict[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping) or len(labels) > _LABELS_MAX:
        raise InvalidArgumentError("labels", labels, f"write at most {_LABELS_MAX} names with a text each")
    for name, text in labels.items():
        identify("labels", name)
        if not isinstance(text, str) or len(text) > _LABEL_LENGTH_MAX or not text.isprintable():
            advice = f"write one line of at most {_LABEL_LENGTH_MAX} characters"
            raise InvalidArgumentError(f"labels.{name}", text, advice)
    return dict(sorted(labels.items()))


def _cron(given: ScheduleInput) -> Cron:
    text, timezone, days = given.cron_expr, _timezone(given.timezone), _calendar(given.calendar)
    dialect = given.dialect
    if dialect is None:
        dialect = "seconds" if len(str(text).split()) == 6 else "standard"
    if given.dst is not None:
        return Cron.parse(text, dialect, timezone, given.gap, given.fold, given.dst, days)  # type: ignore[arg-type]
    # Where only one of gap and fold is given, the other one follows the rule for daily jobs.
    usual = Cron.parse(text, dialect, timezone, dst="vixie")
    gap, fold = given.gap or usual.gap, given.fold or usual.fold
    return Cron.parse(text, dialect, timezone, gap, fold, calendar=days)  # type: ignore[arg-type]


def _calendar(days: object) -> Sequence[str]:
    if days is None:
        return ()
    if isinstance(days, str) or not isinstance(days, Sequence):
        raise InvalidArgumentError("calendar", days, 'write a list of days, such as ["2026-12-25"]')
    return days


def _timezone(name: str) -> str:
    if name not in _zones():
        # `zone` raises the better error, with a suggestion; it accepts more texts than callers may use.
        zone(name)
        raise InvalidArgumentError("timezone", name, "write a name of the tz database, such as Europe/Berlin")
    return name


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _window(given: ScheduleInput) -> Window:
    start = None if given.start_at is None else instant("start_at", given.start_at)
    end = None if given.end_at is None else instant("end_at", given.end_at)
    if start is not None and end is not None and end < start:
        raise InvalidArgumentError("end_at", str(given.end_at), "must not be before start_at")
    return Window(start, end)


def _policy(given: ScheduleInput, defaults: Defaults) -> Policy:
    overlap = defaults.overlap if given.overlap_policy is None else given.overlap_policy
    catch_up = defaults.catch_up if given.catchup_policy is None else given.catchup_policy
    jitter = defaults.jitter_ms if given.jitter_ms is None else given.jitter_ms
    delivery = choose("delivery", given.delivery or Delivery.AT_LEAST_ONCE, Delivery)
    timeout, limit = given.run_timeout_s, given.queue_limit
    grace = _USUAL.grace if given.grace_s is None else _milliseconds("grace_s", given.grace_s, 0)
    return _shared_policy(
        overlap=choose("overlap_policy", overlap, Overlap),
        catch_up=choose("catchup_policy", catch_up, CatchUp),
        grace=max(grace, defaults.grace_min),
        catch_up_cap=defaults.catch_up_cap,
        launch_retry=launch_retry(defaults.launch_retries),
        jitter=whole_number("jitter_ms", jitter, 0, _DAY_MS),
        on_orphan=_ORPHANS[delivery],
        run_timeout=_USUAL.run_timeout if timeout is None else _milliseconds("run_timeout_s", timeout, 1),
        queue_limit=_USUAL.queue_limit
        if limit is None
        else whole_number("queue_limit", limit, 0, _QUEUE_MAX),
        retry=_retry(given),
        retention_age=_days("retention_days", given.retention_days),
        retention_rows=_rows("retention_rows", given.retention_rows),
        start_within=_expected("start_within_s", given.start_within_s),
        finish_within=_expected("finish_within_s", given.finish_within_s),
        succeed_every=_expected("succeed_every_s", given.succeed_every_s),
    )


def launch_retry(retries: int) -> Retry:
    """Return how launches that did not reach their executor are repeated."""
    return Retry(_LAUNCH_DELAY_MS, retries, _LAUNCH_BACKOFF)


def policy_facts(policy: Policy) -> dict[str, Any]:
    """Return the choices of a policy under their names in an upsert."""
    retry = policy.retry or _NO_RETRY
    at_most_once = policy.on_orphan is OnOrphan.GIVE_UP
    return {
        "jitter_ms": policy.jitter,
        "overlap_policy": policy.overlap.value,
        "catchup_policy": policy.catch_up.value,
        "delivery": (Delivery.AT_MOST_ONCE if at_most_once else Delivery.AT_LEAST_ONCE).value,
        "grace_s": policy.grace / 1000,
        "run_timeout_s": _seconds(policy.run_timeout),
        "queue_limit": policy.queue_limit,
        "retry_limit": retry.limit or 0,
        "retry_delay_s": retry.delay / 1000,
        "retry_backoff": retry.backoff,
        "retention_days": None if policy.retention_age is None else policy.retention_age // _DAY_MS,
        "retention_rows": policy.retention_rows,
        "start_within_s": _seconds(policy.start_within),
        "finish_within_s": _seconds(policy.finish_within),
        "succeed_every_s": _seconds(policy.succeed_every),
    }


def _seconds(duration: int | None) -> float | None:
    return None if duration is None else duration / 1000


def _retry(given: ScheduleInput) -> Retry | None:
    """Return how a failed task is retried; None where no limit is named."""
    if given.retry_limit is None:
        for name in ("retry_delay_s", "retry_backoff"):
            if getattr(given, name) is not None:
                raise InvalidArgumentError(name, getattr(given, name), "name a retry_limit too")
        return None
    limit = whole_number("retry_limit", given.retry_limit, 0, _RETRIES_MAX)
    delay = _milliseconds("retry_delay_s", 0 if given.retry_delay_s is None else given.retry_delay_s, 0)
    backoff = 1 if given.retry_backoff is None else given.retry_backoff
    return Retry(delay, limit, whole_number("retry_backoff", backoff, 1, _BACKOFF_MAX)) if limit else None


def _expected(field: str, seconds: float | None) -> int | None:
    return None if seconds is None else _milliseconds(field, seconds, 1)


def _days(field: str, days: int | None) -> int | None:
    return None if days is None else whole_number(field, days, 1, _DAYS_MAX) * _DAY_MS


def _rows(field: str, rows: int | None) -> int | None:
    return None if rows is None else whole_number(field, rows, 1, _ROWS_MAX)


@lru_cache(maxsize=1024)
def _shared_policy(**choices: Any) -> Policy:
    """Return one object for equal choices: thousands of schedules share them."""
    return Policy(**choices)


def whole_number(field: str, value: int, low: int = 0, high: int = _INTEGER_MAX) -> int:
    """Return a whole number from `low` to `high`, or raise InvalidArgumentError."""
    # Compare types exactly: isinstance(True, int) is true.
    if type(value) is not int or not low <= value <= high:
        raise InvalidArgumentError(field, value, f"write a whole number from {low} to {high}")
    return value


def _milliseconds(field: str, value: float, low: int) -> int:
    if type(value) not in (int, float) or not 0 <= value <= _YEAR_S or round(value * 1000) < low:
        least = "0" if low == 0 else f"{low / 1000:g}"
        raise InvalidArgumentError(field, value, f"write a number of seconds from {least} to {_YEAR_S}")
    return round(value * 1000)
