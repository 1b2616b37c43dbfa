"""What operators and their tools ask: is it alive, is it ready, how much does it do."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from dutiful.httpd.strict_json import StrictRoute
from dutiful.web import responses
from dutiful.web.authorized_service import Reader

router = APIRouter(tags=["operations"], route_class=StrictRoute)

_UNREADY: dict[int | str, dict[str, Any]] = {
    503: {"model": responses.HealthAnswer, "description": "The worker does not do its work"}
}


@router.get("/healthz")
async def healthz() -> responses.AliveAnswer:
    """Say that this process answers."""
    return responses.AliveAnswer(ok=True)


@router.get("/readyz", responses=_UNREADY)
async def readyz(request: Request, response: Response) -> responses.HealthAnswer:
    """Say whether the worker does its work: 503 if its last full pass is too long ago."""
    health = responses.HealthAnswer.model_validate(await request.app.state.service.health())
    response.status_code = 200 if health.ok else 503
    return health


@router.get("/summary")
async def summary(authorized: Reader) -> responses.SummaryAnswer:
    """Return what the overview shows: health, counts, the next ticks, failures of a day, latest runs."""
    found = await authorized.service.registrar.summary(authorized.tenant)
    return responses.SummaryAnswer.model_validate(
        {**found._asdict(), "health": await authorized.service.health()}, from_attributes=True
    )


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(authorized: Reader) -> Response:
    """Return counters and histograms in the text format that Prometheus reads."""
    await authorized.service.count_damaged()
    return Response(authorized.service.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")
