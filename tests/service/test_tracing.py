"""One span per launch, for the tracer that the operator has set up."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from dutiful.launchers.executor import Meta
from dutiful.service.launcher import span_of

META = Meta("schedule", "s", "report", 3, "ada", datetime(2026, 1, 5, 10, tzinfo=UTC), "k" * 64, 2, 7)


@pytest.fixture
def spans(monkeypatch):
    """What a tracer of the operator sees."""
    trace = pytest.importorskip("opentelemetry.trace")
    seen: list[tuple[str, str, dict[str, object]]] = []

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name, attributes):
            seen.append(("begin", name, attributes))
            yield
            seen.append(("end", name, {}))

    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    monkeypatch.setattr(trace, "get_tracer", lambda name: Tracer() if name == "dutiful" else None)
    return seen


def test_a_launch_is_a_span_with_the_facts_of_its_run(spans):
    with span_of(META):
        spans.append(("launch", "", {}))
    assert spans == [
        (
            "begin",
            "dutiful.run",
            {
                "dutiful.schedule_id": "s",
                "dutiful.workflow_id": "report",
                "dutiful.version": 3,
                "dutiful.source": "schedule",
                "dutiful.idempotency_key": "k" * 64,
                "dutiful.attempt": 2,
                "dutiful.scheduled_for": "2026-01-05T10:00:00+00:00",
            },
        ),
        ("launch", "", {}),
        ("end", "dutiful.run", {}),
    ]


def test_without_a_tracer_provider_there_is_no_span():
    pytest.importorskip("opentelemetry.trace")
    with span_of(META) as span:
        assert span is None


def test_without_the_api_there_is_no_span_and_no_trouble():
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from tests.service.test_tracing import META\n"
        "from dutiful.service.launcher import span_of\n"
        "with span_of(META) as span: print(span)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
