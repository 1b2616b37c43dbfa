"""The service as one caller may use it: what the caller may do, and whose schedules it may see."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request

from dutiful.core.errors import UnknownRunError, UnknownScheduleError
from dutiful.httpd.problems import DamagedScheduleError, OtherUserError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dutiful.httpd.audit import AuditLog
    from dutiful.httpd.auth import Caller, Scope
    from dutiful.service.types import Damaged, ScheduleInput, ScheduleView, Upserted
    from dutiful.service.wiring import Service


@dataclass(frozen=True, slots=True)
class AuthorizedService:
    """The service as one caller sees it. Without the scope `admin` that is its own schedules."""

    service: Service
    caller: Caller
    audit: AuditLog
    # Found in every line of the audit log that belongs to one request.
    request: str = field(default_factory=lambda: uuid.uuid4().hex[:16])

    @property
    def tenant(self) -> str | None:
        """Return the only user whose schedules the caller may see, None for all."""
        return None if self.caller.may("admin") else self.caller.user_id

    async def schedule(self, schedule_id: str) -> ScheduleView:
        """Return a schedule; one of somebody else is as unknown as one that does not exist.

        Raises UnknownScheduleError or DamagedScheduleError.
        """
        try:
            view = await self.service.registrar.get_schedule(schedule_id)
        except UnknownScheduleError:
            for damaged in await self.damaged():
                if damaged.schedule_id == schedule_id:
                    raise DamagedScheduleError(*damaged) from None
            raise
        if self.tenant not in (None, view.user_id):
            raise UnknownScheduleError(schedule_id)
        return view

    async def damaged(self) -> list[Damaged]:
        """Return the schedules that cannot be read, to those who may see all: whose they are is not known."""
        return await self.service.registrar.damaged() if self.tenant is None else []

    def demand_user(self, user_id: str) -> None:
        """Refuse to act for another user than the caller's own."""
        if self.tenant not in (None, user_id):
            raise OtherUserError(self.caller.user_id)

    async def upsert(self, inputs: Sequence[ScheduleInput]) -> list[Upserted]:
        """Store schedules, all or none, for no other user than the caller may act for."""
        for wanted in inputs:
            self.demand_user(wanted.user_id)
        return await self.service.registrar.upsert_many(inputs, owner=self.tenant)

    def intend(self, action: str, **what: Any) -> None:
        """Write down a change before it is made; raises AuditUnavailableError, which prevents the change."""
        self.intend_all(action, [what])

    def intend_all(self, action: str, what: Sequence[Mapping[str, Any]]) -> None:
        """Write down the parts of a change, a line each, before it is made; raises AuditUnavailableError."""
        self.audit.intend(self.request, self.caller.user_id, action, what)

    def record(self, action: str, **what: Any) -> None:
        """Write down a change that was made."""
        self.audit.record(self.request, self.caller.user_id, action, **what)

    async def demand_run(self, idempotency_key: str) -> None:
        """Raise UnknownRunError for a run of somebody else, as for one that does not exist."""
        if self.tenant is None:
            return
        run = await self.service.registrar.get_run(idempotency_key)
        try:
            await self.schedule(run.schedule_id)
        except UnknownScheduleError:
            raise UnknownRunError(idempotency_key) from None


def _authorized_for(scope: Scope) -> Callable[[Request], Awaitable[AuthorizedService]]:
    # A coroutine although it awaits nothing: the framework calls a plain function in a thread.
    async def authorized(request: Request) -> AuthorizedService:
        state = request.app.state
        caller: Caller = request.state.caller
        caller.require(scope)
        return AuthorizedService(state.service, caller, state.audit)

    return authorized


Reader = Annotated[AuthorizedService, Depends(_authorized_for("read"))]
Writer = Annotated[AuthorizedService, Depends(_authorized_for("write"))]
Starter = Annotated[AuthorizedService, Depends(_authorized_for("trigger"))]
