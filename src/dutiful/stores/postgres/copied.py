"""Edits of a namespace that `dutiful store copy` reads are refused: the copy would lack them.

An edit that began before the copy is waited for: it holds a shared lock from its check until it ends.
"""

# ruff: noqa: S608 - the statements are made of words written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import StoreError
from dutiful.stores.transfer import COPIER

if TYPE_CHECKING:
    from dutiful.stores.postgres.connections import Session

_LOCK = "hashtextextended('dutiful:copy:' || current_schema() || ':' || $1, 0)"
# True in a statement of an edit while a copy is made; else the transaction is noted as an edit until it ends.
IS_COPIED = (
    f"CASE WHEN EXISTS (SELECT 1 FROM shards WHERE namespace = $1 AND owner = '{COPIER}') THEN true"
    f" ELSE pg_advisory_xact_lock_shared({_LOCK}) IS NULL END"
)


async def refuse_copied(session: Session, namespace: str) -> None:
    """Raise StoreError while a copy of the namespace is made, in which an edit would be missing.

    Call it inside the transaction of the edit: a copy that begins later waits for its end.
    """
    if await session.value(f"SELECT {IS_COPIED}", namespace):
        problem = f"The namespace {namespace!r} is being copied to another store, so it takes no edits"
        advice = (
            "repeat the request at the copy; after a copy that broke off, start a worker here or copy again"
        )
        raise StoreError(problem, advice, namespace=namespace)


async def wait_for_edits(session: Session, namespace: str) -> None:
    """Return once every edit that began before this process led the namespace has ended."""
    async with session.transaction():
        # As long as the deadline of a statement: an edit may write a million schedules.
        await session.run("SET LOCAL lock_timeout = 0")
        await session.run(f"SELECT pg_advisory_xact_lock({_LOCK})", namespace)
