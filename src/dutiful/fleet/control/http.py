"""The HTTP listener of a running fleet: triggers by token or signed webhook, status and metrics.

The webhook signature is GitHub's: `X-Hub-Signature-256: sha256=` and the hexadecimal HMAC-SHA256 of the body.
"""

from __future__ import annotations

import hmac
import json
import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, FastAPI, Query, Request, Response
from pydantic import Field, ValidationError

from dutiful.core.errors import InvalidArgumentError
from dutiful.fleet.control.answers import HISTORY_MAX
from dutiful.fleet.errors import ConcurrencyLimitError
from dutiful.httpd.auth import SCOPES, Auth, Caller
from dutiful.httpd.errors import RequestRefusedError, UnauthenticatedError
from dutiful.httpd.fields import QueryModel, StrictModel
from dutiful.httpd.middleware import MiddlewareSettings, RequestMiddleware
from dutiful.httpd.problems import InvalidRequestError, install_problems, problems_of
from dutiful.httpd.server import HttpServer, listen
from dutiful.httpd.strict_json import decode
from dutiful.httpd.strict_route import StrictRoute

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from logging import Logger

    from dutiful.fleet.control.answers import Document, Target
    from dutiful.fleet.control.daemon import Daemon

TOKEN_VARIABLE, SECRET_VARIABLE = "DUTIFUL_FLEET_TOKEN", "DUTIFUL_FLEET_WEBHOOK_SECRET"
_SECRET_MIN = 16
_SECRET = re.compile(r"[!-~]{16,512}")
_PROMPT_MAX = 60_000
_CUT = "\n[the rest of the event was left out]"
_SIGNATURE = b"x-hub-signature-256"
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):(?P<port>[0-9]{1,5})")
# The caller of a signed webhook; its signature is checked after the body has been read.
_WEBHOOK = Caller("webhook", frozenset({"trigger"}), "nobody")


class Secrets(NamedTuple):
    """The token of callers, and the secret that signs webhooks. None: this kind of request is refused."""

    token: str | None
    webhook: str | None


def secrets_from(environ: Mapping[str, str]) -> Secrets:
    """Return the secrets in the environment. Raises InvalidArgumentError if there is none, or a short one."""
    found = Secrets(environ.get(TOKEN_VARIABLE) or None, environ.get(SECRET_VARIABLE) or None)
    for name, value in ((TOKEN_VARIABLE, found.token), (SECRET_VARIABLE, found.webhook)):
        if value is not None and not _SECRET.fullmatch(value):
            raise InvalidArgumentError(
                name, "***", f"must have {_SECRET_MIN} to 512 visible ASCII characters"
            )
    if found == (None, None):
        advice = f"set {TOKEN_VARIABLE} to a secret, such as the output of `openssl rand -hex 32`"
        raise InvalidArgumentError("--listen", "without a token", advice)
    return found


def bound(address: str, option: str = "--listen") -> socket.socket:
    """Return a socket that listens at HOST:PORT. Raises InvalidArgumentError, CannotListenError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65_535:
        raise InvalidArgumentError(option, address, "write HOST:PORT, such as 127.0.0.1:8788")
    return listen(match["host"].strip("[]"), int(match["port"]), f"name another address with {option}")


def server_of(fleet: Daemon, listener: socket.socket, secrets: Secrets, logger: Logger) -> HttpServer:
    """Return the server of a fleet's HTTP interface on a bound socket."""
    settings = MiddlewareSettings(listener.getsockname()[0], _FleetAuth(_Token(secrets)))
    app = _app(fleet, secrets)
    app.add_middleware(RequestMiddleware, settings=settings)
    return HttpServer(app, listener, None, lambda url: logger.info("listening at %s", url))


class _Token(NamedTuple):
    """Checks the bearer token."""

    secrets: Secrets

    def caller(self, token: str) -> Caller:
        known = self.secrets.token
        if known is None or not hmac.compare_digest(token.encode(), known.encode()):
            raise UnauthenticatedError("token_unknown", "The token is not the one of this fleet")
        return Caller("operator", frozenset(SCOPES), "token")

    def ends_at(self, _token: str) -> None:
        return None


class _FleetAuth(Auth):
    """Accepts the token, and lets signed webhooks through to the check of their signature."""

    def caller(self, scope: Mapping[str, Any]) -> Caller:
        is_trigger = scope["method"] == "POST" and scope["path"].endswith("/trigger")
        if is_trigger and self._takes_webhooks and any(name == _SIGNATURE for name, _ in scope["headers"]):
            return _WEBHOOK
        return super().caller(scope)

    @property
    def _takes_webhooks(self) -> bool:
        return isinstance(self.tokens, _Token) and self.tokens.secrets.webhook is not None


class TriggerBody(StrictModel):
    """The body of a trigger."""

    prompt: str | None = Field(None, min_length=1, max_length=_PROMPT_MAX)


class SchedulesQuery(QueryModel):
    """The agent whose schedules are listed; None lists those of all agents."""

    agent: str | None = None


class RunsQuery(QueryModel):
    """How many runs are wanted, and whether only failed ones."""

    limit: Annotated[int, Field(ge=1, le=HISTORY_MAX)] = 20
    failed: bool = False


class OutputQuery(QueryModel):
    """The number of the run whose output is returned; None: the latest run."""

    run: Annotated[int, Field(ge=1)] | None = None


class AtCapacityError(RequestRefusedError):
    """The agent has no free slot."""

    status = 409
    code = "concurrency_limit"


