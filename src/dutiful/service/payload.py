"""The payload of a schedule's task: the workflow to start, as JSON; and the facets by which it is found.

No decision needs the workflow, its user and the labels, so the core stores them unread, and people can read
them in the database.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import CodecError
from dutiful.core.plan.expectations import expects
from dutiful.runtime.ports import PART_OF_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.core.schedule import Schedule
    from dutiful.runtime.ports import Facets

TASK = "workflow"
"""The name of every task of the service."""
EXPECTS = ("expects", "yes")
"""The facet by which schedules with expectations are found."""
NAMES_EXECUTOR = ("executor", "named")
"""The facet of schedules that name an executor of their own; without the URL, which may hold a password."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Payload(NamedTuple):
    """The workflow that a schedule starts, its user, its labels and its input."""

    workflow_id: str
    version: int
    user_id: str
    labels: Mapping[str, str]
    # Any JSON value, handed to the executor.
    input: Any = None
    # The URL of an executor in place of the service's own.
    executor: str | None = None


def encode(payload: Payload) -> str:
    """Return the text of a payload."""
    # Leave out the optional values that are not set: a store may hold a million payloads.
    return _ENCODER.encode({name: value for name, value in payload._asdict().items() if value is not None})


def payload_of(schedule: Schedule) -> Payload:
    """Return the payload of a schedule; raises CodecError where it is not one of the service."""
    return _decode(schedule.task.payload)


@lru_cache(maxsize=16_384)
def _decode(text: str) -> Payload:
    try:
        return Payload(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise CodecError("payload", f"is not one of the service: {error}") from error


def owner_of(schedule: Schedule) -> str:
    """Return the user of a schedule."""
    return payload_of(schedule).user_id


def facets_of(schedule: Schedule) -> list[tuple[str, str]]:
    """Return the names and values by which a schedule is found in lists; a label also by its name alone."""
    payload = payload_of(schedule)
    labels = [value for name, text in payload.labels.items() for value in (name, f"{name}={text}")]
    owned = [("user", payload.user_id), ("workflow", payload.workflow_id)]
    named = [] if payload.executor is None else [NAMES_EXECUTOR]
    expecting = [EXPECTS] if expects(schedule.policy) else []
    return [*owned, *named, *expecting, *(("label", value) for value in labels)]


def has_facets(schedule: Schedule, facets: Facets) -> bool:
    """Return whether a schedule has all of these facets."""
    own = {*facets_of(schedule)} if facets else set()
    return all(facet[1] in schedule.id if facet[0] == PART_OF_ID else facet in own for facet in facets)
