"""The command line of dutiful with a fault built in, as variables of the environment name it.

`python -m tests.cluster.entry worker` is `dutiful worker`. NEMESIS_SKEW_S makes the wall clock of the process
wrong by so many seconds. NEMESIS_WITHOUT=locks makes every attempt to take a shard succeed, and
NEMESIS_WITHOUT=locks,fence also makes the store accept writes of leaders that were deposed.
"""

from __future__ import annotations

import os
from typing import Any

from dutiful.__main__ import main
from dutiful.runtime.clock import SystemClock

# The fence of `statements.LEAD` without its conditions; the parameters keep their types.
UNFENCED = "SELECT shard FROM shards WHERE shard = $1 AND $2::bigint IS NOT NULL AND $3::bigint IS NOT NULL"


def set_clock_wrong(seconds: float) -> None:
    right = SystemClock.epoch_ms
    SystemClock.epoch_ms = lambda clock: right(clock) + round(seconds * 1000)  # type: ignore[method-assign]


def give_every_lock() -> None:
    from dutiful.stores.postgres import database
    from dutiful.stores.postgres.lock_session import LockSession

    ask, classed, of_shards = LockSession.try_lock, database.lock_class, set[int]()

    def lock_class(kind: str, schema: str) -> int:
        found = classed(kind, schema)
        if kind == "shard":
            of_shards.add(found)
        return found

    async def always(session: Any, kind: int, key: int) -> int | None:
        # Not even taken, so that every worker sees every shard free. A node still proves that it lives.
        generation: int = session.generation
        return generation if kind in of_shards else await ask(session, kind, key)

    database.lock_class = lock_class  # type: ignore[attr-defined]
    LockSession.try_lock = always  # type: ignore[method-assign]


def open_the_fence() -> None:
    from dutiful.stores.postgres import commit, settle, statements

    for module in (statements, commit, settle):
        module.LEAD = UNFENCED  # type: ignore[attr-defined]


FAULTS = {"locks": give_every_lock, "fence": open_the_fence}

if __name__ == "__main__":
    set_clock_wrong(float(os.environ.get("NEMESIS_SKEW_S", "0")))
    for left_out in filter(None, os.environ.get("NEMESIS_WITHOUT", "").split(",")):
        FAULTS[left_out]()
    main()