class DisabledError(RequestRefusedError):
    """A webhook came for a schedule that is out of service."""

    status = 409
    code = "schedule_disabled"

    def __init__(self, agent: str, schedule: str) -> None:
        advice = f"to take webhooks again, `dutiful fleet enable {agent}/{schedule}`"
        super().__init__(f"{agent}/{schedule} is disabled; {advice}", agent=agent, schedule=schedule)


class NoOutputError(RequestRefusedError):
    """No output of such a run is stored."""

    status = 404
    code = "no_output"

    def __init__(self, agent: str, schedule: str, run: int | None) -> None:
        which = "any run" if run is None else f"run {run}"
        super().__init__(
            f"No output of {which} of {agent}/{schedule} is stored", agent=agent, schedule=schedule
        )


class BadSignatureError(UnauthenticatedError):
    """A webhook is not signed with the secret of this fleet, or its schedule takes no webhooks."""

    def __init__(self) -> None:
        super().__init__("bad_signature", "The signature is not made with the webhook secret of this fleet")


def _app(fleet: Daemon, secrets: Secrets) -> FastAPI:
    app = FastAPI(title="dutiful fleet", docs_url=None, redoc_url=None, openapi_url=None)
    install_problems(app)
    router = APIRouter(route_class=StrictRoute)

    @app.post("/agents/{agent}/schedules/{schedule}/trigger", status_code=202)
    async def trigger(agent: str, schedule: str, request: Request) -> dict[str, Any]:
        body = await request.body()
        if request.state.caller is _WEBHOOK:
            # Check the signature before the names: an error about a name lists the names of the fleet.
            _check_signature(request, body, secrets.webhook)
            target = fleet.target(agent, schedule)
            _check_webhook(agent, schedule, target)
            given: str | None = _event_prompt(target.prompt, request, body)
        else:
            given = _prompt_in(body)
        try:
            return await fleet.run(agent, schedule, given)
        except ConcurrencyLimitError as error:
            raise AtCapacityError(str(error), **error.details) from error

    @router.get("/status")
    async def status() -> dict[str, Any]:
        return await fleet.status()

    @router.get("/schedules")
    async def schedules(query: Annotated[SchedulesQuery, Query()]) -> dict[str, Any]:
        return {"schedules": await fleet.schedules(query.agent)}

    @router.get("/agents/{agent}/schedules/{schedule}/runs")
    async def runs(agent: str, schedule: str, query: Annotated[RunsQuery, Query()]) -> dict[str, Any]:
        return {"runs": await fleet.history(agent, schedule, query.limit, failed=query.failed)}

    @router.get("/agents/{agent}/schedules/{schedule}/output")
    async def output(agent: str, schedule: str, query: Annotated[OutputQuery, Query()]) -> dict[str, Any]:
        found = await fleet.output(agent, schedule, query.run)
        if found is None:
            raise NoOutputError(agent, schedule, query.run)
        return found

    @router.get("/healthz")
    async def healthz(response: Response) -> dict[str, str]:
        stalled = (await fleet.status())["stall"] is not None
        response.status_code = 503 if stalled else 200
        return {"status": "stalled" if stalled else "ok"}

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(metrics_of(await fleet.status()), media_type="text/plain; version=0.0.4")

    app.include_router(router)
    return app


def _prompt_in(body: bytes) -> str | None:
    """Return the prompt in the body of a trigger. Raises InvalidJsonError, InvalidRequestError."""
    try:
        return TriggerBody.model_validate(decode(body) if body.strip() else {}).prompt
    except ValidationError as error:
        raise InvalidRequestError(problems_of(error.errors(), TriggerBody)) from error


def _check_signature(request: Request, body: bytes, secret: str | None) -> None:
    expected = "sha256=" + hmac.digest((secret or "").encode(), body, "sha256").hex()
    given = request.headers.get(_SIGNATURE.decode(), "")
    if secret is None or not hmac.compare_digest(given.encode(), expected.encode()):
        raise BadSignatureError


def _check_webhook(agent: str, schedule: str, target: Target) -> None:
    """Refuse a webhook for another type of schedule, or for one that an operator has disabled."""
    if target.type != "webhook":
        raise BadSignatureError
    if target.disabled:
        raise DisabledError(agent, schedule)


def _event_prompt(prompt: str, request: Request, body: bytes) -> str:
    """Return the prompt of the schedule with the event of the webhook behind it."""
    event = re.sub(r"[^\w.-]", "", request.headers.get("x-github-event", ""))[:64] or "event"
    shown = json.dumps(decode(body), indent=2, ensure_ascii=False) if body.strip() else ""
    text = f"{prompt}\n\n## Webhook: {event}\n\n{shown}"
    return text if len(text) <= _PROMPT_MAX else text[: _PROMPT_MAX - len(_CUT)] + _CUT


def metrics_of(status: Document) -> str:
    """Return the metrics of a fleet in the text format of Prometheus."""
    lines = [
        "# TYPE fleet_runs_total counter",
        *(
            f'fleet_runs_total{{agent="{agent["name"]}",outcome="{outcome}"}} {agent[outcome]}'
            for agent in status["agents"]
            for outcome in ("done", "failed", "no_work")
        ),
    ]
    gauges = {
        "fleet_jobs_running": "running",
        "fleet_schedules": "schedules",
        "fleet_schedules_failing": "failing",
    }
    for name, key in gauges.items():
        lines.append(f"# TYPE {name} gauge")
        lines += [f'{name}{{agent="{agent["name"]}"}} {agent[key]}' for agent in status["agents"]]
    lines += ["# TYPE fleet_checks_total counter", f"fleet_checks_total {status['check_count']}"]
    lines += ["# TYPE fleet_stalled gauge", f"fleet_stalled {int(status['stall'] is not None)}"]
    return "\n".join(lines) + "\n"
