"""CronJobs of Kubernetes, in YAML with any number of documents."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml

from dutiful.importers.cron_text import LOST_RUN, changes_clocks, zone_difference
from dutiful.importers.imported import (
    SECONDS_MAX,
    Difference,
    Draft,
    Imported,
    NotImportableError,
    Refused,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.importers.imported import Target

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# A few lines of aliases can stand for more than any memory holds.
_SIZE_MAX = 2_000_000
_PREFIX = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.+)")
# `Forbid` holds ticks back during a run, and starts the latest of them once the run ends, as buffer_one does.
_OVERLAPS = {"Allow": "allow", "Forbid": "buffer_one", "Replace": "cancel_other"}
_WORK = Difference(
    *("work", "the controller creates a Job", "your executor gets the Job's template as input.job"),
    "Let your executor create it, or start the work in another way",
)


def read_cron_jobs(text: str, target: Target) -> Imported:
    """Return the schedules of all CronJobs in a YAML text; other kinds are left out."""
    imported = Imported(target)
    try:
        found = [*_numbered(text)]
    except RecursionError:
        imported.refused.append(
            Refused("the file", "", "is not YAML: a value contains itself, or is nested too deeply")
        )
        return imported
    except (yaml.YAMLError, ValueError) as error:
        imported.refused.append(Refused("the file", "", f"is not YAML: {' '.join(str(error).split())}"))
        return imported
    if not found:
        imported.refused.append(Refused("the file", "", "has no CronJob"))
    for number, one in found:
        meta = _object(one, "metadata")
        named = [str(meta[key]) for key in ("namespace", "name") if meta.get(key)]
        imported.take(".".join(named) or "cronjob", f"document {number}", partial(_draft, one, target))
    return imported


def _numbered(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each CronJob with the number of its document.

    Raises YAMLError, ValueError for a date that does not exist and for a document that aliases make too
    large, and RecursionError for a value that contains itself.
    """
    for number, document in enumerate(yaml.load_all(text, Loader=_LOADER), 1):
        _count(document, _SIZE_MAX)
        for one in _cron_jobs(document):
            yield number, one


def _count(value: Any, left: int) -> int:
    """Return how much larger a document may be, in values and characters; raises ValueError if it is not."""
    left -= 1 + (len(value) if isinstance(value, str) else 0)
    if left < 0:
        raise ValueError(f"it has more than {_SIZE_MAX:,} values and characters; aliases repeat them")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        left = _count(each, left)
    return left


def _cron_jobs(document: Any, listed: str = "") -> Iterator[dict[str, Any]]:
    """Yield the CronJobs of a document; in a list of one kind the objects need not repeat it."""
    if not isinstance(document, dict):
        return
    kind = document.get("kind", listed)
    if kind == "CronJob":
        yield document
    elif isinstance(items := document.get("items"), list):
        for each in items:
            yield from _cron_jobs(each, str(kind).removesuffix("List"))


def _object(of: dict[str, Any], key: str) -> dict[str, Any]:
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def _stated(value: Any) -> Any:
    """Return a value without the nulls in its objects: for Kubernetes they are left out."""
    match value:
        case dict():
            return {key: _stated(each) for key, each in value.items() if each is not None}
        case list():
            return [_stated(each) for each in value]
    return value


def _seconds(of: dict[str, Any], key: str) -> int | None:
    found = of.get(key)
    if found is None or (type(found) is int and 0 <= found <= SECONDS_MAX):
        return found
    raise NotImportableError(f"{key} {found!r} is no number of seconds from 0 to {SECONDS_MAX:,}")


def _draft(document: dict[str, Any], target: Target) -> Draft:
    spec = _stated(_object(document, "spec"))
    if not isinstance(spec.get("schedule"), str):
        raise NotImportableError("has no text under spec.schedule")
    template = _object(spec, "jobTemplate")
    text, timezone, differences = _cadence(spec, target)
    deadline = _seconds(spec, "startingDeadlineSeconds")
    settings: dict[str, Any] = {
        "cron_expr": text,
        "timezone": timezone,
        "gap": "skip",
        "fold": "both",
        "overlap_policy": _overlap(spec),
        "catchup_policy": "latest" if deadline is None else "none",
    }
    if deadline is not None:
        settings["grace_s"] = deadline
    if spec.get("suspend") is True:
        settings["paused"] = True
    if seconds := _seconds(_object(template, "spec"), "activeDeadlineSeconds"):
        settings["run_timeout_s"] = seconds
    settings["input"] = {"job": template}
    return Draft(settings, [*differences, *_differences(spec, settings)])


def _cadence(spec: dict[str, Any], target: Target) -> tuple[str, str, list[Difference]]:
    """Return the cron text, its zone, and their differences."""
    text, timezone, differences = spec["schedule"].strip(), spec.get("timeZone"), list[Difference]()
    if prefixed := _PREFIX.fullmatch(text):
        timezone, text = timezone or prefixed[1], prefixed[2]
    if text.startswith("@every"):
        raise NotImportableError(f"{text!r} is an interval, and no cron text; write one that is near enough")
    if timezone is None:
        timezone = target.timezone
        differences.append(zone_difference(timezone, "it is the zone of the controller manager"))
    fields = ("*" if part in ("?", "*/1", "?/1") else part.replace("?", "*") for part in text.split())
    if changes_clocks(timezone):
        there = "a local time that is skipped does not run, by the manual of its cron library"
        here = 'the same (gap = "skip"); a time that comes twice runs twice (fold = "both")'
        advice = 'Write dst = "vixie" in place of both to run once on each day'
        differences.append(Difference("changing clocks", there, here, advice))
    return " ".join(fields), timezone, differences


def _overlap(spec: dict[str, Any]) -> str:
    policy = spec.get("concurrencyPolicy", "Allow")
    if not isinstance(policy, str) or policy not in _OVERLAPS:
        raise NotImportableError(f"concurrencyPolicy {policy!r} is none of {', '.join(_OVERLAPS)}")
    return _OVERLAPS[policy]


def _differences(spec: dict[str, Any], settings: dict[str, Any]) -> Iterator[Difference]:
    yield _WORK
    if "run_timeout_s" not in settings:
        yield LOST_RUN
    if "grace_s" in settings:
        there = "of all ticks within startingDeadlineSeconds only the latest starts"
        here = f"each tick that is found at most {settings['grace_s']} s late runs, as overlap_policy allows"
        yield Difference("missed ticks", there, here, 'Write catchup_policy = "latest" for one run at most')
    else:
        there = "the latest missed tick starts, but none if more than 100 were missed"
        here = "the latest missed tick runs, however many were missed"
        yield Difference("missed ticks", there, here, "Nothing to do")
    if spec.get("concurrencyPolicy") == "Forbid":
        there = "a tick that was held back starts after the run, within startingDeadlineSeconds"
        here = 'it runs after the run, however late (overlap_policy = "buffer_one")'
        yield Difference("overlap", there, here, 'Write "skip" to drop it')
    if settings.get("paused"):
        there = "ticks that pass while suspended count as missed, and one may start at once on resuming"
        here = "they are recorded as paused, and none runs later"
        yield Difference("suspend", there, here, "Leave `paused` out once it is stored; it is the operator's")
    if "successfulJobsHistoryLimit" in spec or "failedJobsHistoryLimit" in spec:
        there, here = "so many Jobs of each kind are kept", "the ledger keeps 30 days and 1,000 entries"
        yield Difference("history", there, here, "Set retention_days and retention_rows")
