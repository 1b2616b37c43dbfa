"""Functions that the tests name as executors."""

from __future__ import annotations

import asyncio
import threading

from dutiful.core.plan.outcome import Accepted

WITHOUT_CALL = 3
never = threading.Event()


def told(dag, meta):
    return (
        f"{dag['nodes'][0]['id']} {meta.schedule_id} {threading.current_thread() is threading.main_thread()}"
    )


async def told_on_the_loop(dag, meta):
    await asyncio.sleep(0)
    return told(dag, meta)


def nothing(_dag, _meta):
    return None


def yes(_dag, _meta):
    return True


def no(_dag, _meta):
    return False


def accepted(_dag, meta):
    return Accepted(f"run-{meta.attempt}")


def number(_dag, _meta):
    return 5


def raises(_dag, _meta):
    raise ValueError("no disk\n")


def leaves(_dag, _meta):
    raise SystemExit(3)


async def cancels_itself(_dag, _meta):
    raise asyncio.CancelledError


def times_out_itself(_dag, _meta):
    raise TimeoutError("upstream")


def hangs(_dag, _meta):
    never.wait(60)


async def hangs_on_the_loop(_dag, _meta):
    await asyncio.Event().wait()
