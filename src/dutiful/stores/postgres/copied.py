"""Edits of a namespace that `dutiful store copy` reads are refused: the copy would lack them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import StoreError
from dutiful.stores.transfer import COPIER

if TYPE_CHECKING:
    from dutiful.stores.postgres.connections import Session

# $1 is the namespace and $2 the owner that stands for a copy.
IS_COPIED = "EXISTS (SELECT 1 FROM shards WHERE namespace = $1 AND owner = $2)"


async def refuse_copied(session: Session, namespace: str) -> None:
    """Raise StoreError while a copy of the namespace is made, in which an edit would be missing."""
    if await session.value(f"SELECT {IS_COPIED}", namespace, COPIER):
        raise copied(namespace)


def copied(namespace: str) -> StoreError:
    """Return the error for an edit of a namespace that is being copied."""
    problem = f"The namespace {namespace!r} is being copied to another store, so it takes no edits"
    advice = "repeat the request at the copy; after a copy that broke off, start a worker here or copy again"
    return StoreError(problem, advice, namespace=namespace)
