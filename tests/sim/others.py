"""Other processes on the engine's store: users who edit, and a rival that leads, at the worst moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.sim.gate import depose

from dutiful.core.errors import UnknownScheduleError
from dutiful.core.schedule import Task

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from tests.sim.recorder import Recorder
    from tests.sim.world import Action

    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Move
    from dutiful.runtime.registrar import Registrar


class Others:
    """`rival_leads(seconds)` is called when another instance has taken the lead for so long."""

    def __init__(
        self,
        recorder: Recorder,
        registrar: Registrar,
        reach: Counter[str],
        tell: Callable[..., None],
        rival_leads: Callable[[float], None],
        now: Callable[[], int],
    ) -> None:
        self._recorder, self._registrar = recorder, registrar
        self._reach, self._tell, self._rival_leads, self._now = reach, tell, rival_leads, now
        # An action to carry out just before a certain call of the engine.
        self.threat: Action | None = None

    async def come_between(self, method: str, *args: Any) -> None:
        """Carry out the threat, if this is the call that it waits for."""
        threat = self.threat
        if threat is None:
            return
        if threat.kind == "rival" and threat.target == method:
            self.threat = None
            await self._take_the_lead(method, threat.amount)
        elif method == "commit" and threat.kind != "rival":
            await self._overtake(threat, args[0])

    async def _take_the_lead(self, method: str, seconds: float) -> None:
        if seconds:
            self._reach[f"deposed before {method}"] += 1
            await depose(self._recorder)
            self._rival_leads(seconds)
        else:
            self._reach["lead lost"] += 1
            await self._recorder.close()
            await self._recorder.open()

    async def _overtake(self, threat: Action, moves: Sequence[Move]) -> None:
        given_up = _given_up(moves) if threat.kind == "save" else []
        if given_up:
            self.threat = None
            self._reach["saved from a cancel"] += 1
            await self._registrar.upsert(given_up[0]._replace(task=Task("another")))
        elif threat.target in _ids(moves):
            self.threat = None
            self._reach["overtaken commit"] += 1
            await self.edit(threat)

    async def edit(self, action: Action) -> None:
        """Carry out a user's edit, unless the schedule is gone."""
        try:
            if action.kind in ("pause", "resume"):
                until = self._now() + round(action.amount * 1000) if action.amount else None
                await self._registrar.pause(action.target, action.kind == "pause", until=until)
            elif action.kind == "remove":
                await self._registrar.remove(action.target)
            elif action.target not in self._recorder.record.removed:
                assert action.schedule is not None
                await self._registrar.upsert(action.schedule)
            self._reach[action.kind] += 1
        except UnknownScheduleError:
            self._tell("unknown", action.target)


def _ids(moves: Sequence[Move]) -> set[str]:
    return {move.due.schedule.id for move in moves}


def _given_up(moves: Sequence[Move]) -> list[Schedule]:
    """Return the schedules whose runs in flight are to be cancelled."""
    return [move.due.schedule for move in moves if move.cancels]
