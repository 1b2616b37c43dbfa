"""Forks one scheduler after the other on the same file; each of them kills itself at some step.

Usage: scheduler_worker.py FOLDER KIND KILLS SEED. KIND says during what a life is killed: "initialize",
"runs" or "stop". The place is the nth call of any function, of Python or of C, in any thread, since the
beginning of that phase; n is drawn anew for every life. What happens is appended to FOLDER/log, one line
at a time, by whoever does it: nothing takes a line back.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

from dutiful import Scheduler
from dutiful.testing import VirtualClock

START = 1_772_928_000  # 2026-03-08T00:00:00Z
NEVER = 10**12
# Two lists: name -> (minutes between its ticks, retry delay in seconds, seconds that a run takes).
LISTS = {
    "A": {"minute": (1, 600, 0), "slow": (4, 600, 90), "fails": (5, 20, 0), "flips": (3, 45, 5)},
    "B": {"minute": (1, 600, 0), "slow": (4, 600, 90), "fails": (5, 20, 0), "flips": (2, 70, 5)},
}
FAILING = ("fails", "flips")


class Log:
    """Lines that are there as soon as they are written, whatever happens to the writer."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *words):
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class LoggedClock(VirtualClock):
    """Writes down that time moves before anything can happen at the new time."""

    def __init__(self, start, log):
        super().__init__(datetime.fromtimestamp(start, UTC))
        self._log = log

    def seconds(self):
        return self.now().timestamp()

    def _flow(self, passed):
        super()._flow(passed)
        if passed:
            self._log.write("time", self.seconds())


class Killer:
    """Counts calls once it is armed, and ends the process at the nth."""

    def __init__(self, nth):
        self._nth, self._armed, self.count = nth, False, 0
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def arm(self):
        self._armed = True

    def _see(self, _frame, _event, _arg):
        if self._armed:
            self.count += 1
            if self.count >= self._nth:
                os.kill(os.getpid(), signal.SIGKILL)


def registrations(log, clock, name):
    return [registration(log, clock, task, *facts) for task, facts in LISTS[name].items()]


def registration(log, clock, task, period, delay, takes):
    async def callback():
        log.write("start", clock.seconds(), task)
        if takes:
            await clock.sleep(takes)
        # By the time of day, so that nobody has to remember: twice at every fifth minute, then well.
        fails = task in FAILING and int(clock.seconds()) // 20 % 5 in (0, 1, 3)
        log.write("failed" if fails else "ended", clock.seconds(), task)
        if fails:
            raise ValueError("as planned")

    minutes = ",".join(map(str, range(0, 60, period)))
    return task, f"{minutes} * * * *", callback, delay


async def live(folder, kind, start, nth, list_, rng):
    """Be one life of the scheduler; return how many calls its phase took if nothing killed it."""
    log = Log(folder / "log")
    clock, killer = LoggedClock(start, log), Killer(nth)

    def tell(event):
        words = {"TaskRunCompleted": "settled", "TaskRunFailed": "settled", "SchedulerStopRequested": "stops"}
        if event.name in words:
            log.write(words[event.name], clock.seconds(), *filter(None, [event.task]))

    scheduler = Scheduler(f"sqlite:{folder / 'state.db'}", clock=clock, observer=tell)
    log.write("initialize", clock.seconds(), list_)
    if kind == "initialize":
        killer.arm()
    await scheduler.initialize(registrations(log, clock, list_))
    if kind == "initialize":
        count = killer.count
        await clock.advance(rng.randrange(400))
        return count
    if kind == "runs":
        killer.arm()
        await clock.advance(rng.randrange(300, 900))
        return killer.count
    await clock.advance(rng.randrange(400))
    killer.arm()
    stopping = asyncio.create_task(scheduler.stop())
    while not stopping.done():
        await clock.advance(30)
    log.write("stopped", clock.seconds())
    return killer.count


def born(folder, kind, start, nth, list_, seed):
    """Fork a life and wait for its end; return (whether it was killed, how many calls it took if not)."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        count = asyncio.run(live(folder, kind, start, nth, list_, random.Random(seed)))
        os.write(into, str(count).encode())
        # No goodbye: to the store this is a crash like the others, unless it was stopped.
        os._exit(0)
    os.close(into)
    _, status = os.waitpid(child, 0)
    with os.fdopen(out, "rb") as answer:
        count = int(answer.read() or 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL), status
    return os.WIFSIGNALED(status), count


def last_time(folder):
    line = (folder / "log").read_text().splitlines()[-1]
    return float(line.split()[1])


def main(folder, kind, kills, seed):
    rng, log = random.Random(seed), Log(folder / "log")
    # The first life of all tells how long the phase is, and makes the tasks known.
    (_, calls), done, list_, at = born(folder, kind, START, NEVER, "A", seed), 0, "A", START
    while done < kills:
        at = last_time(folder) + rng.choice((0, 0, 1, 30, 60, 3600))
        log.write("next", at)
        list_ = rng.choice("AB")
        # Every third life is spared, so that there is something to lose.
        nth = NEVER if rng.random() < 0.33 else rng.randrange(1, calls + 1)
        killed, count = born(folder, kind, at, nth, list_, rng.random())
        calls, done = count or calls, done + killed
    log.write("next", last_time(folder))
    # A last life without a kill serves what is owed.
    born(folder, "runs", last_time(folder), NEVER, "A", seed)
    print(done)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
