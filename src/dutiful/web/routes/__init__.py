"""The routes of the service, one file per noun."""

from dutiful.web.routes import operations, runs, schedules, workflows

ROUTERS = (schedules.router, runs.router, workflows.router, operations.router)
