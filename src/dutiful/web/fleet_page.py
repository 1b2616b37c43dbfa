"""The page of a fleet: its agents, their running jobs, and why a schedule does not run now.

`dutiful fleet start --page HOST:PORT` serves it on the loopback: the page has no login.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi import Path as InPath
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import Field

from dutiful.core.errors import DutifulError
from dutiful.httpd.fields import ID_PATTERN, QueryModel
from dutiful.httpd.middleware import MiddlewareSettings, RequestMiddleware
from dutiful.httpd.problems import install_problems
from dutiful.web.pages import words
from dutiful.web.pages.forms import read_form
from dutiful.web.pages.rendering import (
    HashedFiles,
    UnchangedError,
    install_problem_pages,
    page,
    refusal_page,
)

if TYPE_CHECKING:
    from dutiful.runtime.ports import Clock

Document: TypeAlias = dict[str, Any]
Action: TypeAlias = Literal["enable", "disable", "run", "cancel"]
Name: TypeAlias = Annotated[str, InPath(pattern=ID_PATTERN)]

router = APIRouter(tags=["pages"], default_response_class=HTMLResponse, include_in_schema=False)

RUNS_SHOWN = 20
# Most agents of the overview, and most of their schedules together; an agent's own page has so many at once.
AGENTS_SHOWN, ROWS_SHOWN, ROWS_A_PAGE = 12, 60, 50
OUTPUT_SHOWN = 20_000
_EVERY_S = 5
WHY = {
    "unsupported_type": "The clock never fires this type; run it by hand or over HTTP.",
    "disabled": "It is out of service until it is enabled.",
    "already_running": "Its own run is still going.",
    "at_capacity": "Its agent runs as many jobs as it may.",
    "not_due": "It waits for its next time.",
    "quarantined": "It is set aside, because it cannot be read.",
}
"""One sentence for each reason for which a pass does not trigger a schedule."""
_DONE = {
    "enable": "{} is in service again.",
    "disable": "{} is out of service.",
    "run": "{} runs with the next pass.",
    "cancel": "The running jobs of {} were cancelled.",
}


class FleetAnswers(Protocol):
    """A running fleet that answers questions and takes commands; all methods raise errors of the fleet."""

    def revision(self) -> str:
        """Return a text that changes with the answers, but for the counts of passes in the status."""

    async def status(self) -> Document:
        """Return the state of the fleet, its agents and its running jobs."""

    async def schedules(self, agent: str | None) -> list[Document]:
        """Return every schedule, or those of one agent."""

    async def switch(self, agent: str, schedule: str | None, *, enabled: bool) -> list[Document]:
        """Enable or disable a schedule."""

    async def run(self, agent: str, schedule: str, prompt: str | None) -> Document:
        """Have a schedule run with the next pass."""

    async def cancel(self, agent: str, schedule: str) -> Document:
        """Cancel the running jobs of a schedule."""

    async def history(
        self, agent: str | None, schedule: str | None, limit: int, *, failed: bool
    ) -> list[Document]:
        """Return the last entries of the history, newest first."""

    async def explain(self, agent: str, schedule: str, at: datetime) -> Document:
        """Return why a schedule ran at an instant, did not run, or will run."""

    async def output(self, agent: str, schedule: str, number: int | None) -> Document | None:
        """Return the stored output of a run, by default of the latest, or None."""


def create_fleet_app(fleet: FleetAnswers, clock: Clock, host: str) -> FastAPI:
    """Return the application of a fleet's page; `host` is the address that it is served at."""
    app = FastAPI(title="dutiful fleet", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.fleet, app.state.clock, app.state.site = fleet, clock, "fleet"
    app.include_router(router)
    install_problems(app)
    install_problem_pages(app)
    app.mount("/static", HashedFiles(directory=Path(__file__).parent / "static"), name="static")
    app.add_middleware(RequestMiddleware, settings=MiddlewareSettings(host), refusal_page=refusal_page)
    return app


async def live(request: Request) -> None:
    """Note the revision for a page that refreshes itself; raise UnchangedError if the browser has it."""
    revision = request.app.state.fleet.revision()
    if request.headers.get("dutiful-revision") == revision:
        raise UnchangedError
    request.state.revision = revision


LIVE = Depends(live)


class ListQuery(QueryModel):
    """A part of the names of schedules, and which page of the list to show."""

    q: Annotated[str, Field(max_length=200)] = ""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1

    def finds(self, each: Document) -> bool:
        """Return whether `agent/schedule` has the text in it."""
        return self.q.strip().casefold() in f"{each['agent']}/{each['schedule']}".casefold()


class Turn(NamedTuple):
    """One page of a list, and the queries that lead to the pages before and after this page."""

    shown: list[Document]
    before: str | None
    after: str | None

    @staticmethod
    def of(found: list[Document], query: ListQuery, most: int) -> Turn:
        """Return the page that the query asks for, with at most so many entries."""
        first = (query.page - 1) * most
        given = {"q": query.q} if query.q else {}

        def to(number: int) -> str:
            return "?" + urlencode({**given, "page": number})

        before = to(query.page - 1) if query.page > 1 else None
        return Turn(
            found[first : first + most], before, to(query.page + 1) if first + most < len(found) else None
        )


@router.get("/", dependencies=[LIVE])
async def overview(request: Request, query: Annotated[ListQuery, Query()]) -> HTMLResponse:
    """Show the agents of the fleet, the schedules of each that need most attention, and the running jobs."""
    fleet: FleetAnswers = request.app.state.fleet
    status, schedules = await fleet.status(), await fleet.schedules(None)
    found: dict[str, list[Document]] = {agent["name"]: [] for agent in status["agents"]}
    for each in schedules:
        if each["agent"] in found and query.finds(each):
            found[each["agent"]].append(each)
    turn = Turn.of(_agents(status, found, query), query, AGENTS_SHOWN)
    most = ROWS_SHOWN // max(1, len(turn.shown))
    jobs = _jobs(status)
    return page(
        "fleet.html",
        request,
        every=_EVERY_S,
        fleet={
            **status,
            "started_at": at(status["started_at"]),
            "stalled_since": at(status["stalled_since"]),
        },
        heading=heading(status, schedules),
        whys=WHY,
        given=query,
        turn=turn,
        total=len(schedules),
        can_find=len(schedules) > ROWS_SHOWN,
        agents=[
            (agent, [_line(each, jobs) for each in worst_first(own)[:most]], len(own))
            for agent, own in ((agent, found[agent["name"]]) for agent in turn.shown)
        ],
    )


def _agents(status: Document, found: dict[str, list[Document]], query: ListQuery) -> list[Document]:
    """Return the agents in the order of the file; if they need several pages, those in trouble come first."""
    agents = [agent for agent in status["agents"] if found[agent["name"]] or not query.q]
    if len(agents) <= AGENTS_SHOWN:
        return agents
    return sorted(agents, key=lambda agent: not any(_needs_you(each) for each in found[agent["name"]]))


def _jobs(status: Document) -> dict[tuple[str, str], Document]:
    return {(job["agent"], job["schedule"]): job for job in status["jobs"]}


def _needs_you(each: Document) -> bool:
    return each["last_error"] is not None or each["problem"] is not None


def worst_first(schedules: list[Document]) -> list[Document]:
    """Return schedules by need of attention: in trouble, running, held back, then by their next time."""

    def attention(each: Document) -> tuple[int, str]:
        if _needs_you(each):
            return 0, ""
        if each["status"] == "running":
            return 1, ""
        if each["skip_reason"] == "at_capacity":
            return 2, ""
        return 3, each["next_run_at"] or "without a time, after all that have one"

    return sorted(schedules, key=attention)


@router.get("/ui/fleet/{agent}", dependencies=[LIVE])
async def of_agent(request: Request, agent: Name, query: Annotated[ListQuery, Query()]) -> HTMLResponse:
    """Show the schedules of one agent, a page at a time."""
    fleet: FleetAnswers = request.app.state.fleet
    schedules, status = await fleet.schedules(agent), await fleet.status()
    turn = Turn.of([each for each in worst_first(schedules) if query.finds(each)], query, ROWS_A_PAGE)
    jobs = _jobs(status)
    return page(
        "fleet_agent.html",
        request,
        every=_EVERY_S,
        agent=next(known for known in status["agents"] if known["name"] == agent),
        whys=WHY,
        given=query,
        turn=turn,
        total=len(schedules),
        can_find=len(schedules) > ROWS_A_PAGE,
        lines=[_line(each, jobs) for each in turn.shown],
    )


def heading(status: Document, schedules: list[Document]) -> str:
    """Return the state of the fleet in one line."""
    if status["stall"] is not None:
        return "Not working: its passes fail"
    failing = sum(map(_needs_you, schedules))
    if failing:
        need = "schedule needs" if failing == 1 else "schedules need"
        return f"Working. {words.in_words(failing)} {need} you."
    return "Working. Nothing needs you."


def _line(each: Document, jobs: dict[tuple[str, str], Document]) -> Document:
    """Return a schedule as the list shows it: shape, words, times and the latest line of its output."""
    job = jobs.get((each["agent"], each["schedule"]))
    shape, css, said = _standing(each, running=job is not None)
    return {
        **each,
        "shape": shape,
        "css": css,
        "said": said,
        "reason": "manual_only" if each["skip_reason"] == "unsupported_type" else each["skip_reason"],
        "last_run_at": at(each["last_run_at"]),
        "next_run_at": at(each["next_run_at"]),
        "skipped_since": at(each["skipped_since"]),
        "job": None if job is None else {**job, "started_at": at(job["started_at"])},
    }


def _standing(each: Document, *, running: bool) -> tuple[str, str, str]:
    if each["problem"] is not None:
        return "aside", "skip", "set aside"
    if running:
        return "running", "run", "running"
    if each["status"] == "disabled":
        return "paused", "", "disabled"
    if each["last_error"] is not None:
        return "failed", "fail", "failed"
    return ("to_come", "", "has not run") if each["last_run_at"] is None else ("ran", "ok", "ran")


def at(text: str | None) -> datetime | None:
    """Return the instant of a text in an answer of the fleet, None for None."""
    return None if text is None else datetime.fromisoformat(text)


class OneQuery(QueryModel):
    """The run whose output to show, and a sentence about the action that led here."""

    run: Annotated[int, Field(ge=1)] | None = None
    done: Annotated[str, Field(max_length=300)] | None = None


@router.get("/ui/fleet/{agent}/{schedule}")
async def one(
    request: Request, agent: Name, schedule: Name, query: Annotated[OneQuery, Query()]
) -> HTMLResponse:
    """Show one schedule: why it does not run now, its history, and the output of a run."""
    fleet: FleetAnswers = request.app.state.fleet
    jobs = _jobs(await fleet.status())
    # Always refresh the page of a running job: the job may print the same line again, without a new revision.
    if (agent, schedule) not in jobs:
        await live(request)
    why = await fleet.explain(agent, schedule, request.app.state.clock.now())
    history = await fleet.history(agent, schedule, RUNS_SHOWN, failed=False)
    output = await fleet.output(agent, schedule, query.run)
    return page(
        "fleet_schedule.html",
        request,
        every=2 if (agent, schedule) in jobs else _EVERY_S,
        line=_line(why["now"], jobs),
        why=WHY.get(why["now"]["skip_reason"] or "", "It starts with the next pass."),
        history=[_entry(run) for run in history],
        number=None if output is None else output["run"],
        output=None if output is None else tail(output["output"]),
        done=query.done,
    )


def tail(output: str) -> str:
    """Return the end of an output, as much of it as a page shows."""
    return output if len(output) <= OUTPUT_SHOWN else f"… (the beginning is cut)\n{output[-OUTPUT_SHOWN:]}"


def _entry(run: Document) -> Document:
    shapes = {"SUCCESS": ("ran", "ok"), "FAILED": ("failed", "fail"), "SKIPPED": ("skipped", "skip")}
    shape, css = shapes.get(run["status"], ("running", "run"))
    began, ended = at(run["started_at"]), at(run["ended_at"])
    return {
        **run,
        "shape": shape,
        "css": css,
        "at": at(run["run_at"]),
        "took": None if began is None or ended is None else (ended - began).total_seconds(),
        "line": words.main_line(run["detail"]),
    }


@router.get("/ui/fleet/{agent}/{schedule}/{action}")
async def ask(request: Request, agent: Name, schedule: Name, action: Action) -> HTMLResponse:
    """Ask before a schedule is enabled, disabled, run or cancelled."""
    return await _question(request, agent, schedule, action)


async def _question(
    request: Request, agent: str, schedule: str, action: Action, problem: str | None = None
) -> HTMLResponse:
    fleet: FleetAnswers = request.app.state.fleet
    line = (await fleet.explain(agent, schedule, request.app.state.clock.now()))["now"]
    status = await fleet.status()
    return page(
        "fleet_action.html",
        request,
        200 if problem is None else 409,
        action=action,
        line=line,
        agent=next(known for known in status["agents"] if known["name"] == agent),
        jobs=sum((job["agent"], job["schedule"]) == (agent, schedule) for job in status["jobs"]),
        problem=problem,
    )


@router.post("/ui/fleet/{agent}/{schedule}/{action}")
async def act(request: Request, agent: Name, schedule: Name, action: Action) -> Response:
    """Enable, disable, run or cancel a schedule, and say what was done or why it was refused."""
    await read_form(request)
    fleet: FleetAnswers = request.app.state.fleet
    try:
        if action == "run":
            await fleet.run(agent, schedule, None)
        elif action == "cancel":
            await fleet.cancel(agent, schedule)
        else:
            await fleet.switch(agent, schedule, enabled=action == "enable")
    except DutifulError as error:
        if type(error).__name__.endswith("NotFoundError"):
            raise
        return await _question(request, agent, schedule, action, str(error))
    done = _DONE[action].format(f"{agent}/{schedule}")
    return RedirectResponse(f"/ui/fleet/{agent}/{schedule}?{urlencode({'done': done[:300]})}", 303)
