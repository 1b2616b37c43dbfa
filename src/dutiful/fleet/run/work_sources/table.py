"""A SQLite table as work source: a claim is a lease that is renewed while its process lives."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutiful.fleet.config_keys import Key, name, seconds, text
from dutiful.fleet.errors import WorkSourceError
from dutiful.fleet.types import Claim, WorkItem
from dutiful.launchers.python import call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dutiful.fleet.types import JobResult
    from dutiful.runtime.ports import Clock

KEYS = {
    "database": Key(text, required=True),
    "table": Key(name, "work_items"),
    "lease": Key(seconds, 300.0),
}
# The producer of work fills in `title`, and optionally the next four columns; the source writes the others.
SCHEMA = """
CREATE TABLE IF NOT EXISTS "{table}" (
  id INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  priority INTEGER NOT NULL DEFAULT 0,
  labels TEXT NOT NULL DEFAULT '',
  url TEXT,
  status TEXT NOT NULL DEFAULT 'ready' CHECK (status IN ('ready', 'claimed', 'done', 'failed')),
  claimed_by TEXT,
  claim_token TEXT,
  claimed_until REAL,
  attempts INTEGER NOT NULL DEFAULT 0,
  note TEXT
)"""
_CLAIM = """
UPDATE "{table}" SET status = 'claimed', claimed_by = :agent, claim_token = :token,
  claimed_until = :until, attempts = attempts + 1, note = NULL
WHERE id = (
  SELECT id FROM "{table}" WHERE status = 'ready' OR (status = 'claimed' AND claimed_until <= :now)
  ORDER BY priority DESC, id LIMIT 1)
RETURNING id, title, description, priority, labels, url"""
# The token must still match: after an expired lease another process may have the claim.
_END = """
UPDATE "{table}" SET status = :status, note = :note, claim_token = NULL, claimed_until = NULL
WHERE id = :id AND claim_token = :token"""
_RENEW = 'UPDATE "{table}" SET claimed_until = :until WHERE id = :id AND claim_token = :token'
_BUSY_SECONDS = 10.0


class TableSource:
    """Hands out the rows of a table, highest priority first."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock) -> None:
        self._path = Path(settings["database"]).absolute()
        self._table, self._lease, self._clock = settings["table"], settings["lease"], clock
        self._renewals: dict[str, asyncio.Task[None]] = {}

    async def claim(self, agent_name: str) -> Claim | str:
        """Take the lease of the first row that is ready, or whose lease has expired."""
        now, token = self._clock.now().timestamp(), uuid.uuid4().hex
        facts = {"agent": agent_name, "token": token, "now": now, "until": now + self._lease}
        rows = await self._in_thread(_CLAIM, facts)
        if not rows:
            return f"no row of {self._table} in {self._path} is ready"
        claim = Claim(_item(rows[0]), token)
        self._renewals[token] = asyncio.create_task(self._renew(claim))
        return claim

    async def report(self, claim: Claim, result: JobResult) -> None:
        """Mark the row as done or failed; raises WorkSourceError if the lease was lost meanwhile."""
        note = result.summary if result.success else result.error
        await self._end(claim, "done" if result.success else "failed", note)

    async def release(self, claim: Claim, reason: str) -> None:
        """Make the row ready again."""
        await self._end(claim, "ready", reason)

    async def _end(self, claim: Claim, status: str, note: str | None) -> None:
        if renewal := self._renewals.pop(claim.token, None):
            renewal.cancel()
        facts = {"status": status, "note": note, "id": int(claim.item.external_id), "token": claim.token}
        if not await self._in_thread(_END + " RETURNING id", facts):
            problem = f"row {claim.item.external_id} was claimed by another after its lease ran out"
            raise WorkSourceError("work source `table`", problem)

    async def _renew(self, claim: Claim) -> None:
        while True:
            await self._clock.sleep(self._lease / 3)
            until = self._clock.now().timestamp() + self._lease
            facts = {"until": until, "id": int(claim.item.external_id), "token": claim.token}
            # Two more renewals follow before the lease expires.
            with suppress(WorkSourceError):
                await self._in_thread(_RENEW, facts)

    async def _in_thread(self, statement: str, facts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._clock.hold():
            # In a thread of its own: a locked database would take all threads of the loop's small pool, in
            # which the fleet writes its state.
            rows: Any = await call(self._execute, statement, facts)
            return rows  # type: ignore[no-any-return]  # `call` cannot know the type

    def _execute(self, statement: str, facts: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        try:
            with self._transaction() as connection:
                connection.execute(SCHEMA.format(table=self._table))
                return connection.execute(statement.format(table=self._table), facts).fetchall()
        except sqlite3.Error as error:
            problem = f"{self._table} in {self._path}: {error}"
            raise WorkSourceError("work source `table`", problem) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        with closing(connection):
            connection.text_factory = _text
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection


def _text(value: bytes) -> str:
    # A row that cannot be read would be claimed first for ever, and keep all others waiting.
    return value.decode("utf-8", "replace")


def _item(row: tuple[Any, ...]) -> WorkItem:
    number, title, description, priority, labels, url = (
        _text(each) if isinstance(each, bytes) else each for each in row
    )
    parts = (label.strip() for label in labels.split(","))
    return WorkItem(
        id=str(number),
        source="table",
        external_id=str(number),
        title=title,
        description=description,
        priority=str(priority) if priority else None,
        labels=tuple(filter(None, parts)),
        url=url,
    )
