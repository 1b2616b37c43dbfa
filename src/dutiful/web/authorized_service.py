"""The service as one caller may use it: the caller's scopes, and the users that it may act for."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from random import getrandbits
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, Request

from dutiful.core.cron.zone import rfc_3339
from dutiful.core.errors import DutifulError, InvalidArgumentError, UnknownScheduleError
from dutiful.httpd.errors import RequestRefusedError
from dutiful.service.errors import DamagedScheduleError, OtherUserError, WorkflowInUseError
from dutiful.service.worker import takeover_ms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dutiful.httpd.audit import AuditLog
    from dutiful.httpd.auth import Caller, Scope
    from dutiful.service.declaration import ScheduleInput, ScheduleView
    from dutiful.service.types import Damaged, Upserted
    from dutiful.service.views import Preview
    from dutiful.service.wiring import Service
    from dutiful.service.workflows import WorkflowInput

T = TypeVar("T")
_ALIKE_READ = 100
# The form of every key in the ledger.
_TICK_KEY = re.compile(r"[0-9a-fA-F]{64}")
_KEY_ADVICE = (
    "64 hexadecimal digits are the key of a tick, which only a caller that acts for all users may start; "
    "write another text"
)

MADE_ID_HAS = 60
"""The id of a trigger whose name is no id begins with this many characters of the workflow's."""


