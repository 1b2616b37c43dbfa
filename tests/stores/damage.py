"""Random damage to a database file, and what an engine does with what is left of it.

A life is led and its file kept twice: closed with a goodbye, and as a crash would leave it, with a log
beside it. Damage is done to a copy, an engine goes on from there, and what it launches is held against
what it launches over the undamaged copy.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tests.stores.notation import MINUTE, T0, declare, schedule

from dutiful.core.cadence import Every
from dutiful.core.errors import StoreError
from dutiful.core.event import PassFailed, ScheduleQuarantined
from dutiful.core.plan.outcome import Failed, Succeeded
from dutiful.core.policy import Capacity, OnOrphan, Overlap, Retry
from dutiful.runtime.engine import Engine
from dutiful.stores.sqlite import SqliteStore
from dutiful.testing import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path

    from dutiful.core.event import Event
    from dutiful.core.plan.outcome import Outcome
    from dutiful.runtime.ports import Launch

PAGE = 4096
# Real seconds; nothing here takes one.
# Long, because what is slow does not hang.
HANGS_AFTER = 60
FILE, LOG = ("bytes", "bits", "zero", "swap", "truncate", "header"), ("log", "log end")
KINDS = FILE + LOG
WRONG = {
    "launched again",
    "launched what is no tick",
    "went on otherwise, without a word",
    "hangs",
    "undocumented error",
}
# How a failed pass names what errors.md says of a store, and how this file names a marked schedule.
DOCUMENTED = ("StoreError: ", "LostLeadershipError: ", "marked ")
SCHEDULES = [
    *(schedule(f"plain {n}") for n in range(6)),
    *(schedule(f"quiet {n}", ledger=False) for n in range(3)),
    schedule("failing", retry=Retry(90_000)),
    schedule("period", Every(45_000)),
    schedule("slow", on_orphan=OnOrphan.RESTART, overlap=Overlap.QUEUE),
    schedule("once only", on_orphan=OnOrphan.GIVE_UP, run_timeout=30 * MINUTE),
    schedule("narrow", capacity=Capacity("agent", 1)),
]
Key = tuple[str, int, int]


class Launcher:
    """Notes (schedule, tick, attempt); some fail, some hang."""

    in_process = True

    def __init__(self) -> None:
        self.noted: list[Key] = []

    async def launch(self, launch: Launch) -> Outcome:
        id_ = launch.schedule.id
        self.noted.append((id_, launch.run.run_at, launch.run.attempt))
        if id_ in ("slow", "once only") and launch.run.run_at >= T0 + 20 * MINUTE:
            await asyncio.Event().wait()
        return Failed("as planned") if id_ == "failing" else Succeeded()


class Life(NamedTuple):
    """What an engine launched, and what it noticed to be wrong."""

    launched: list[Key]
    complaints: list[str]


class Image(NamedTuple):
    """The files of a life that was led, what it launched, and what goes on from there."""

    files: dict[str, bytes]
    launched: frozenset[tuple[str, int]]
    onward: Life


async def live(store: SqliteStore, start: int, minutes: float, snapshot: Path | None = None) -> Life:
    """Let an engine run for so long; copy the files before it stops, if that is wanted."""
    clock, launcher, complaints = VirtualClock(_at(start)), Launcher(), list[str]()

    def hear(event: Event) -> None:
        if isinstance(event, PassFailed | ScheduleQuarantined):
            complaints.append(event.error)

    engine = Engine(store, launcher, clock, hear, "me")
    engine.start()
    await clock.advance(minutes * 60)
    if snapshot is not None:
        for suffix in ("", "-wal"):
            shutil.copy(f"{store._path}{suffix}", f"{snapshot}{suffix}")
    engine.abandon()
    await asyncio.sleep(0)
    return Life(launcher.noted, complaints)


def _at(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat()


def images(folder: Path) -> list[Image]:
    """Return the two images of one life."""
    path, crashed = folder / "first.db", folder / "crashed.db"

    async def first() -> Life:
        store = SqliteStore(path)
        await store.open()
        await declare(store, *SCHEDULES)
        early = await live(store, T0, 15)
        await store.close()
        # From here on the log grows beside a file that holds something.
        await store.open()
        late = await live(store, T0 + 15 * MINUTE + 30_000, 10, crashed)
        await store.close()
        return Life(early.launched + late.launched, early.complaints + late.complaints)

    launched = frozenset(key[:2] for key in asyncio.run(first()).launched)
    found = []
    for origin in (path, crashed):
        files = {
            end: p.read_bytes() for end in ("", "-wal") if (p := origin.with_name(origin.name + end)).exists()
        }
        found.append(Image(files, launched, go_on(folder / "onward.db", files)))
    return found


def go_on(path: Path, files: dict[str, bytes]) -> Life:
    """Let an engine go on from these files, a while later; raise what opening them raises."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    # By it a file that was cut to nothing is known to have been in use.
    path.with_name(path.name + ".default.lock").touch()
    for suffix, content in files.items():
        path.with_name(path.name + suffix).write_bytes(content)

    async def second() -> Life:
        store = SqliteStore(path)
        await store.open()
        try:
            life = await live(store, T0 + 30 * MINUTE, 3)
            return life._replace(complaints=life.complaints + await _marked(store))
        finally:
            await store.close()

    return asyncio.run(asyncio.wait_for(second(), HANGS_AFTER))


