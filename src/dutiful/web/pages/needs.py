"""The schedules that need somebody: what is wrong, in words, and what can be done about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from dutiful.core.cron.cron import Cron
from dutiful.httpd.instants import rfc_3339
from dutiful.web.drawing.marks import mini
from dutiful.web.pages import words
from dutiful.web.pages.ticks import one_by_one, tick_href

if TYPE_CHECKING:
    from dutiful.service.board import Trouble
    from dutiful.service.types import Damaged, RunView

_Told = tuple[str, Markup, Markup]


class Need(NamedTuple):
    """One entry of "Needs you": a schedule, what is wrong in a few words, and in a sentence."""

    schedule_id: str
    shape: str
    css: str
    mark: str
    what: Markup
    more: Markup
    mini: str
    mini_said: str
    why: str | None
    can_run: bool
    can_mend: bool


def need_of(trouble: Trouble, now: datetime) -> Need:
    """Return a schedule that needs somebody, in words."""
    schedule, last = trouble.due.schedule, trouble.runs[-1] if trouble.runs else None
    failed = next((run for run in reversed(trouble.runs) if run.status == "FAILED"), None)
    shape, css = {"quarantined": ("aside", "skip"), "failed": ("failed", "fail")}.get(
        trouble.kind, ("skipped", "skip")
    )
    told = {"quarantined": _set_aside, "failed": _failed}.get(trouble.kind, _skipping)
    mark, what, more = told(trouble, failed if trouble.kind == "failed" else last, now)
    to_come = 0 if trouble.kind == "quarantined" or schedule.paused else 3
    at = None if last is None else (failed or last).run_at if trouble.kind == "failed" else last.run_at
    return Need(
        schedule.id,
        shape,
        css,
        mark,
        what,
        more,
        mini([tick for run in trouble.runs for tick in one_by_one(run)], to_come),
        f"last {min(20, len(trouble.runs))}" + (f", next {to_come}" if to_come else ""),
        None if at is None else tick_href(schedule.id, at),
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
    usual = "" if trouble.usual is None else f"; usually it takes {words.span(trouble.usual)}"
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
    """Return a schedule whose row cannot be read, in words."""
    what = Markup("Its row cannot be read: {}. Store it again, or delete it.").format(damaged.problem)
    empty = Markup("")
    return Need(damaged.schedule_id, "aside", "skip", "damaged", what, empty, "", "", None, False, False)


def _zone(trouble: Trouble) -> tzinfo:
    cadence = trouble.due.schedule.cadence
    return cadence.zone.tzinfo if isinstance(cadence, Cron) else UTC


def _where(trouble: Trouble) -> str:
    cadence = trouble.due.schedule.cadence
    name = words.place(cadence.zone.name) if isinstance(cadence, Cron) else "UTC"
    return " UTC" if name == "UTC" else f" in {name}"
