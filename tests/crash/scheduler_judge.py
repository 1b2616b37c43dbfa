"""What was owed, by the outside log alone: a second, naive reading of the rules that shares no code.

A task is owed a start while it does not run and was cut short, or its retry has come, or one of its
minutes lies after its last start. Nothing else may start; what is owed has started before time moves on.
A run that had ended and was not settled when its process died may start again, and need not; so may one
that was due just then, even if the next list does not make it due.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.crash.scheduler_worker import LISTS


@dataclass
class Facts:
    """What the log says of one task."""

    mark: float
    period: int = 1
    delay: float = 0
    retry: float | None = None
    cut_short: bool = False
    runs: bool = False
    unsettled: bool = False
    # Nobody can know whether its last step was written before its process died.
    in_doubt: bool = False

    def owed(self, now):
        if self.runs:
            return False
        minute = (int(self.mark) // 60 + 1) * 60
        while minute // 60 % 60 % self.period:
            minute += 60
        return self.cut_short or minute <= now or (self.retry is not None and self.retry <= now)


class Judge:
    """Reads the log line by line; `problems` is what it found."""

    def __init__(self):
        self.tasks, self.problems, self.seen = {}, [], Counter()
        self.now, self.active, self.stopping = 0.0, False, False

    def read(self, lines):
        for number, line in enumerate(lines, 1):
            word, at, *rest = line.split()
            found = len(self.problems)
            getattr(self, f"see_{word}")(float(at), *rest)
            self.seen[word] += 1
            self.problems[found:] = [f"line {number}: {line}: {text}" for text in self.problems[found:]]
        return self.problems

    def see_initialize(self, at, name):
        self.now, self.active, self.stopping = at, True, False
        for task, (period, delay, _) in LISTS[name].items():
            facts = self.tasks.setdefault(task, Facts(at // 60 * 60 - 1))
            facts.period, facts.delay = period, delay

    def see_time(self, at):
        for task, facts in self.tasks.items():
            # Owed at the old time: there was all the time in the world to start it.
            if self.active and not self.stopping and facts.owed(self.now):
                self.problems.append(f"{task} was owed a start at {self.now}")
            if facts.unsettled:
                self.problems.append(f"{task} had ended at {self.now} and was not settled")
            facts.in_doubt = False
        self.now = at

    def see_start(self, at, task):
        facts = self.tasks[task]
        if not self.active or self.stopping:
            self.problems.append("nothing may start now")
        if facts.runs:
            self.problems.append("it runs already")
        elif not (facts.owed(at) or facts.in_doubt):
            self.problems.append("it was not owed")
        self.seen["restart"] += facts.cut_short
        self.seen["doubt"] += facts.in_doubt and not facts.owed(at)
        facts.mark, facts.retry, facts.cut_short, facts.in_doubt, facts.runs = at, None, False, False, True

    def see_ended(self, at, task):  # noqa: ARG002
        self.tasks[task].runs, self.tasks[task].unsettled = False, True

    def see_failed(self, at, task):
        self.see_ended(at, task)
        self.tasks[task].retry = at + self.tasks[task].delay

    def see_settled(self, at, task):  # noqa: ARG002
        self.tasks[task].unsettled = False

    def see_stops(self, at):  # noqa: ARG002
        self.stopping = True

    def see_stopped(self, at):  # noqa: ARG002
        left = [task for task, facts in self.tasks.items() if facts.runs or facts.unsettled]
        if left:
            self.problems.append(f"stop returned before {left}")

    def see_next(self, at):
        """A process has ended, and the next one begins at this time."""
        for facts in self.tasks.values():
            # What was due at the end may have been recorded without having begun, under the list of then.
            facts.in_doubt = facts.in_doubt or facts.unsettled or (self.active and facts.owed(self.now))
            facts.cut_short = facts.cut_short or facts.runs
            facts.runs = facts.unsettled = False
        self.now, self.active = at, False
