"""The pages of the dashboard: HTML that needs no script to be read."""

from dutiful.web.pages import (
    about,
    actions,
    calendar,
    cron_lab,
    editor,
    login,
    overview,
    runs,
    schedule,
    schedules,
)

# The editor's `/ui/schedules/new` comes before `/ui/schedules/{schedule_id}`.
_PAGES = (overview, schedules, editor, actions, schedule, runs, calendar, cron_lab, about, login)
PAGE_ROUTERS = tuple(page.router for page in _PAGES)
