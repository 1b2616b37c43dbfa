"""Random damage to the file: it is refused, reported, or makes no difference."""

from __future__ import annotations

import os
import sys

import pytest
from tests.sim.gate import Gate
from tests.stores.damage import FILE, KINDS, campaign, case, images, live
from tests.stores.notation import T0, checksum, declare, revived, schedule
from tests.stores.sqlite_rig import edit, own_text, with_store

from dutiful.core.errors import CodecError
from dutiful.stores.codec import declare as encode

# What a log without its end is, is said below.
SLICE = [(seed, kind) for kind in (*FILE, "log") for seed in range(24)]
SOAK = int(os.environ.get("DUTIFUL_SOAK_DAMAGES", "10000"))


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return images(tmp_path_factory.mktemp("images"))


def test_without_damage_the_engine_goes_on_alike_from_both_images(known):
    clean, crashed = known
    assert (clean.onward.complaints, crashed.onward.complaints) == ([], [])
    assert clean.onward.launched == crashed.onward.launched
    assert len(clean.onward.launched) > 40


def test_damage_is_refused_told_or_harmless(known, tmp_path):
    verdicts = {(seed, kind): case(known, seed, kind, tmp_path / "state.db") for seed, kind in SLICE}
    good = ("refused", "told", "harmless")
    assert {key: found for key, found in verdicts.items() if found[0] not in good} == {}
    assert {found for found, _ in verdicts.values()} == set(good)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_random_damage_is_refused_told_or_harmless(known, tmp_path, capfd):
    counts, wrong = campaign(known, range(SOAK), tmp_path / "state.db")
    with capfd.disabled():
        table = "\n".join(f"  {name}: {count}" for name, count in sorted(counts.items()))
        print(f"\n{SOAK} damages of {len(KINDS)} kinds\n{table}", file=sys.stderr)
    assert wrong == []


def test_swapped_pages_are_noticed(known, tmp_path):
    assert case(known, 91, "swap", tmp_path / "state.db")[0] in ("refused", "told", "harmless")


def test_a_damaged_log_is_noticed(known, tmp_path):
    assert case(known, 0, "log", tmp_path / "state.db")[0] in ("refused", "told", "harmless")


@pytest.mark.parametrize("seed", range(5))
def test_a_log_without_its_end_is_an_earlier_state(known, tmp_path, seed):
    assert case(known, seed, "log end", tmp_path / "state.db")[0] in ("harmless", "an earlier state")


def test_a_state_without_a_declaration_does_not_keep_the_engine_busy(tmp_path):
    path, loads = tmp_path / "state.db", []
    with_store(path, lambda store: declare(store, schedule("a")))
    columns = "number, namespace, cursor, runs_started, wake_at, version"
    edit(path, f"INSERT INTO states ({columns}) VALUES (99, 'default', 0, 0, 1, 1)")

    def verdict(name):
        loads.extend([name] * (name == "load"))
        return "before" if name == "load" and len(loads) > 100 else None

    async def go_on(store):
        return await live(Gate(store, verdict), T0, 1)

    with_store(path, go_on)
    assert len(loads) < 20


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (
            ["UPDATE declarations SET payload = CAST(x'ff' AS TEXT) WHERE id = 'a'"],
            "declaration: the row was changed outside dutiful: its checksum does not match",
        ),
        (
            own_text("cadence", "CAST(x'ff' AS TEXT)"),
            "cadence: is not JSON: Expecting value: line 1 column 1 (char 0)",
        ),
    ],
    ids=["payload", "cadence"],
)
def test_a_byte_that_is_no_text_stops_its_schedule_alone(tmp_path, statements, problem):
    path = tmp_path / "state.db"
    with_store(path, lambda store: declare(store, schedule("a"), schedule("b")))
    edit(path, *statements)

    async def go_on(store):
        life = await live(store, T0, 1)
        assert await store.damaged() == [("a", problem)]
        await declare(store, schedule("a"))
        assert await store.damaged() == []
        return life

    life = with_store(path, go_on)
    assert ({key[0] for key in life.launched}, life.complaints) == ({"b"}, [])


def test_an_id_that_is_no_text_is_shown_with_the_bytes_it_has(tmp_path):
    path = tmp_path / "state.db"
    with_store(path, lambda store: declare(store, schedule("a"), schedule("b")))
    edit(path, "UPDATE declarations SET id = CAST(x'61ff' AS TEXT) WHERE id = 'a'")

    async def look(store):
        assert [due.schedule.id for due in await store.every()] == ["b"]
        return [schedule_id for schedule_id, _ in await store.damaged()]

    assert with_store(path, look) == [r"a\xff"]


@pytest.mark.parametrize("value", [None, 7])
@pytest.mark.parametrize("column", ["cadence", "policy"])
def test_a_declaration_without_its_texts_cannot_be_read(column, value):
    broken = encode(schedule("a"))._replace(**{column: value})
    with pytest.raises(CodecError, match=f"{column}: is not JSON"):
        revived("a", broken, checksum("a", broken))
