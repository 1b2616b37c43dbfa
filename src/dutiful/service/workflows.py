"""The workflow store: DAGs by id and version, in the database of the schedules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.zone import epoch_ms
from dutiful.core.errors import InvalidArgumentError
from dutiful.service.declaration import identify

if TYPE_CHECKING:
    from dutiful.runtime.ports import Clock, WorkflowTexts


class WorkflowStore:
    """Keeps DAGs as JSON; what is inside them is the executor's business."""

    def __init__(self, texts: WorkflowTexts, clock: Clock) -> None:
        self._texts, self._clock = texts, clock
        # Runs that begin together ask for the same DAG together: it is read once for all of them.
        self._readings: dict[tuple[str, int], asyncio.Future[str | None]] = {}

    async def save_dag(self, workflow_id: str, version: int, dag: Mapping[str, Any]) -> None:
        """Store a DAG, in place of one of the same version; raises InvalidArgumentError."""
        identify("workflow_id", workflow_id)
        if type(version) is not int or version < 0:
            raise InvalidArgumentError("version", version, "write a whole number from 0")
        if not isinstance(dag, Mapping):
            raise InvalidArgumentError("dag", dag, "write a JSON object")
        try:
            text = json.dumps(dict(dag), allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError("dag", workflow_id, f"is not JSON: {error}") from error
        with self._clock.hold():
            await self._texts.save_workflow(workflow_id, version, text, epoch_ms(self._clock.now()))

    async def load_dag(self, workflow_id: str, version: int) -> dict[str, Any] | None:
        """Return a DAG, or None where there is none."""
        place = workflow_id, version
        reading = self._readings.get(place)
        if reading is None:
            reading = self._readings[place] = asyncio.ensure_future(self._read(workflow_id, version))
            reading.add_done_callback(lambda _: self._readings.pop(place))
        # A reader that is cancelled leaves the reading to the others.
        text = await asyncio.shield(reading)
        return None if text is None else dict(json.loads(text))

    async def _read(self, workflow_id: str, version: int) -> str | None:
        with self._clock.hold():
            return await self._texts.load_workflow(workflow_id, version)
