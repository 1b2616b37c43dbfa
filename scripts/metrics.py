"""Write docs/reference/metrics.md anew: names, types and labels from the code, meanings as they stand there.

A metric that the page lacks gets the help text of the code, or a question to answer.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from dutiful.declarative.observe import EventCounts, SchedulerEvent
from dutiful.fleet.control.http import metrics_of
from dutiful.service.cluster import ClusterView, ShardView
from dutiful.service.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/metrics.md"
TABLE = re.compile(r"<!-- metrics: (\w+) -->\n\n(?:\|.*\n)*")
MEANING = re.compile(r"^\| `(\w+)` \|.*\| (.+) \|$", re.MULTILINE)


class Row(NamedTuple):
    """A metric as a page shows it."""

    name: str
    kind: str
    labels: str
    help: str


def library() -> Iterator[Row]:
    """Yield the metrics of `EventCounts`."""
    counts = EventCounts()
    counts(SchedulerEvent("TaskRunStarted", datetime(2026, 1, 1, tzinfo=UTC)))
    yield from exported(counts.text())


def fleet() -> Iterator[Row]:
    """Yield the metrics of a fleet that listens."""
    figures = dict.fromkeys(("done", "failed", "no_work", "running", "schedules", "failing"), 0)
    status = {"agents": [{"name": "a", **figures}], "check_count": 0, "stall": None}
    yield from exported(metrics_of(status))


def service() -> Iterator[Row]:
    """Yield the metrics of the service; those with labels have no sample until something happens."""
    metrics = Metrics(lambda: 0)
    metrics.cluster(ClusterView(datetime(2026, 1, 1, tzinfo=UTC), 0, (), [ShardView(0, None, 0, 0.0)]))
    # The registry tells the labels of no metric before its first sample.
    for collector in metrics._registry._collector_to_names:  # noqa: SLF001
        (family,) = collector.describe() if hasattr(collector, "describe") else collector.collect()
        labels = getattr(collector, "_labelnames", ())
        yield Row(exported_name(family.name, family.type), family.type, listed(labels), family.documentation)


def exported(text: str) -> Iterator[Row]:
    """Yield the metrics of a text for Prometheus."""
    for family in text_string_to_metric_families(text):
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels)
        yield Row(exported_name(family.name, family.type), family.type, listed(labels), family.documentation)


def exported_name(name: str, kind: str) -> str:
    """Return the name under which Prometheus stores a metric: counters end in `_total`."""
    return f"{name}_total" if kind == "counter" and not name.endswith("_sum") else name


def listed(labels: object) -> str:
    """Return the labels as a cell of a table."""
    return ", ".join(f"`{label}`" for label in labels) or "-"  # type: ignore[attr-defined]


def page(text: str) -> str:
    """Return the page with every table as the code has it now."""
    meanings = dict(MEANING.findall(text))
    doors = {"library": library, "fleet": fleet, "service": service}

    def table(match: re.Match[str]) -> str:
        rows = [
            f"| `{row.name}` | {row.kind} | {row.labels} | {meanings.get(row.name, row.help or '?')} |"
            for row in doors[match[1]]()
        ]
        head = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
        return "\n".join([f"<!-- metrics: {match[1]} -->", "", *head, *rows, ""])

    return TABLE.sub(table, text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
