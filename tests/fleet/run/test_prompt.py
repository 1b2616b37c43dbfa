"""The prompt that an agent gets."""

from __future__ import annotations

import pytest

from dutiful.fleet.run.run_schedule import DEFAULT_PROMPT, build_schedule_prompt
from dutiful.fleet.types import AgentSchedule, WorkItem

BARE = WorkItem("directory-1:a.md", "directory", "a.md", "Fix it")


def schedule(prompt: str | None) -> AgentSchedule:
    return AgentSchedule("interval", interval="5m", prompt=prompt)


@pytest.mark.parametrize(
    ("prompt", "default", "expected"),
    [
        ("Look.", None, "Look."),
        ("Look.", "Rest.", "Look."),
        (None, "Rest.", "Rest."),
        ("", "Rest.", "Rest."),
        (None, None, DEFAULT_PROMPT),
    ],
)
def test_the_prompt_is_the_schedules_or_the_agents_or_the_one_for_all(prompt, default, expected):
    assert build_schedule_prompt(schedule(prompt), default_prompt=default) == expected


def test_a_work_item_is_described_after_the_prompt():
    item = WorkItem(
        "github-3:42", "github", "42", "Fix it", "It fails.\n", "high", ("bug", "web"), "https://x/42"
    )
    assert build_schedule_prompt(schedule("Do this."), item) == (
        "Do this.\n"
        "\n"
        "## Work item: Fix it\n"
        "\n"
        "It fails.\n"
        "\n"
        "- id: 42 = github-3:42\n"
        "- source: github\n"
        "- priority: high\n"
        "- labels: bug, web\n"
        "- url: https://x/42"
    )


def test_what_a_work_item_has_not_is_left_out():
    assert build_schedule_prompt(schedule("Do this."), BARE) == (
        "Do this.\n\n## Work item: Fix it\n\n- id: a.md = directory-1:a.md\n- source: directory"
    )
