"""One run: when it was due, launched and done, why, and which runs came before and after it."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from dutiful.core.errors import UnknownRunError, UnknownScheduleError
from dutiful.service.types import RunView
from dutiful.web.authorized_service import Reader
from dutiful.web.pages import words
from dutiful.web.pages.ledger_entries import CSS, became, is_open, state_of, tick_href, waits_for_retry
from dutiful.web.pages.rendering import LIVE, page
from dutiful.web.pages.why import why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.web.authorized_service import AuthorizedService

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)


class Moment(NamedTuple):
    """One point in the life of a run."""

    name: str
    at: datetime | None
    note: str
    state: Literal["done", "open", "failed"]


@router.get("/ui/runs/{key}", dependencies=[LIVE])
async def run(
    request: Request, authorized: Reader, key: Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
) -> HTMLResponse:
    """Show one run from its tick to its end."""
    found = await authorized.service.registrar.get_run(key)
    try:
        view = await authorized.schedule(found.schedule_id)
    except UnknownScheduleError:
        # Treat a run of another user like a run that does not exist.
        raise UnknownRunError(key) from None
    cron, now = view.cron, authorized.service.clock.now().astimezone(UTC)
    asked = await why(authorized, view, cron, found.run_at)
    return page(
        "run.html",
        request,
        every=2 if is_open(found) else 15,
        run=found,
        view=view,
        zone=cron.zone.tzinfo,
        moments=moments_of(found, now),
        neighbours=await neighbours(authorized, found, cron.zone.tzinfo, now),
        state=state_of(found),
        css=CSS[state_of(found)],
        sentence=asked.sentence,
        setting=asked.setting,
        explain=tick_href(found.schedule_id, found.run_at),
        output=await asyncio.to_thread(authorized.service.output, found.idempotency_key),
        keeps_output=authorized.service.settings.output_dir is not None,
    )


class Neighbour(NamedTuple):
    """The entry of the same schedule before or after a run."""

    run: RunView
    href: str
    when: str


async def neighbours(
    authorized: AuthorizedService, run: RunView, zone: tzinfo, now: datetime
) -> tuple[Neighbour | None, Neighbour | None]:
    """Return the entries of the same schedule before and after a run, None where there is none."""
    ask, instant = authorized.service.registrar.list_runs, timedelta(milliseconds=1)
    before = await ask(schedule_id=run.schedule_id, until=run.run_at, limit=1)
    after = await ask(
        schedule_id=run.schedule_id, since=(run.run_until or run.run_at) + instant, limit=1, oldest_first=True
    )
    first, second = (
        next((_neighbour(one, zone, now) for one in listed.items), None) for listed in (before, after)
    )
    return first, second


def _neighbour(run: RunView, zone: tzinfo, now: datetime) -> Neighbour:
    at, href = run.run_at.astimezone(zone), f"/ui/runs/{run.idempotency_key}"
    if run.run_until is None:
        return Neighbour(run, href, words.moment(at, now))
    last = run.run_until.astimezone(zone)
    until = words.clock(last) if last.date() == at.date() else words.moment(last, now)
    return Neighbour(run, tick_href(run.schedule_id, run.run_until), f"{words.moment(at, now)} to {until}")


def moments_of(run: RunView, now: datetime) -> list[Moment]:
    """Return the life of a run in order, with the time between its points."""
    who = {"manual": "asked for by hand", "backfill": "asked for by a backfill"}.get(run.trigger, "planned")
    return [Moment("Tick", run.run_at, who, "done"), *_to_the_launch(run), *_from_the_launch(run, now)]


def _to_the_launch(run: RunView) -> Iterator[Moment]:
    """Yield the moments between the tick and the last launch."""
    if run.attempt > 1:
        yield Moment("Decided", run.created_at, _after(run.run_at, run.created_at), "done")
        yield _earlier(run)
    if waits_for_retry(run):
        return
    if run.attempt > 1:
        yield Moment("Retry due", run.fire_at, "", "done")
        return
    if run.fire_at != run.run_at:
        yield Moment("To fire", run.fire_at, "moved by jitter or catch-up", "done")
    if run.created_at > run.fire_at:
        yield Moment("Decided", run.created_at, _after(run.fire_at, run.created_at), "done")


def _earlier(run: RunView) -> Moment:
    """Return the attempts before the last one: the ledger keeps their number, not their times."""
    count = run.attempt - 1
    running = is_open(run) and not waits_for_retry(run)
    last_failed = not running and run.reason in {"task_failed", "lost_run"}
    failed = min(count, run.task_failures - (1 if last_failed else 0))
    lost = count - failed
    said = ["failed" if count == 1 else f"{failed} failed"] if failed else []
    said += (
        ["did not reach the executor" if count == 1 else f"{lost} did not reach the executor"] if lost else []
    )
    name = "Attempt 1" if count == 1 else f"Attempts 1 to {count}"
    note = f"{', '.join(said)}; only the last attempt's times are kept"
    return Moment(name, run.ended_at if running else None, note, "failed")


def _from_the_launch(run: RunView, now: datetime) -> Iterator[Moment]:
    """Yield the last launch and what came of it."""
    if run.started_at is None:
        waits = f"not yet, for {words.span((now - run.created_at).total_seconds())}"
        yield (
            Moment("Ends", None, waits, "open")
            if is_open(run)
            else Moment("Recorded", run.updated_at, became(run), "done")
        )
        return
    again = waits_for_retry(run)
    late = "" if again else f", {_after(run.fire_at, run.started_at)}"
    yield Moment("Launched", run.started_at, f"attempt {run.attempt}{late}", "done")
    length = words.span(max(0.0, ((run.ended_at or now) - run.started_at).total_seconds()))
    if again:
        yield Moment("Failed", run.ended_at, f"in {length}", "failed")
        yield Moment("Retry due", run.fire_at, words.distance(run.fire_at, now), "open")
    elif is_open(run):
        since = words.span((now - run.started_at).total_seconds())
        yield Moment("Ends", None, f"not yet, for {since}", "open")
    else:
        state: Literal["done", "failed"] = "failed" if run.status == "FAILED" else "done"
        yield Moment("Ended", run.ended_at or run.updated_at, f"{became(run)}, in {length}", state)


def _after(earlier: datetime, later: datetime) -> str:
    return f"{words.span(max(0.0, (later - earlier).total_seconds()))} after its time"
