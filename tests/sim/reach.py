"""The situations that a campaign must have met: a situation that was never met was not tested."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tests.sim.model import AXIOMS
from tests.sim.oracle import offsets
from tests.sim.world import DEPOSED, LABELS

from dutiful.core.cron.cron import Cron
from dutiful.core.policy import OnOrphan, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.sim.recorder import Era, Record

# No row of one engine says these: a tick outside the window is none, and a broken schedule is left alone.
ELSEWHERE = {Reason.OUTSIDE_WINDOW, Reason.QUARANTINED}
STORE = ("lead", "rearm", "load", "commit", "some", "settle")

WANTED = (
    *(f"crash {label}" for label in LABELS),
    *(f"{when} {method}" for when in ("before", "after") for method in STORE),
    *(f"reason {reason}" for reason in Reason if reason not in ELSEWHERE),
    *(f"adopt {policy}" for policy in OnOrphan),
    *(f"deposed before {method}" for method in DEPOSED),
    *(
        "overtaken commit",
        "saved from a cancel",
        "stretch of another cadence",
        "launched alone",
        "lead lost",
        "kill",
        "stopped",
        "stopped with runs left",
        "outage",
        "locked commit",
        "locked settle",
        "ScheduleQuarantined",
        "PassFailed",
    ),
    *(f"axiom {axiom}" for axiom in AXIOMS),
    *(f"model {step}" for step in ("RunFailure", "Crash", "orphan", "Frozen", "StopEnd")),
    *("step forward", "step back", "rearm", "gap", "fold", "leap day", "year end"),
    *("trigger", "cancel", "backfill", "backfill of what ran", "forget", "relabel"),
    *("edit", "add", "remove", "pause", "resume", "pause ended", "report heard", "report refused"),
)

# These must be met more than once: an axiom that judged a few steps has shown little.
LEAST = {"axiom S1": 1000, "axiom L1": 1000, "axiom S2": 200, "axiom S3": 3, "axiom L3": 3, "axiom S6": 50}


def reached(record: Record) -> Counter[str]:
    """Return what a world has been through, as far as its record shows it."""
    found: Counter[str] = Counter()
    for (_, run_at, _), versions in record.history.items():
        found.update(f"reason {seen.row.reason}" for seen in versions if seen.row.reason is not None)
        found.update(_dates(run_at))
        last = versions[-1].row if versions else None
        if last is not None and last.run_until is not None:
            found.update(_encounters(record.eras[last.schedule_id], run_at))
    for eras in record.eras.values():
        for era in eras:
            if isinstance(era.schedule.cadence, Cron):
                found.update(_changes(era.schedule.cadence, era.opened, era.closed))
    found["rearm"] += record.rearmed
    found["pause ended"] += record.resumed
    found["launched alone"] += record.alone
    return found + record.adopted


def _dates(run_at: int) -> Iterator[str]:
    day = datetime.fromtimestamp(run_at / 1000, UTC)
    if (day.month, day.day) == (2, 29):
        yield "leap day"
    if (day.month, day.day) == (12, 31):
        yield "year end"


def _encounters(eras: Sequence[Era], run_at: int) -> Iterator[str]:
    """Tell of a stretch that began where another cadence has a stretch of time too."""
    if len({era.schedule.cadence for era in eras if era.opened < run_at <= era.closed}) > 1:
        yield "stretch of another cadence"


def _changes(cron: Cron, opened: int, closed: int) -> Iterator[str]:
    zone = cron.zone.tzinfo
    for at, before, after in offsets(zone.key).changes if isinstance(zone, ZoneInfo) else ():
        if opened < at * 1000 <= closed:
            yield "gap" if after > before else "fold"


def missing(reach: Counter[str]) -> list[str]:
    """Return what a campaign should have been through and was not."""
    return [name for name in WANTED if reach[name] < LEAST.get(name, 1)]
