"""What the example service runs: `run(dag, meta)` is called for every run, with the stored DAG."""

from __future__ import annotations

import asyncio
from typing import Any


async def run(dag: dict[str, Any], meta: Any) -> str:
    """Do what the DAG says, and return a text for the history; what is raised makes the run fail."""
    await asyncio.sleep(dag.get("takes", 0))
    if dag["task"] == "fail":
        raise RuntimeError(dag["because"])
    return f"{dag['task']} of {meta.scheduled_for:%H:%M:%S} done"
