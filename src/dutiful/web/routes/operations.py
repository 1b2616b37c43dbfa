"""Routes for operators and their tools: health, readiness, overview and metrics."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from dutiful.core.cron.zone import epoch_ms, rfc_3339
from dutiful.core.run import Status
from dutiful.httpd.strict_route import StrictRoute
from dutiful.service.board import Day, Line, Wanted
from dutiful.service.views import cron_of, decode_cursor, encode_cursor, moment, next_run_at
from dutiful.web import requests, responses
from dutiful.web.authorized_service import Reader, Writer
from dutiful.web.drawing.density import Bucket
from dutiful.web.drawing.marks import drawn_as
from dutiful.web.pages.ledger_entries import beads
from dutiful.web.pages.needs import find_needs
from dutiful.web.pages.overview import buckets_of
from dutiful.web.pages.schedules import Filter

if TYPE_CHECKING:
    from datetime import datetime

    from dutiful.service.types import Health

router = APIRouter(tags=["operations"], route_class=StrictRoute)

_SHOWN_NEXT = 3

_UNREADY: dict[int | str, dict[str, Any]] = {
    503: {
        "model": responses.ReadyAnswer,
        "description": "The worker does not do its work, or the store is away",
    }
}

_UNCHANGED: dict[int | str, dict[str, Any]] = {
    204: {"description": "Nothing has changed since the revision in the header `dutiful-revision`"}
}


@router.get("/healthz")
async def healthz() -> responses.AliveAnswer:
    """Say that this process answers."""
    return responses.AliveAnswer(ok=True)


@router.get("/readyz", responses=_UNREADY)
async def readyz(request: Request, response: Response) -> responses.ReadyAnswer:
    """Say whether this process does its work: 503 if the last full pass of its worker is too long ago.

    A process without a worker answers 503 while it cannot reach the store. On PostgreSQL the answer also has
    the number of shards that no worker leads, how long the most overdue schedule has waited, and by how much
    the clock of this host is ahead of the database's.
    """
    readiness = responses.ReadyAnswer.model_validate(await request.app.state.service.readiness())
    response.status_code = 200 if readiness.ok else 503
    return readiness


@router.get("/summary", response_model=responses.SummaryAnswer, responses=_UNCHANGED)
async def summary(authorized: Reader, dutiful_revision: Annotated[str | None, Header()] = None) -> Any:
    """Return the facts of the overview: health, counts, the account of a day, next ticks, latest runs.

    Send the `revision` of the last answer in the header `dutiful-revision` to get 204 while nothing has
    changed since; `dutiful-last-pass` is then when the worker has last passed.
    """
    board, owner = authorized.service.board, authorized.tenant
    health = await authorized.service.health()
    # Read before the facts, so that a write in between shows at the next request.
    revision = _revision(await board.revision(), health, authorized.service.clock.now())
    if dutiful_revision == revision:
        passed = {} if health.last_pass_at is None else {"dutiful-last-pass": rfc_3339(health.last_pass_at)}
        return Response(status_code=204, headers=passed)
    found = await authorized.service.registrar.summary(owner)
    day = await board.day(owner)
    nodes = (await authorized.service.cluster()).nodes
    leaders = [node.name for node in nodes if node.shards]
    needs = await find_needs(authorized)
    shown = {
        "revision": revision,
        "health": health,
        "leaders": leaders,
        "standby": len(nodes) - len(leaders),
        "needs": needs.number,
        "running": len(needs.runs),
        "account": _account(day),
        "day": [_bucket(bucket) for bucket in buckets_of(day, found.now)],
    }
    return responses.SummaryAnswer.model_validate({**found._asdict(), **shown}, from_attributes=True)


def _revision(written: str, health: Health, now: datetime) -> str:
    """Return a text that changes with every write, with the health, and with the minute: ticks come due."""
    return f"{written}.{health.ok:d}.{now:%H%M}"


@router.get("/summary/schedules")
async def summary_schedules(
    authorized: Reader, query: Annotated[requests.LinesQuery, Query()]
) -> responses.LinesAnswer:
    """Return the schedules of one view of the overview that match all filters, with their last 20 ticks."""
    board, now = authorized.service.board, authorized.service.clock.now()
    wanted = _wanted(query)
    users = [value for name, value in wanted.facets if name == "user"]
    if not all(map(authorized.caller.acts_for, users)):
        return responses.LinesAnswer(now=now, schedules=[], next_cursor=None)
    owner = users[0] if users else authorized.tenant
    after = "" if query.cursor is None else str(decode_cursor(query.cursor, str)[0])
    lines = await board.lines(query.view, wanted, query.limit + 1, owner, after)
    shown = lines[: query.limit]
    has_more = query.view == "all" and len(lines) > query.limit
    return responses.LinesAnswer(
        now=now,
        schedules=[_line(line, now) for line in shown],
        next_cursor=encode_cursor(shown[-1].due.schedule.id) if has_more else None,
    )


def _wanted(query: requests.LinesQuery) -> Wanted:
    found = Filter.read(query.find)
    asked = Filter(label=query.label, workflow_id=query.workflow_id, user_id=query.user_id)
    users = [("user", each.user_id) for each in (found, asked) if each.user_id is not None]
    return Wanted([*found.facets, *asked.facets, *users], query.paused)


@router.get("/cluster")
async def cluster(authorized: Reader) -> responses.ClusterAnswer:
    """Return the nodes of the cluster, who leads which shard, how late each is, and the clock offset.

    The offset is that of the host that answers; the other hosts tell their own.
    """
    return responses.ClusterAnswer.model_validate(await authorized.service.cluster())


@router.post("/cluster/drain")
async def drain_node(authorized: Writer, given: requests.DrainRequest) -> responses.ClusterAnswer:
    """Ask a node to give its shards away and to take no others, until `POST /cluster/rebalance`."""
    authorized.caller.require("admin")
    authorized.intend("drain_node", node=given.node)
    view = await authorized.service.drain_node(given.node)
    authorized.record("drain_node", node=given.node)
    return responses.ClusterAnswer.model_validate(view)


@router.post("/cluster/rebalance")
async def rebalance(authorized: Writer) -> responses.ClusterAnswer:
    """End every request to drain, so that the shards spread over all nodes again."""
    authorized.caller.require("admin")
    authorized.intend("rebalance")
    view = await authorized.service.rebalance()
    authorized.record("rebalance")
    return responses.ClusterAnswer.model_validate(view)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(authorized: Reader) -> Response:
    """Return counters and histograms in the text format that Prometheus reads."""
    await authorized.service.count_damaged()
    return Response(authorized.service.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _account(day: Day) -> dict[str, Any]:
    p50, p99 = day.drift or (None, None)
    found = {name: getattr(day.account, name) for name in ("due", "ran", "failed", "open", "unaccounted")}
    since = {
        str(tally.reason): moment(tally.at)
        for tally in sorted(day.tallies, key=lambda tally: -tally.at)
        if tally.status is Status.SKIPPED
    }
    skipped = {"skipped": dict(day.account.skipped), "skipped_since": since}
    return {**found, **skipped, "drift_p50_s": p50, "drift_p99_s": p99}


def _bucket(bucket: Bucket) -> dict[str, Any]:
    return {
        "at": bucket.start,
        "ran": bucket.ran,
        "failed": bucket.failed,
        "skipped": bucket.skipped.total(),
        "to_come": bucket.to_come,
    }


def _line(line: Line, now: datetime) -> responses.LineAnswer:
    """Return one schedule of a list: its state, its latest ticks and a note on its trouble."""
    schedule, runs, cron = line.due.schedule, line.runs, cron_of(line.due)
    last, state = runs[0] if runs else None, _state(line)
    stands_still = state in {"paused", "aside"}
    return responses.LineAnswer.model_validate(
        {
            "schedule_id": schedule.id,
            "state": state,
            "meaning": cron.describe(),
            "timezone": cron.zone.name,
            "past": [bead.state for bead in beads(runs)],
            "to_come": 0 if stands_still else _SHOWN_NEXT,
            "last_at": None if last is None else moment(last.run_until or last.run_at),
            "last_status": None if last is None else last.status,
            "next_run_at": None if stands_still else next_run_at(line.due, epoch_ms(now)),
            "note": _note(line),
        }
    )


def _state(line: Line) -> str:
    if line.due.state.quarantine is not None:
        return "aside"
    if line.due.schedule.paused:
        return "paused"
    return drawn_as(line.runs[0].status) if line.runs else "to_come"


def _note(line: Line) -> str:
    """Return a note on the trouble or the pause of a schedule, or else the reason of its last entry."""
    if line.due.state.quarantine is not None:
        return line.due.state.quarantine
    if line.due.schedule.paused and (said := _pause(line)):
        return said
    skipped, last = line.due.state.skipped, line.runs[0] if line.runs else None
    if skipped is not None and skipped.ticks > 1:
        return f"{skipped.reason.value}, {skipped.ticks} in a row"
    return (last.reason or "") if last is not None else ""


def _pause(line: Line) -> str:
    """Return why a schedule is paused, and until when."""
    until = line.due.schedule.pause_until
    end = None if until is None else f"until {moment(until):%Y-%m-%d %H:%M} UTC"
    return ", ".join(part for part in (line.pause_note, end) if part)