@dataclass(frozen=True, slots=True)
class AuthorizedService:
    """The service as one caller may use it: for its own user and for those that its `act_as` names."""

    service: Service
    caller: Caller
    audit: AuditLog
    # The id of the request, which is in every line that it writes to the audit log. It need not be secret:
    # os.urandom, which gives other threads a turn, took a tenth of the time of an upsert.
    request: str = field(default_factory=lambda: f"{getrandbits(64):016x}")

    @property
    def tenant(self) -> str | None:
        """Return the only user whose schedules are listed for the caller, None for all users."""
        return None if self.caller.acts_for_all else self.caller.user_id

    async def demand_schedule(self, schedule_id: str) -> None:
        """Raise UnknownScheduleError unless there is such a schedule and the caller may act for its owner.

        Raises DamagedScheduleError to callers that act for all users: the owner of a schedule that cannot
        be read is not known.
        """
        owner = await self._unless_damaged(schedule_id, self.service.registrar.owner_of(schedule_id))
        if not self.caller.acts_for(owner):
            raise UnknownScheduleError(schedule_id)

    async def _unless_damaged(self, schedule_id: str, read: Awaitable[T]) -> T:
        """Return the result of a read of a schedule; a schedule that cannot be read counts as unknown."""
        try:
            return await read
        except UnknownScheduleError:
            for damaged in await self.damaged():
                if damaged.schedule_id == schedule_id:
                    raise DamagedScheduleError(*damaged) from None
            raise

    async def schedule(self, schedule_id: str) -> ScheduleView:
        """Return a schedule that the caller may see; raises UnknownScheduleError or DamagedScheduleError."""
        view = await self._unless_damaged(schedule_id, self.service.registrar.get_schedule(schedule_id))
        if not self.caller.acts_for(view.user_id):
            raise UnknownScheduleError(schedule_id)
        return view

    async def near_ids(self, schedule_id: str) -> list[str]:
        """Return up to five ids that the caller may see and may have meant by this unknown one."""
        alike = await self.service.board.find_ids(schedule_id[:4], "", _ALIKE_READ, self.tenant)
        return get_close_matches(schedule_id, alike, n=5, cutoff=0)

    async def damaged(self) -> list[Damaged]:
        """Return the schedules that cannot be read, for callers that act for all users, else nothing."""
        return await self.service.registrar.damaged() if self.tenant is None else []

    def demand_user(self, user_id: str) -> None:
        """Raise OtherUserError unless the caller may act for this user."""
        if not self.caller.acts_for(user_id):
            raise OtherUserError(user_id)

    def demand_key(self, key: str) -> None:
        """Raise InvalidArgumentError for a key that may be that of a tick, unless the caller acts for all.

        Executors drop what comes again under a known key. A tenant could start a run under the key of a
        coming tick of another user, and the real tick would be dropped as its repetition.
        """
        if self.tenant is not None and _TICK_KEY.fullmatch(key):
            raise InvalidArgumentError("idempotency_key", key, _KEY_ADVICE)

    async def preview(self, place: str, given: ScheduleInput) -> Preview:
        """Return the effect of storing a schedule; errors name its place in the request."""
        try:
            self.demand_user(given.user_id)
            return await self.service.registrar.preview_upsert(given, self.caller.acts_for)
        except DutifulError as error:
            error.details.pop("index", None)
            if place:
                error.details["at"] = place
            raise

    async def upsert(
        self,
        declared: Mapping[str, ScheduleInput],
        revisions: Mapping[str, str | None] = MappingProxyType({}),
    ) -> list[Upserted]:
        """Store schedules of users for whom the caller may act, all or none.

        Each key is the place of its schedule in the request; errors name that place. Raises OutdatedPlanError
        if a schedule has another revision than it had in its preview.
        """
        with _named(declared):
            self._demand_users(declared)
            return await self.service.registrar.upsert_many(
                [*declared.values()], self.caller.acts_for, by=self.caller.user_id, revisions=revisions
            )

    async def deploy(self, workflow: WorkflowInput, declared: Mapping[str, ScheduleInput]) -> list[Upserted]:
        """Store a workflow and the schedules that it declares, all or nothing."""
        with _named(declared):
            self._demand_users(declared)
            return await self.service.registrar.upsert_many(
                [*declared.values()],
                self.caller.acts_for,
                workflows=lambda: self.service.workflows.puts(workflow, self.demand_user),
                by=self.caller.user_id,
            )

    async def kept(self, workflow_id: str, declared: Sequence[str]) -> list[str]:
        """Return the caller's schedules of this workflow whose triggers the DAG no longer declares."""
        known = self._own(await self.service.registrar.schedules_of(workflow_id))
        own = f"{workflow_id}.", f"{workflow_id[:MADE_ID_HAS]}."
        return [id_ for id_ in known if id_.startswith(own) and id_ not in declared]

    async def demand_unused(self, workflow_id: str, version: int) -> None:
        """Raise WorkflowInUseError if schedules start this version of one of the caller's workflows.

        Raises OtherUserError for a workflow of another user. Any user may start a workflow: the error counts
        the schedules of others, and names the caller's own.
        """
        await self.service.workflows.demand_owner(workflow_id, self.demand_user)
        using = await self.service.registrar.schedules_of(workflow_id, version)
        if using:
            own = self._own(using)
            raise WorkflowInUseError(workflow_id, version, own, len(using) - len(own))

    def _own(self, users: Mapping[str, str]) -> list[str]:
        """Return the ids of the schedules whose users the caller may act for."""
        return [id_ for id_, user_id in users.items() if self.caller.acts_for(user_id)]

    async def warnings(self, given: ScheduleInput) -> list[str]:
        """Return what the caller should know of this schedule before it is stored; empty if nothing."""
        found, least = await self.obstacles(given), takeover_ms(self.service.settings)
        if given.grace_s is not None and given.grace_s * 1000 < least:
            found.append(
                f"another worker may take over as late as {least / 1000:g} s: grace_s is raised to that"
            )
        return found

    async def obstacles(self, given: ScheduleInput | ScheduleView) -> list[str]:
        """Return the reasons for which runs of this schedule would fail now; empty if there are none."""
        found = list[str]()
        if not await self.service.workflows.has_dag(given.workflow_id, given.version):
            place = f"/workflows/{given.workflow_id}/{given.version}"
            found.append(f"the workflow is not stored: runs fail with unknown_workflow until PUT {place}")
        if given.executor is None and not self.service.launcher.has_executor:
            found.append("there is no executor: runs fail with launch_refused until DUTIFUL_EXECUTOR is set")
        if given.executor is not None and (problem := self.service.launcher.refusal_by(given.executor)):
            found.append(f"{problem}: runs fail with launch_refused")
        return found

    def _demand_users(self, declared: Mapping[str, ScheduleInput]) -> None:
        for index, wanted in enumerate(declared.values()):
            try:
                self.demand_user(wanted.user_id)
                self._demand_executor(wanted.executor)
            except RequestRefusedError as error:
                error.details["index"] = index
                raise

    def _demand_executor(self, url: str | None) -> None:
        """Raise ScopeMissingError unless the caller may let a schedule use this executor.

        HTTP requests pass the guard of addresses. Commands and queues do not, so only an admin may name them:
        they could reach hosts and programs that are reserved to the operator.
        """
        if url is not None and url.strip().partition(":")[0].lower() not in ("http", "https"):
            self.caller.require("admin")

    def intend(self, action: str, **what: Any) -> None:
        """Audit a change before it is made; raises AuditUnavailableError, which prevents the change."""
        self.intend_all(action, [what])

    def intend_all(self, action: str, what: Iterable[Mapping[str, Any]]) -> None:
        """Audit the parts of a change, one line each, before it is made; raises AuditUnavailableError."""
        self.audit.intend(self.request, self.caller.user_id, action, what)

    def intend_pause(self, paused: bool, until: datetime | None, **what: Any) -> str:
        """Audit a pause or a resumption before it is made; return the name of the action."""
        action = "pause" if paused else "resume"
        self.intend(action, **what, **({} if until is None else {"until": rfc_3339(until)}))
        return action

    def record(self, action: str, **what: Any) -> None:
        """Audit a change that was made."""
        self.audit.record(self.request, self.caller.user_id, action, **what)


@contextmanager
def _named(places: Iterable[str]) -> Iterator[None]:
    """In an error about one of many items, replace its `index` by the place of the item in the request."""
    try:
        yield
    except DutifulError as error:
        index = error.details.pop("index", None)
        if index is not None and (place := [*places][index]):
            error.details["at"] = place
        raise


def _authorized_for(scope: Scope) -> Callable[[Request], Awaitable[AuthorizedService]]:
    # A coroutine, although nothing is awaited: FastAPI would call a plain function in a thread.
    async def authorized(request: Request) -> AuthorizedService:
        state = request.app.state
        caller: Caller = request.state.caller
        caller.require(scope)
        return AuthorizedService(state.service, caller, state.audit)

    return authorized


Reader = Annotated[AuthorizedService, Depends(_authorized_for("read"))]
Writer = Annotated[AuthorizedService, Depends(_authorized_for("write"))]
Starter = Annotated[AuthorizedService, Depends(_authorized_for("trigger"))]
Reporter = Annotated[AuthorizedService, Depends(_authorized_for("report"))]
