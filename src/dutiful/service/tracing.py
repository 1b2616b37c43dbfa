"""A span per launch, where OpenTelemetry's API is installed; its SDK, if any, is the operator's to set up."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dutiful.launchers.executor import Meta


def span_of(meta: Meta) -> AbstractContextManager[object]:
    """Return the span of a launch; what an executor does while it is open belongs to it."""
    try:
        from opentelemetry import trace
    except ImportError:
        return nullcontext()
    attributes: dict[str, str | int] = {
        "dutiful.schedule_id": meta.schedule_id,
        "dutiful.workflow_id": meta.workflow_id,
        "dutiful.version": meta.version,
        "dutiful.source": meta.source,
        "dutiful.idempotency_key": meta.idempotency_key,
        "dutiful.attempt": meta.attempt,
        "dutiful.scheduled_for": meta.scheduled_for.isoformat(),
    }
    return trace.get_tracer("dutiful").start_as_current_span("dutiful.run", attributes=attributes)
