"""Start-up: what `import dutiful` adds to an interpreter, and how long a command takes in all.

Fresh interpreters with warm bytecode, kept in a directory of this run so that the result depends
neither on who compiled before nor on whether the installed packages may be written. CPU time of the
child, user and system: starting is all computation, and waiting for a busy machine is not ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.report import Row, Section, at_most

ROUNDS = 15
BARE = ("-c", "pass")
IMPORTS = {
    "ours": "import dutiful",
    "croniter": "import croniter",
    "cronsim": "import cronsim",
    "APScheduler 3": "import apscheduler.triggers.cron",
    "Celery": "import celery.schedules",
}
COMMANDS = {
    "dutiful cron next, UTC": ("-m", "dutiful", "cron", "next", "30 2 * * *"),
    "dutiful cron next, New York": ("-m", "dutiful", "cron", "next", "30 2 * * *", "-z", "America/New_York"),
}
IMPORT_MS_MAX, COMMAND_MS_MAX = 60, 100


def run() -> Section:
    """Measure the goals on `import dutiful` and on the start of the command line."""
    programs = {"bare": BARE, **{name: ("-c", code) for name, code in IMPORTS.items()}, **COMMANDS}
    with TemporaryDirectory() as bytecode:
        times = _medians(programs, bytecode)
    bare = times["bare"]
    note = f"CPU time, medians of {ROUNDS} interleaved rounds; a bare interpreter takes {bare:.1f} ms"
    rows = (_import_row(times, bare), *(_command_row(name, times[name]) for name in COMMANDS))
    return Section("startup", rows, (note, "imports are less the bare interpreter, commands include it"))


def _import_row(times: dict[str, float], bare: float) -> Row:
    ours, *others = ({name: times[name] - bare} for name in IMPORTS)
    peers = {name: value for other in others for name, value in other.items()}
    return Row("import dutiful", ours["ours"], "ms", peers, (at_most(ours["ours"], IMPORT_MS_MAX, "ms"),))


def _command_row(name: str, milliseconds: float) -> Row:
    return Row(name, milliseconds, "ms", {}, (at_most(milliseconds, COMMAND_MS_MAX, "ms"),))


def _medians(programs: dict[str, tuple[str, ...]], bytecode: str) -> dict[str, float]:
    """Return program -> median CPU milliseconds, after one round that only compiles."""
    environment = _environment(bytecode)
    samples: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(1 + ROUNDS):
        for name, arguments in programs.items():
            samples[name].append(_cpu_ms(arguments, environment))
    return {name: median(found[1:]) for name, found in samples.items()}


def _environment(bytecode: str) -> dict[str, str]:
    environment = os.environ | {"PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _cpu_ms(arguments: tuple[str, ...], environment: dict[str, str]) -> float:
    """Return the CPU milliseconds of one child, from its own resource usage."""
    child = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, arguments)
    return (usage.ru_utime + usage.ru_stime) * 1000
