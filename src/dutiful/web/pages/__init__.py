"""The pages of the dashboard: HTML that needs no script to be read."""

from dutiful.web.pages import (
    actions,
    audit,
    calendar,
    cron_lab,
    editor,
    imports,
    many_schedules,
    overview,
    run,
    runs,
    schedule,
    schedules,
    session,
    system,
    why,
)

# The first match wins, so `/ui/schedules/new` and `/ui/schedules/import` are before
# `/ui/schedules/{schedule_id}`, and `/ui/runs/again` before `/ui/runs/{key}`.
_PAGES = (
    overview, schedules, many_schedules, imports, editor, actions, schedule, runs, run, calendar, cron_lab,
    why, audit, system, session,
)  # fmt: skip
PAGE_ROUTERS = tuple(page.router for page in _PAGES)
