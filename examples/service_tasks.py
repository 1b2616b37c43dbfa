"""What the example service runs: `run(dag, meta)` is called for every run, with the stored DAG.

A real executor would do what the DAG says. This one takes any DAG and pretends: `takes` is how many seconds
it works, and `fails` is the error it ends with.
"""

from __future__ import annotations

import asyncio
from typing import Any


async def run(dag: dict[str, Any], meta: Any) -> str:
    """Pretend to run the workflow, and return a text for the history; an exception makes the run fail."""
    await asyncio.sleep(float(dag.get("takes", 0)))
    if "fails" in dag:
        raise RuntimeError(dag["fails"])
    return f"{meta.workflow_id} of {meta.scheduled_for:%H:%M:%S} done"
