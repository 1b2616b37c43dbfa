"""The prompt of a job: the schedule's text, and the work item."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.fleet.types import AgentSchedule, WorkItem

DEFAULT_PROMPT = "Do the work that this schedule is for."


def build_schedule_prompt(
    schedule: AgentSchedule, work_item: WorkItem | None = None, *, default_prompt: str | None = None
) -> str:
    """Return the schedule's prompt, else the agent's, else the one for all, and the work item with it."""
    prompt = schedule.prompt or default_prompt or DEFAULT_PROMPT
    return prompt if work_item is None else f"{prompt}\n\n{_described(work_item)}"


def _described(item: WorkItem) -> str:
    paragraphs = [f"## Work item: {item.title}", item.description.strip(), "\n".join(_details(item))]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _details(item: WorkItem) -> Iterator[str]:
    ids = dict.fromkeys(filter(None, (item.external_id, item.id)))
    details = {
        "id": " = ".join(ids),
        "source": item.source,
        "priority": item.priority,
        "labels": ", ".join(item.labels),
        "url": item.url,
    }
    return (f"- {name}: {value}" for name, value in details.items() if value)
