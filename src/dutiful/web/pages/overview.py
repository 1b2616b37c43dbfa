"""The overview: health, the schedules that need attention, the last day, runs in flight, next ticks."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from dutiful.core.cron.cron import Cron
from dutiful.httpd.instants import rfc_3339
from dutiful.service.board import MINUTE_COUNTED, TEN_MINUTES
from dutiful.service.views import moment
from dutiful.web.authorized_service import Reader
from dutiful.web.drawing.axis import Span
from dutiful.web.drawing.density import Bucket, Density, density
from dutiful.web.drawing.marks import mini
from dutiful.web.drawing.strip import meter
from dutiful.web.pages import words
from dutiful.web.pages.ledger import one_by_one, tick_href
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.system import latest_changes

if TYPE_CHECKING:
    from dutiful.service.board import Day, Running, Soon, Trouble
    from dutiful.service.types import Damaged, Health, RunView
    from dutiful.web.authorized_service import AuthorizedService


_Told = tuple[str, Markup, Markup]


class Need(NamedTuple):
    """One entry of "Needs you": a schedule or a part of the service, and its trouble in words.

    `href` is the page of the schedule, or the page that says more of the part.
    """

    name: str
    href: str
    shape: str
    css: str
    mark: str
    what: Markup
    more: Markup = Markup("")
    mini: str = ""
    mini_said: str = ""
    why: str | None = None
    run: str | None = None
    can_run: bool = False
    can_mend: bool = False


def need_of(trouble: Trouble, now: datetime) -> Need:
    """Return a schedule in trouble as an entry of "Needs you"."""
    schedule, last = trouble.due.schedule, trouble.runs[-1] if trouble.runs else None
    failed = next((run for run in reversed(trouble.runs) if run.status == "FAILED"), None)
    shape, css = {"quarantined": ("aside", "skip"), "failed": ("failed", "fail")}.get(
        trouble.kind, ("skipped", "skip")
    )
    told = {"quarantined": _set_aside, "failed": _failed}.get(trouble.kind, _skipping)
    mark, what, more = told(trouble, failed if trouble.kind == "failed" else last, now)
    culprit = {"failed": failed, "skipping": trouble.open_run}.get(trouble.kind)
    to_come = 0 if trouble.kind == "quarantined" or schedule.paused else 3
    at = None if last is None else (failed or last).run_at if trouble.kind == "failed" else last.run_at
    return Need(
        schedule.id,
        _schedule_href(schedule.id),
        shape,
        css,
        mark,
        what,
        more,
        mini([tick for run in trouble.runs for tick in one_by_one(run)], to_come),
        f"last {min(20, len(trouble.runs))}" + (f", next {to_come}" if to_come else ""),
        None if at is None else tick_href(schedule.id, at),
        None if culprit is None else f"/ui/runs/{culprit.idempotency_key}",
        can_run=trouble.kind == "failed",
        can_mend=trouble.kind == "quarantined",
    )


def _set_aside(trouble: Trouble, _: RunView | None, __: datetime) -> _Told:
    what = Markup("It cannot be computed, the others go on: <code>{}</code>").format(
        words.foreign(trouble.due.state.quarantine)
    )
    return "set aside", what, Markup("")


def _failed(trouble: Trouble, run: RunView | None, now: datetime) -> _Told:
    if run is None:
        return "failed", Markup("Its last run failed; the entry is no longer kept."), Markup("")
    at = run.run_at.astimezone(_zone(trouble))
    when = Markup('<time datetime="{}">{}</time>').format(
        rfc_3339(at), f"{words.near(at, now)}{_where(trouble)}"
    )
    verb = "ran and failed" if run.reason in {"task_failed", "lost_run", "interrupted"} else "did not start"
    what = Markup('The tick of {} {}: <span class="reason">{}</span>').format(when, verb, run.reason)
    more = Markup("<code>{}</code>").format(words.first_line(run.detail)) if run.detail else Markup("")
    return "failed" + (f", {run.attempt} attempts" if run.attempt > 1 else ""), what, more


def _skipping(trouble: Trouble, _: RunView | None, now: datetime) -> _Told:
    skipped = trouble.due.state.skipped
    ticks, reason = (skipped.ticks, skipped.reason.value) if skipped is not None else (0, "")
    mark = f"skipped {ticks:,} times in a row"
    if trouble.open_run is None or reason != "overlap":
        what = Markup('{} <span class="reason">{}</span>').format(words.REASONS.get(reason, ""), reason)
        return mark, what, Markup("")
    began = trouble.open_run.run_at.astimezone(_zone(trouble))
    usual = "" if trouble.usual is None else f"; usually it takes {words.unbroken(words.span(trouble.usual))}"
    what = Markup(
        'The run of <time datetime="{}">{}</time> is still in flight, for {}{}:'
        ' <span class="reason">{}</span>'
    ).format(
        rfc_3339(began), words.near(began, now), words.span((now - began).total_seconds()), usual, reason
    )
    timeout = trouble.due.schedule.policy.run_timeout
    if timeout is None:
        return mark, what, Markup("It is never called lost, decided by <code>run_timeout_s=null</code>")
    lost = began + timedelta(milliseconds=timeout)
    more = Markup(
        'It is called lost at <time datetime="{}">{}</time>, decided by <code>run_timeout_s={:g}</code>'
    ).format(rfc_3339(lost), words.near(lost, now), timeout / 1000)
    return mark, what, more


def damaged_need(damaged: Damaged) -> Need:
    """Return a schedule whose row cannot be read as an entry of "Needs you"."""
    what = Markup("Its row cannot be read: {}. Store it again, or delete it.").format(damaged.problem)
    return Need(damaged.schedule_id, _schedule_href(damaged.schedule_id), "aside", "skip", "damaged", what)


def long_need(running: Running, now: datetime) -> Need:
    """Return a run that takes much longer than usual as an entry of "Needs you"."""
    run, usual = running.run, running.usual or 0.0
    what = Markup("Its run has been in flight for {}; usually it takes {}.").format(
        words.unbroken(words.span(running.seconds(now))), words.unbroken(words.span(usual))
    )
    href = f"/ui/runs/{run.idempotency_key}"
    name = run.schedule_id
    return Need(name, _schedule_href(name), "running", "run", "runs long", what, run=href)


async def service_needs(authorized: AuthorizedService) -> list[Need]:
    """Return the parts of the service that need an operator; other callers get none."""
    if not authorized.caller.may("admin"):
        return []
    service, needs = authorized.service, list[Need]()
    for each in await service.expiring_certificates():
        mark = "has expired" if each.has_expired else "expires soon"
        what = Markup('It ends on <time datetime="{}">{}</time> UTC. Put a new one in its place.').format(
            rfc_3339(each.at), f"{each.at:%Y-%m-%d %H:%M}"
        )
        needs.append(Need(words.begin(each.name), "/ui/system", "aside", "skip", mark, what))
    if (problem := await service.executor_problem()) is not None:
        what = Markup("Runs cannot be handed over: <code>{}</code>").format(words.foreign(problem, 500))
        needs.append(Need("The executor", "/ui/system", "failed", "fail", "does not answer", what))
    elif await service.lacks_executor():
        what = Markup("Every run is refused. Set <code>DUTIFUL_EXECUTOR</code> and start the service again.")
        needs.append(Need("The executor", "/ui/system", "aside", "skip", "is not set", what))
    return needs


def _schedule_href(schedule_id: str) -> str:
    return f"/ui/schedules/{quote(schedule_id)}"


def _zone(trouble: Trouble) -> tzinfo:
    cadence = trouble.due.schedule.cadence
    return cadence.zone.tzinfo if isinstance(cadence, Cron) else UTC


def _where(trouble: Trouble) -> str:
    cadence = trouble.due.schedule.cadence
    name = words.place(cadence.zone.name) if isinstance(cadence, Cron) else "UTC"
    return " UTC" if name == "UTC" else f" in {name}"


router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

NEEDS_SHOWN, _NEXT_SHOWN, _RUNNING_SHOWN, _NAMES_SHOWN = 10, 8, 6, 3
# The oldest runs in flight are looked at for long ones; each costs one read of its schedule's ledger.
_RUNNING_READ = 20
_WIDTH = timedelta(milliseconds=TEN_MINUTES)


@router.get("/", dependencies=[LIVE])
async def overview(request: Request, authorized: Reader) -> HTMLResponse:
    """Show the schedules in trouble, the last day, the runs in flight and the next ticks."""
    return page("overview.html", request, every=5, **await facts(authorized))


async def facts(authorized: AuthorizedService) -> dict[str, Any]:
    """Return all that the overview shows."""
    board, owner = authorized.service.board, authorized.tenant
    now = authorized.service.clock.now().astimezone(UTC)
    # Reads that wait together share one transaction and one turn of the store's thread.
    health, (day, soon), damaged, troubled, runs, census, changes = await asyncio.gather(
        authorized.service.health(),
        board.day_and_next(owner),
        authorized.damaged(),
        board.troubled(owner),
        board.in_flight(owner),
        board.census(owner),
        latest_changes(authorized),
    )
    running, troubles, service = await asyncio.gather(
        board.running(runs[:_RUNNING_READ]),
        board.troubles(troubled[:NEEDS_SHOWN]),
        service_needs(authorized),
    )
    known = {due.schedule.id for due in troubled}
    slow = [each for each in running if each.is_long(now) and each.run.schedule_id not in known]
    others = [long_need(each, now) for each in slow] + service
    count = len(damaged) + len(troubled) + len(others)
    needs = [damaged_need(each) for each in damaged]
    needs += [need_of(trouble, now) for trouble in troubles] + others
    return {
        "health": health,
        "heading": heading(health, count),
        "title": f"{count:,} need you" if needs else "Nothing needs you",
        "needs": needs[:NEEDS_SHOWN],
        "needs_count": count,
        "census": census,
        "day": day,
        "day_wide": draw_day(day, now, 12, 1146, "wide"),
        "day_narrow": draw_day(day, now, 6, 360, "narrow"),
        "day_said": day_said(day),
        "soon": [soon_of(each) for each in soon[:_NEXT_SHOWN]],
        "changes": changes,
        "running": [running_of(each, now) for each in running[:_RUNNING_SHOWN]],
    }


def heading(health: Health, needs: int) -> str:
    """Return the state of the service in one line."""
    if not health.ok:
        return f"Not working: {health.reason}"
    if needs == 0:
        return "Working. Nothing needs you."
    return f"Working. {words.in_words(needs)} {'thing needs' if needs == 1 else 'things need'} you."


def buckets_of(day: Day, now: datetime) -> list[Bucket]:
    """Return the day in buckets of ten minutes: recorded ticks, and after the present the forecast."""
    found: dict[datetime, dict[str, Any]] = {}
    for tally in day.tallies:
        bucket = found.setdefault(moment(tally.at), {"ran": 0, "failed": 0, "skipped": Counter()})
        if tally.status == "SKIPPED":
            bucket["skipped"][str(tally.reason)] += tally.ticks
        else:
            # Count a run in flight above the line too, because it did start.
            bucket["failed" if tally.status == "FAILED" else "ran"] += tally.ticks
    present = now - timedelta(milliseconds=int(now.timestamp() * 1000) % TEN_MINUTES)
    for at, ticks in day.forecast.items():
        bucket = found.setdefault(moment(at), {})
        recorded = (
            bucket.get("ran", 0) + bucket.get("failed", 0) + sum(bucket.get("skipped", Counter()).values())
        )
        # The bucket of the present is partly over, so subtract the ticks that are recorded.
        bucket["to_come"] = max(0, ticks - recorded) if moment(at) <= present else ticks
    return [Bucket(at, **found[at]) for at in sorted(found)]


def draw_day(day: Day, now: datetime, hours: int, width: float, css: str) -> str:
    """Return the drawing of the day, with this many hours back and ahead."""
    around = timedelta(hours=hours)
    span = Span(now - around, now + around, UTC, width)
    drawn = Density(
        span, buckets_of(day, now), _WIDTH, now, lambda a, b: _period(a, b, now), timedelta(hours=1)
    )
    return density(drawn, css)


def _period(begin: datetime, end: datetime, now: datetime) -> str:
    if begin >= now:
        return f"/ui/calendar?day={begin:%Y-%m-%d}"
    return f"/ui/runs?since={quote(rfc_3339(_whole(begin)))}&until={quote(rfc_3339(_whole(end)))}"


def _whole(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def day_said(day: Day) -> str:
    """Return the drawing of the day as a sentence."""
    account, ahead = day.account, sum(day.forecast.values())
    said = (
        f"In the last 24 hours {account.ran:,} ticks ran, {account.failed:,} failed and"
        f" {account.skipped.total():,} were skipped. {ahead:,} are to come in the next 12 hours"
    )
    if not ahead:
        return said + "."
    fullest = max(day.forecast, key=lambda at: (day.forecast[at], -at))
    return f"{said}, most of them at {moment(fullest):%H:%M}, {day.forecast[fullest]:,} in ten minutes."


def soon_of(soon: Soon) -> dict[str, Any]:
    """Return the schedules that are due in one minute, in words."""
    first, names = soon.schedules[0], [due.schedule.id for due in soon.schedules]
    if soon.number == 1:
        cadence = first.schedule.cadence
        at = soon.at.astimezone(cadence.zone.tzinfo) if isinstance(cadence, Cron) else soon.at
        where = f" in {words.place(cadence.zone.name)}" if isinstance(cadence, Cron) else ""
        local = words.clock(at) + where
        detail = cadence.describe() if isinstance(cadence, Cron) and at.utcoffset() == timedelta() else local
        return {"at": soon.at, "name": names[0], "href": f"/ui/schedules/{quote(names[0])}", "detail": detail}
    shown = names[:_NAMES_SHOWN]
    left = f" and {soon.number - len(shown):,} more" if soon.number > len(shown) else ""
    minute = soon.at.replace(second=0, microsecond=0)
    until = minute + timedelta(minutes=1)
    href = f"/ui/schedules?since={quote(rfc_3339(minute))}&until={quote(rfc_3339(until))}"
    more = " or more" if soon.number >= MINUTE_COUNTED else ""
    return {
        "at": soon.at,
        "name": words.counted(soon.number, "schedule") + more,
        "href": href,
        "detail": ", ".join(shown) + left,
    }


def running_of(running: Running, now: datetime) -> dict[str, Any]:
    """Return one run in flight, in words and as a bar against its usual time."""
    run, seconds = running.run, running.seconds(now)
    return {
        "run": run,
        "began": run.started_at or run.fire_at,
        "seconds": seconds,
        "usual": running.usual,
        "meter": meter(seconds, running.usual),
    }
