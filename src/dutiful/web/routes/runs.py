"""Runs: what happened, why, once more, and what executors report."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from dutiful.httpd.strict_route import StrictRoute
from dutiful.web import requests, responses
from dutiful.web.authorized_service import Reader, Reporter, Starter
from dutiful.web.routes.schedules import ScheduleId

router = APIRouter(tags=["runs"], route_class=StrictRoute)


@router.get("/schedules/{schedule_id}/runs")
async def list_runs(
    authorized: Reader, schedule_id: ScheduleId, query: Annotated[requests.PageQuery, Query()]
) -> responses.RunsAnswer:
    """Return one page of the runs of a schedule, the newest first."""
    await authorized.demand_schedule(schedule_id)
    page = await authorized.service.registrar.runs(schedule_id, query.limit, query.cursor)
    runs = [responses.RunAnswer.model_validate(run) for run in page.items]
    return responses.RunsAnswer(runs=runs, next_cursor=page.next_cursor)


@router.get("/schedules/{schedule_id}/explain")
async def explain(
    authorized: Reader, schedule_id: ScheduleId, query: Annotated[requests.ExplainQuery, Query()]
) -> responses.ExplanationAnswer:
    """Say why the tick at that instant ran, did not run, or will run."""
    await authorized.demand_schedule(schedule_id)
    explanation = await authorized.service.registrar.explain(schedule_id, query.at)
    return responses.ExplanationAnswer.model_validate(explanation)


@router.post("/schedules/{schedule_id}/trigger")
async def trigger(authorized: Starter, schedule_id: ScheduleId) -> responses.TriggeredAnswer:
    """Run a schedule now, beside its ticks, whether it is paused or not."""
    await authorized.demand_schedule(schedule_id)
    authorized.intend("trigger", schedule_id=schedule_id)
    triggered = await authorized.service.registrar.trigger(schedule_id)
    authorized.record("trigger", schedule_id=schedule_id, idempotency_key=triggered.idempotency_key)
    return responses.TriggeredAnswer.model_validate(triggered)


@router.post("/schedules/{schedule_id}/backfill")
async def backfill(
    authorized: Starter, schedule_id: ScheduleId, wanted: requests.BackfillRequest
) -> responses.BackfilledAnswer:
    """Run the past ticks in [start, end) that are not recorded yet, under an overlap policy of their own."""
    await authorized.demand_schedule(schedule_id)
    authorized.intend("backfill", schedule_id=schedule_id, given=wanted.model_dump(mode="json"))
    done = await authorized.service.registrar.backfill(
        schedule_id, wanted.start, wanted.end, wanted.overlap_policy, wanted.force
    )
    authorized.record("backfill", schedule_id=schedule_id, accepted=done.accepted)
    return responses.BackfilledAnswer.model_validate(done)


@router.post("/runs/{idempotency_key}/status")
async def report_status(
    authorized: Reporter,
    idempotency_key: Annotated[str, Path(max_length=256)],
    report: requests.ReportRequest,
) -> responses.RunAnswer:
    """Take what an executor says of a run, and return the run as it now stands; the first end wins."""
    run = await authorized.service.registrar.report(
        idempotency_key,
        report.status,
        report.attempt,
        report.run_id,
        report.error,
        may_report=authorized.caller.acts_for,
    )
    return responses.RunAnswer.model_validate(run)


@router.post("/run-launcher/start")
async def start_run(authorized: Starter, start: requests.StartRequest) -> responses.StartedAnswer:
    """Hand one run to the executor; false if there is no such workflow, or the executor did not take it."""
    authorized.demand_user(start.user_id)
    authorized.intend("start", **start.model_dump(mode="json"))
    started = await authorized.service.launcher.start(
        start.workflow_id, start.version, start.user_id, start.scheduled_for, start.idempotency_key
    )
    authorized.record("start", idempotency_key=start.idempotency_key, started=started)
    return responses.StartedAnswer(started=started)
