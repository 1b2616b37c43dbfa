"""What needs an operator: schedules in trouble, damaged ones, long runs, parts of the service."""

# ruff: noqa: TC002 - the framework reads annotations at run time
from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from fastapi import Request
from markupsafe import Markup

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import rfc_3339
from dutiful.core.errors import StoreError
from dutiful.core.run import Status
from dutiful.service.views import view_run
from dutiful.web.authorized_service import AuthorizedService
from dutiful.web.drawing.marks import mini
from dutiful.web.pages import words
from dutiful.web.pages.ledger_entries import beads, tick_href

if TYPE_CHECKING:
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Snapshot
    from dutiful.service.board import Running, Trouble
    from dutiful.service.types import Damaged, RunView

# The oldest runs in flight are looked at for long ones; each costs one read of its schedule's ledger.
_RUNNING_READ = 20


class Needs(NamedTuple):
    """Everything that needs an operator, and the runs in flight, which were searched for long ones."""

    damaged: list[Damaged]
    troubled: list[Snapshot]
    others: list[Need]
    runs: list[Run]
    running: list[Running]

    @property
    def number(self) -> int:
        """Return how many entries there are in all."""
        return len(self.damaged) + len(self.troubled) + len(self.others)


async def find_needs(authorized: AuthorizedService) -> Needs:
    """Return all things that need the caller."""
    board, owner = authorized.service.board, authorized.tenant
    now = authorized.service.clock.now().astimezone(UTC)
    damaged, troubled, runs = await asyncio.gather(
        authorized.damaged(), board.troubled(owner), board.in_flight(owner)
    )
    running, known = await board.running(runs[:_RUNNING_READ]), {due.schedule.id for due in troubled}
    slow = [each for each in running if each.is_long(now) and each.run.schedule_id not in known]
    others = [long_need(each, now) for each in slow] + await service_needs(authorized)
    found = Needs(damaged, troubled, others, runs, running)
    board.needs.put(_kind_of(authorized), (found.number,))
    return found


async def first_needs(authorized: AuthorizedService, found: Needs, most: int) -> list[Need]:
    """Return the worst of these things in words."""
    now = authorized.service.clock.now().astimezone(UTC)
    troubles = await authorized.service.board.troubles(found.troubled[:most])
    needs = [damaged_need(each) for each in found.damaged[:most]]
    return [*needs, *(need_of(trouble, now) for trouble in troubles), *found.others][:most]


async def note_needs(request: Request) -> None:
    """Count the things that need the caller, for the bar of a page; the number is kept for some seconds."""
    caller = getattr(request.state, "caller", None)
    # The overview shows its own, fresh count.
    if caller is None or not caller.may("read") or request.url.path == "/":
        return
    state = request.app.state
    authorized = AuthorizedService(state.service, caller, state.audit)

    async def count() -> tuple[int]:
        return ((await find_needs(authorized)).number,)

    try:
        (request.state.needs_count,) = await state.service.board.needs.get(_kind_of(authorized), count)
    except StoreError:
        # A page that needs the store reports the error itself.
        return


async def note_needs_unless_polled(request: Request) -> None:
    """Count for a page that a person opens. A page that refreshes itself counts only after a change."""
    if request.method == "GET" and "dutiful-revision" not in request.headers:
        await note_needs(request)


def _kind_of(authorized: AuthorizedService) -> tuple[str | None, bool]:
    """Return the facts about a caller on which the number depends."""
    return authorized.tenant, authorized.caller.may("admin")


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
    schedule, last = trouble.due.schedule, view_run(trouble.runs[0]) if trouble.runs else None
    failed = next((view_run(run) for run in trouble.runs if run.status is Status.FAILED), None)
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
        mini(beads(trouble.runs), to_come),
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
    more = Markup("<code>{}</code>").format(words.main_line(run.detail)) if run.detail else Markup("")
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
