"""The HTTP application: routes, errors, pages and headers around one service."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI

from dutiful.httpd.audit import AuditLog
from dutiful.httpd.middleware import RequestMiddleware
from dutiful.httpd.problems import install_problems
from dutiful.service.http_settings import login_rates, middleware_settings
from dutiful.web import responses
from dutiful.web.pages import PAGE_ROUTERS
from dutiful.web.pages.needs import note_needs_unless_polled
from dutiful.web.pages.rendering import HashedFiles, install_problem_pages
from dutiful.web.pages.session import refusal_page
from dutiful.web.routes import ROUTERS

if TYPE_CHECKING:
    from dutiful.service.wiring import Service

_HERE = Path(__file__).parent
_ERROR = {"$ref": "#/components/schemas/ErrorAnswer"}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": description, "content": {"application/json": {"schema": _ERROR}}}
    for status, description in {
        400: "The body is not the JSON that is taken",
        401: "The caller is not authenticated",
        403: "The caller may not do this",
        404: "There is no such thing, or it is somebody else's",
        408: "The body did not come in time",
        409: "Another request changed it meanwhile",
        413: "The body is too large",
        414: "The URL is too long",
        415: "The body is said to be no JSON",
        421: "The Host is none of this machine's names",
        422: "The request is not valid; `details` says where and why",
        429: "Too many requests; `Retry-After` says when to try again",
        431: "The headers are too large",
        500: "A bug",
        503: "The store or the audit log cannot be used at the moment",
    }.items()
}
# Name the model in one answer only, which defines its schema in the document. The framework makes a validator
# for every model of every route when the route is first used, and no answer is validated by this model.
_ERRORS[500]["model"] = responses.ErrorAnswer


def create_app(service: Service) -> FastAPI:
    """Return the application over a service; the caller starts and stops the service."""
    app = _routes()
    app.state.service, app.state.clock = service, service.clock
    app.state.audit = AuditLog(service.clock, service.settings.audit_log)
    install_problems(app)
    install_problem_pages(app)
    app.mount("/static", HashedFiles(directory=_HERE / "static"), name="static")
    settings = middleware_settings(service.settings, service.clock)
    app.state.auth = settings.auth
    app.state.logins = login_rates(service.clock)
    app.add_middleware(RequestMiddleware, settings=settings, refusal_page=refusal_page)
    return app


def openapi_document() -> dict[str, Any]:
    """Return the document that is served at /openapi.json."""
    return _routes().openapi()


def _routes() -> FastAPI:
    app = FastAPI(
        title="dutiful",
        version=version("dutiful"),
        summary="Schedules that start workflows: once per tick, on time, or accounted for with a reason.",
        responses=_ERRORS,
        # The framework's own documentation pages would load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    for router in PAGE_ROUTERS:
        app.include_router(router, dependencies=[Depends(note_needs_unless_polled)])
    return app
