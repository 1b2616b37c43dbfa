"""Requests for jobs, as the runner makes them."""

from __future__ import annotations

from dutiful.fleet.types import Agent, AgentSchedule, JobRequest, WorkItem

ITEM = WorkItem(
    "table-1:42", "table", "42", "Fix the login", "It fails.", "high", ("bug", "web"), "https://x/42"
)


def request(prompt: str = "Look around.", item: WorkItem | None = None) -> JobRequest:
    schedule = AgentSchedule("interval", interval="5m", prompt=prompt)
    return JobRequest(Agent("scout", {"look": schedule}), "look", schedule, prompt, item)
