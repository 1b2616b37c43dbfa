"""The pages of the dashboard: HTML that needs no script to be read."""

from dutiful.web.pages import (
    actions,
    audit,
    calendar,
    cron_lab,
    editor,
    overview,
    runs,
    schedule,
    schedules,
    session,
    system,
    why,
)

# The first match wins, so the editor's `/ui/schedules/new` is before `/ui/schedules/{schedule_id}`.
_PAGES = (
    overview,
    schedules,
    editor,
    actions,
    schedule,
    runs,
    calendar,
    cron_lab,
    why,
    audit,
    system,
    session,
)
PAGE_ROUTERS = tuple(page.router for page in _PAGES)
