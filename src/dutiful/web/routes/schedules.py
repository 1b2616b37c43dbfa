"""Routes of schedules: declare, list, show, pause, delete."""

# ruff: noqa: TC001 - the framework reads annotations at run time
from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response

from dutiful.httpd.problems import InvalidRequestError
from dutiful.httpd.strict_route import StrictRoute
from dutiful.service.errors import DamagedScheduleError
from dutiful.web import requests, responses
from dutiful.web.authorized_service import AuthorizedService, Reader, Writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dutiful.service.types import Upserted

router = APIRouter(prefix="/schedules", tags=["schedules"], route_class=StrictRoute)


@router.post("/upsert")
async def upsert_schedule(authorized: Writer, schedule: requests.ScheduleRequest) -> responses.UpsertedAnswer:
    """Store a schedule, new or edited. Without `schedule_id` it is a new one."""
    given = schedule.as_input()
    authorized.intend_all("upsert", _told([schedule]))
    [stored] = await authorized.upsert({"": given})
    authorized.record("upsert", schedule_id=stored.schedule_id)
    return _answered(stored, await authorized.warnings(given))


@router.post("/preview")
async def preview_upsert(
    authorized: Reader, schedule: requests.ScheduleRequest
) -> responses.UpsertPreviewAnswer:
    """Return the changes that an upsert with this body would make to a schedule, without storing anything."""
    return await _previewed(authorized, "", schedule)


async def _previewed(
    authorized: AuthorizedService, place: str, schedule: requests.ScheduleRequest
) -> responses.UpsertPreviewAnswer:
    given = schedule.as_input()
    found = responses.UpsertPreviewAnswer.model_validate(await authorized.preview(place, given))
    return found.model_copy(update={"warnings": await authorized.warnings(given)})


@router.post("/bulk/preview")
async def preview_many_upserts(
    authorized: Reader, bulk: requests.PreviewManyRequest
) -> responses.PreviewManyAnswer:
    """Return the changes that a bulk of up to 100 schedules would make, without storing anything."""
    found = [
        await _previewed(authorized, f"schedules.{place}", each) for place, each in enumerate(bulk.schedules)
    ]
    return responses.PreviewManyAnswer(schedules=found)


@router.post("/bulk")
async def upsert_many_schedules(authorized: Writer, bulk: requests.BulkRequest) -> responses.BulkAnswer:
    """Store up to 10,000 schedules, all or none; the body is a list, bare or under `schedules`.

    With `revisions` nothing is stored unless each schedule named there is as its preview found it.
    """
    schedules = bulk.schedules
    authorized.intend_all("upsert", _told(schedules))
    stored = await authorized.upsert(
        {f"schedules.{place}": schedule.as_input() for place, schedule in enumerate(schedules)},
        bulk.revisions or {},
    )
    authorized.record("upsert", schedule_ids=[one.schedule_id for one in stored])
    return responses.BulkAnswer(schedules=[_answered(one) for one in stored])


@router.post("/pause")
async def pause_schedule(authorized: Writer, pause: requests.PauseRequest) -> responses.PausedAnswer:
    """Pause or resume one schedule, with a note that says why and an instant at which it is resumed."""
    await authorized.demand_schedule(pause.schedule_id)
    until, by = pause.until, authorized.caller.user_id
    action = authorized.intend_pause(pause.paused, until, schedule_id=pause.schedule_id, note=pause.note)
    await authorized.service.registrar.pause_schedule(pause.schedule_id, pause.paused, pause.note, by, until)
    authorized.record(action, schedule_id=pause.schedule_id)
    return responses.PausedAnswer(schedule_id=pause.schedule_id, paused=pause.paused)


@router.post("/pause-many")
async def pause_many_schedules(
    authorized: Writer, pause: requests.PauseManyRequest
) -> responses.PausedManyAnswer:
    """Pause or resume every schedule that matches all given filters."""
    filters = {"workflow_id": pause.workflow_id, "user_id": pause.user_id, "label": pause.label}
    if all(value is None for value in filters.values()):
        problem = "name at least one of workflow_id, user_id and label, or every schedule would change"
        raise InvalidRequestError([{"at": "body", "problem": problem}])
    if pause.user_id is not None:
        authorized.demand_user(pause.user_id)
    filters["user_id"] = pause.user_id or authorized.tenant
    until, by = pause.until, authorized.caller.user_id
    if pause.pause_note is not None:
        filters["pause_note"] = pause.pause_note
    action = authorized.intend_pause(pause.paused, until, **filters, note=pause.note)
    changed = await authorized.service.registrar.pause_where(
        pause.paused, pause.note, **filters, by=by, until=until
    )
    authorized.record(action, **filters, changed=changed)
    return responses.PausedManyAnswer(changed=changed)


@router.get("")
async def list_schedules(
    authorized: Reader, query: Annotated[requests.ListQuery, Query()]
) -> responses.SchedulesAnswer:
    """Return one page of the schedules that match all given filters."""
    if query.user_id is not None and not authorized.caller.acts_for(query.user_id):
        return responses.SchedulesAnswer(schedules=[], next_cursor=None, damaged=[])
    page = await authorized.service.registrar.list_schedules(
        workflow_id=query.workflow_id,
        user_id=query.user_id or authorized.tenant,
        paused=query.paused,
        label=query.label,
        part=query.find,
        limit=query.limit,
        cursor=query.cursor,
    )
    listed = [responses.ScheduleAnswer.model_validate(view) for view in page.items]
    unreadable = await authorized.damaged() if query.cursor is None else []
    damaged = [responses.DamagedAnswer.model_validate(each) for each in unreadable]
    return responses.SchedulesAnswer(schedules=listed, next_cursor=page.next_cursor, damaged=damaged)


@router.get("/{schedule_id}")
async def get_schedule(authorized: Reader, schedule_id: requests.ScheduleId) -> responses.ScheduleAnswer:
    """Return a schedule with its next five fire times."""
    await authorized.demand_schedule(schedule_id)
    return responses.ScheduleAnswer.model_validate(
        await authorized.service.registrar.get_schedule(schedule_id)
    )


@router.delete("/{schedule_id}", status_code=204, response_class=Response)
async def delete_schedule(authorized: Writer, schedule_id: requests.ScheduleId) -> None:
    """Delete a schedule; runs that it has started go on."""
    with suppress(DamagedScheduleError):
        await authorized.demand_schedule(schedule_id)
    authorized.intend("delete", schedule_id=schedule_id)
    await authorized.service.registrar.delete_schedule(schedule_id)
    authorized.record("delete", schedule_id=schedule_id)


@router.get("/{schedule_id}/next")
async def next_fire_times(
    authorized: Reader, schedule_id: requests.ScheduleId, query: Annotated[requests.NextQuery, Query()]
) -> responses.PreviewAnswer:
    """Return the next fire times, in the schedule's own zone."""
    await authorized.demand_schedule(schedule_id)
    preview = await authorized.service.registrar.next_fires(schedule_id, query.count)
    return responses.PreviewAnswer(schedule_id=schedule_id, preview=preview)


def _told(schedules: Iterable[requests.ScheduleRequest]) -> Iterator[dict[str, Any]]:
    """Yield what the audit log tells of an upsert; without its file, nothing is made of the schedules."""
    return ({"schedule_id": each.schedule_id, "given": each.as_json()} for each in schedules)


def _answered(stored: Upserted, warnings: Sequence[str] = ()) -> responses.UpsertedAnswer:
    """Return the answer about one schedule, without `model_validate`, which takes twice as long."""
    return responses.UpsertedAnswer(**stored._asdict(), warnings=[*warnings])
