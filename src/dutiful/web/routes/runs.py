"""Routes of runs: list, explain, trigger, backfill, cancel, and the reports of executors."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query

from dutiful.httpd.fields import in_utc
from dutiful.httpd.strict_route import StrictRoute
from dutiful.service.errors import NoOutputError
from dutiful.web import requests, responses
from dutiful.web.authorized_service import AuthorizedService, Reader, Reporter, Starter
from dutiful.web.requests import ScheduleId

router = APIRouter(tags=["runs"], route_class=StrictRoute)

RunKey = Annotated[str, Path(max_length=256)]


@router.get("/schedules/{schedule_id}/runs")
async def list_runs(
    authorized: Reader, schedule_id: ScheduleId, query: Annotated[requests.PageQuery, Query()]
) -> responses.RunsAnswer:
    """Return one page of the runs of a schedule, the newest first."""
    await authorized.demand_schedule(schedule_id)
    page = await authorized.service.registrar.runs(schedule_id, query.limit, query.cursor)
    runs = [responses.RunAnswer.model_validate(run) for run in page.items]
    return responses.RunsAnswer(runs=runs, next_cursor=page.next_cursor)


@router.get("/runs")
async def list_all_runs(
    authorized: Reader, query: Annotated[requests.RunsQuery, Query()]
) -> responses.RunsAnswer:
    """Return one page of the runs of all schedules that match every filter, the newest first.

    A page may be short while `next_cursor` says that there may be more.
    """
    if query.user_id is not None and not authorized.caller.acts_for(query.user_id):
        return responses.RunsAnswer(runs=[], next_cursor=None)
    asked = {**query.__dict__, "user_id": query.user_id or authorized.tenant}
    page = await authorized.service.registrar.list_runs(**asked)
    runs = [responses.RunAnswer.model_validate(run) for run in page.items]
    return responses.RunsAnswer(runs=runs, next_cursor=page.next_cursor)


@router.get("/runs/{idempotency_key}")
async def get_run(authorized: Reader, idempotency_key: RunKey) -> responses.RunAnswer:
    """Return one run by its key."""
    run = await authorized.service.registrar.get_run(idempotency_key, authorized.caller.acts_for)
    return responses.RunAnswer.model_validate(run)


@router.get("/runs/{idempotency_key}/output")
async def get_output(authorized: Reader, idempotency_key: RunKey) -> responses.OutputAnswer:
    """Return the end of the output of a run's command, at most 64 KiB.

    404 if no output is stored: DUTIFUL_OUTPUT_DIR is not set, the executor is not a command, or the run is
    old or was launched by another process.
    """
    run = await authorized.service.registrar.get_run(idempotency_key, authorized.caller.acts_for)
    found = authorized.service.output(run.idempotency_key)
    if found is None:
        raise NoOutputError(run.idempotency_key)
    return responses.OutputAnswer(idempotency_key=run.idempotency_key, **found._asdict())


@router.get("/schedules/{schedule_id}/explain")
async def explain(
    authorized: Reader, schedule_id: ScheduleId, query: Annotated[requests.ExplainQuery, Query()]
) -> responses.ExplanationAnswer:
    """Say why the tick at that instant ran, did not run, or will run."""
    await authorized.demand_schedule(schedule_id)
    explanation = await authorized.service.registrar.explain(schedule_id, query.at)
    return responses.ExplanationAnswer.model_validate(explanation._replace(at=in_utc(query.at)))


@router.post("/schedules/{schedule_id}/trigger")
async def trigger(
    authorized: Starter,
    schedule_id: ScheduleId,
    wanted: requests.TriggerRequest | None = None,
    idempotency_key: Annotated[str | None, Header(pattern=requests.KEY_PATTERN)] = None,
) -> responses.TriggeredAnswer:
    """Run a schedule now, in addition to its ticks, even if it is paused.

    The body may have an `input` that replaces the schedule's own. A second request with the same
    `Idempotency-Key` returns the run of the first.
    """
    given = None if wanted is None else wanted.input
    await authorized.demand_schedule(schedule_id)
    authorized.intend("trigger", schedule_id=schedule_id, input=given)
    triggered = await authorized.service.registrar.trigger(schedule_id, given, idempotency_key)
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


@router.post("/runs/{idempotency_key}/cancel")
async def cancel_run(authorized: Starter, idempotency_key: RunKey) -> responses.RunAnswer:
    """Request the end of a run, and return the run as it stands; a run that has ended stays as it is."""
    found = await authorized.service.registrar.get_run(idempotency_key, authorized.caller.acts_for)
    authorized.intend("cancel", schedule_id=found.schedule_id, idempotency_key=idempotency_key)
    run = await authorized.service.registrar.cancel_run(idempotency_key)
    authorized.record("cancel", schedule_id=found.schedule_id, idempotency_key=idempotency_key)
    return responses.RunAnswer.model_validate(run)


@router.post("/runs/{idempotency_key}/status")
async def report_status(
    authorized: Reporter,
    idempotency_key: RunKey,
    report: requests.ReportRequest,
) -> responses.RunAnswer:
    """Record an executor's report on a run, and return the run as it now stands; the first end wins."""
    run = await authorized.service.registrar.report(
        idempotency_key,
        report.status,
        report.attempt,
        report.run_id,
        report.error,
        may_report=authorized.caller.acts_for,
    )
    return responses.RunAnswer.model_validate(run)


@router.post("/run-launcher/start", response_model_exclude_defaults=True)
async def start_run(authorized: Starter, start: requests.StartRequest) -> responses.StartedAnswer:
    """Pass one run to the executor; false if the workflow is unknown or the executor does not accept the run.

    A key under which a run was started before, here or in the ledger, starts nothing: that is a duplicate.
    """
    authorized.demand_user(start.user_id)
    async with authorized.service.launcher.one_at_a_time(start.idempotency_key):
        return await _start_once(authorized, start)


async def _start_once(authorized: AuthorizedService, start: requests.StartRequest) -> responses.StartedAnswer:
    registrar = authorized.service.registrar
    if await registrar.is_started(start.idempotency_key, start.user_id):
        return responses.StartedAnswer(started=True, duplicate=True)
    authorized.demand_key(start.idempotency_key)
    authorized.intend("start", **start.model_dump(mode="json"))
    started = await authorized.service.launcher.start(
        start.workflow_id, start.version, start.user_id, start.scheduled_for, start.idempotency_key
    )
    if started:
        await registrar.note_start(start.idempotency_key, start.user_id)
    authorized.record("start", idempotency_key=start.idempotency_key, started=started)
    return responses.StartedAnswer(started=started)