async def _marked(store: SqliteStore) -> list[str]:
    try:
        await store.every()
        return [f"marked {id_}: {problem}" for id_, problem in await store.damaged()]
    except StoreError as error:
        return [f"StoreError: {error}"]


# Damage


def damaged(files: dict[str, bytes], kind: str, rng: Random) -> dict[str, bytes]:
    """Return the files with one random damage of a kind."""
    name = "-wal" if kind.startswith("log") else ""
    content = bytearray(files[name])
    match kind:
        case "bytes" | "log":
            for _ in range(rng.choice((1, 1, 2, 8))):
                content[rng.randrange(len(content))] = rng.randrange(256)
        case "bits":
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        case "header":
            content[rng.randrange(100)] = rng.randrange(256)
        case "zero":
            at = rng.randrange(len(content) // PAGE) * PAGE
            content[at : at + PAGE] = bytes(PAGE)
        case "swap":
            one, other = (rng.randrange(len(content) // PAGE) * PAGE for _ in range(2))
            content[one : one + PAGE], content[other : other + PAGE] = (
                content[other : other + PAGE],
                content[one : one + PAGE],
            )
        case "truncate" | "log end":
            del content[rng.randrange(len(content)) :]
    return files | {name: bytes(content)}


# Verdicts


def verdict(image: Image, files: dict[str, bytes], path: Path) -> tuple[str, str]:
    """Return "refused", "told", "harmless", or what is wrong, and the evidence."""
    if files == image.files:
        return "harmless", "nothing changed"
    try:
        life = go_on(path, files)
    except StoreError as error:
        return "refused", str(error)
    except TimeoutError:
        return "hangs", ""
    except Exception as error:  # noqa: BLE001 - an error that is not documented is a verdict
        return "undocumented error", f"{type(error).__name__}: {error}"
    return _compare(image, life)


def _compare(image: Image, life: Life) -> tuple[str, str]:
    expected, ran = {key[:2] for key in image.onward.launched}, {key[:2] for key in life.launched}
    if undocumented := [text for text in life.complaints if not text.startswith(DOCUMENTED)]:
        return "undocumented error", undocumented[0]
    if again := sorted(ran & image.launched - expected):
        return "launched again", f"{again[:3]}; told: {life.complaints[:1]}"
    if no_ticks := [
        key for key in sorted(ran - expected) if key[0] != "period" and key[1] % MINUTE != T0 % MINUTE
    ]:
        return "launched what is no tick", f"{no_ticks[:3]}; told: {life.complaints[:1]}"
    if life.complaints:
        return "told", life.complaints[0]
    if ran != expected:
        return "went on otherwise, without a word", str(sorted(ran ^ expected)[:3])
    return "harmless", ""


def case(known: list[Image], seed: int, kind: str, path: Path) -> tuple[str, str]:
    """Return the verdict on one seed's damage of a kind."""
    rng = Random(seed)
    image = known[1] if kind in LOG else rng.choice(known)
    found, evidence = verdict(image, damaged(image.files, kind, rng), path)
    # A crash may leave such a log too, if the disk lies; nothing in the file tells the two apart.
    if (kind, found) == ("log end", "launched again"):
        found = "an earlier state"
    return found, evidence


def campaign(known: list[Image], seeds: range, path: Path) -> tuple[Counter[str], list[str]]:
    """Return how often each verdict was given to each kind of damage, and the cases that went wrong."""
    counts, wrong = Counter[str](), []
    for seed in seeds:
        kind = KINDS[seed % len(KINDS)]
        found, evidence = case(known, seed, kind, path)
        counts[f"{kind}: {found}"] += 1
        if found in WRONG:
            wrong.append(f"seed {seed}, {kind}: {found} {evidence}")
    return counts, wrong
