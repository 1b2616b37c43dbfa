"""Pauses that have ended: the engine resumes the schedule, or an edit does that comes before the engine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from dutiful.core.changes import Changes
from dutiful.core.errors import OvertakenError
from dutiful.core.plan.pause import end_of_pause, pause_has_ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from dutiful.core.cadence import Instant
    from dutiful.core.snapshot import Snapshot
    from dutiful.runtime.ports import Loaded, Store


async def without_ended_pauses(store: Store, loaded: Loaded, now: Instant, epoch: int | None) -> Loaded:
    """Resume the loaded schedules whose pause has ended; return the others, to be planned in this pass.

    The resumed schedules are loaded again at once, by a pass at `now`.
    """
    due = loaded.batch.due
    if not await end_pauses(store.apply, due, now, epoch):
        return loaded
    others = [each for each in due if not pause_has_ended(each.schedule, now)]
    return loaded._replace(batch=loaded.batch._replace(due=others), next_wake=now)


async def end_pauses(
    apply: Callable[[Changes], Awaitable[None]],
    found: Iterable[Snapshot],
    now: Instant,
    under: int | None = None,
) -> bool:
    """Resume those of these schedules whose pause has ended; return whether they have to be read again.

    All of them are resumed or none, and only while the epoch `under` leads. None is resumed where another
    write came first.
    """
    ended = [changes for due in found if (changes := end_of_pause(due, now)) is not None]
    if not ended:
        return False
    puts = [put for changes in ended for put in changes.puts]
    rows = [row for changes in ended for row in changes.rows]
    notes = [note for changes in ended for note in changes.notes]
    with contextlib.suppress(OvertakenError):
        await apply(Changes(puts, rows=rows, notes=notes, under=under))
    return True
