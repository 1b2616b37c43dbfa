"""The workflow store: DAGs by id and version, in the database of the schedules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.workflow import PutWorkflow, Workflow
from dutiful.runtime.registrar import Registrar
from dutiful.service.declaration import identify, user, whole_number
from dutiful.service.errors import UnknownWorkflowError, WorkflowExistsError
from dutiful.service.types import Page, WorkflowView
from dutiful.service.views import canonical, decode_cursor, encode_cursor, moment, page_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.runtime.ports import Clock, Store

# The owner where callers have no names: the operator of a service on the loopback.
OPERATOR = "local"


class WorkflowInput(NamedTuple):
    """A workflow to store. `replace` allows another DAG for a version that is already stored."""

    workflow_id: str
    version: int
    dag: Mapping[str, Any]
    owner: str = OPERATOR
    replace: bool = False


def _anybody(owner: str) -> None:
    """Accept any owner: no caller to check."""


class WorkflowStore:
    """Stores DAGs as JSON; only executors interpret them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        # Runs that begin together need the same DAG at the same time: share one read among them.
        self._readings: dict[tuple[str, int], asyncio.Future[Workflow | None]] = {}

    async def save_dag(
        self,
        workflow_id: str,
        version: int,
        dag: Mapping[str, Any],
        *,
        owner: str = OPERATOR,
        replace: bool = False,
    ) -> None:
        """Store a DAG; storing the same one again changes nothing.

        Raises InvalidArgumentError, and WorkflowExistsError for another DAG under a stored version.
        """
        wanted = WorkflowInput(workflow_id, version, dag, owner, replace)
        registrar = Registrar(self._store, self._clock, wake=lambda: None)
        await registrar.upsert_all(
            (), lambda _, known: known and known.schedule, workflows=lambda: self.puts(wanted)
        )

    async def puts(
        self, wanted: WorkflowInput, demand_owner: Callable[[str], None] = _anybody
    ) -> list[PutWorkflow]:
        """Return the changes that store the workflow; none where it is already stored.

        The first version of a workflow decides its owner; `demand_owner` raises where the caller may not
        change the workflows of that user.
        """
        text = _text(wanted)
        owner = await self._store.workflow_owner(wanted.workflow_id)
        demand_owner(wanted.owner if owner is None else owner)
        there = await self._store.load_workflow(wanted.workflow_id, wanted.version)
        if there is not None and canonical(json.loads(there.dag)) == canonical(json.loads(text)):
            return []
        if there is not None and not wanted.replace:
            raise WorkflowExistsError(wanted.workflow_id, wanted.version)
        now = epoch_ms(self._clock.now())
        workflow = Workflow(wanted.workflow_id, wanted.version, owner or wanted.owner, text, now)
        return [PutWorkflow(workflow, None if there is None else there.dag)]

    async def load_dag(self, workflow_id: str, version: int) -> dict[str, Any] | None:
        """Return a DAG, or None where it is not stored."""
        place = workflow_id, version
        reading = self._readings.get(place)
        if reading is None:
            reading = self._readings[place] = asyncio.ensure_future(self._read(workflow_id, version))
            reading.add_done_callback(lambda _: self._readings.pop(place))
        # Shielded: a cancelled reader must not cancel the read that others share.
        found = await asyncio.shield(reading)
        return None if found is None else dict(json.loads(found.dag))

    async def has_dag(self, workflow_id: str, version: int) -> bool:
        """Return whether this version is stored."""
        return await self._read(workflow_id, version) is not None

    async def list_workflows(
        self, *, owner: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[WorkflowView]:
        """Return a page of the stored versions, by id and version; with an `owner` only that user's."""
        size = page_size(limit)
        workflow_id, version = ("", -1) if cursor is None else decode_cursor(cursor, str, int)
        entries = await self._store.workflows((str(workflow_id), int(version)), size + 1, owner)
        shown = entries[:size]
        more = encode_cursor(shown[-1].workflow_id, shown[-1].version) if len(entries) > size else None
        return Page([WorkflowView(*entry[:-1], moment(entry.updated_at)) for entry in shown], more)

    async def delete_dag(
        self, workflow_id: str, version: int, demand_owner: Callable[[str], None] = _anybody
    ) -> None:
        """Delete one version; raises UnknownWorkflowError. Runs already launched with it go on."""
        await self.demand_owner(workflow_id, demand_owner)
        with self._clock.hold():
            deleted = await self._store.delete_workflow(workflow_id, version)
        if not deleted:
            raise UnknownWorkflowError(workflow_id, version)

    async def demand_owner(self, workflow_id: str, demand: Callable[[str], None]) -> None:
        """Call `demand`, which may raise, with the owner of a workflow; an unknown workflow has none."""
        owner = await self._store.workflow_owner(workflow_id)
        if owner is not None:
            demand(owner)

    async def _read(self, workflow_id: str, version: int) -> Workflow | None:
        with self._clock.hold():
            return await self._store.load_workflow(workflow_id, version)


def _text(wanted: WorkflowInput) -> str:
    identify("workflow_id", wanted.workflow_id)
    whole_number("version", wanted.version)
    user("owner", wanted.owner)
    if not isinstance(wanted.dag, Mapping):
        raise InvalidArgumentError("dag", wanted.dag, "write a JSON object")
    try:
        return json.dumps(dict(wanted.dag), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError("dag", wanted.workflow_id, f"is not JSON: {error}") from error
