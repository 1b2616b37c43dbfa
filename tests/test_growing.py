"""The page about growing: its numbers are those of its model, and its statements can be executed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import asyncpg
import pytest
from benchmarks import postgres_growth as growth
from tests.stores.notation import ending, pass_at, put, schedule

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes
from dutiful.runtime.ports import Retention
from dutiful.stores.postgres import PostgresStore
from dutiful.stores.postgres.edits import Places

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/guides/growing.md").read_text(encoding="utf-8")
[STATEMENTS] = re.findall(r"^```text\n(BEGIN;.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
# The border between two partitions.
BORDER = int(re.findall(r"TO \((\d+)\)", STATEMENTS)[0])
WEEK = 7 * 86_400_000
newest = pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)


def test_the_tables_of_the_page_are_those_of_the_model():
    assert "\n".join(growth.scale_table()) in PAGE
    assert "\n".join(growth.shards_table()) in PAGE


def test_the_numbers_in_the_text_are_those_of_the_model():
    one, each = growth.load(), growth.MEASURED
    million = 1_000_000
    for told in (
        f"{one.ticks_a_day:.1f} ticks a day for each schedule",
        f"{100 * one.burst:.1f} of a hundred schedules are due",
        f"{one.rows_kept:.0f} rows for each schedule of the mix",
        f"| {each.schedule_bytes} bytes: its declaration",
        f"| {each.run_bytes} bytes of ledger",
        f"| {each.wal_bytes:,} bytes of WAL",
        f"| {each.runs_per_s:,} runs |",
        f"a burst of {million * one.burst:,.0f} that takes {million * one.burst / each.runs_per_s:.0f} s",
        f"{100 * million * one.ticks_a_day / 1e9:.1f} billion ticks a day, 34,000 a second",
        f"{100 * million * one.rows_kept * each.run_bytes / 1e12:.0f} TB of ledger",
        f"{100 * million * one.ticks_a_day * each.wal_bytes / 1e12:.1f} TB of WAL a day",
    ):
        assert told in PAGE
    assert round(100 * million * one.ticks_a_day / growth.DAY, -3) == 34_000


def test_a_tenth_of_the_rows_makes_the_ledger_of_the_mix_five_times_as_small():
    days = [(share, len(growth.ticks(text)) / 7) for text, share in growth.texts()]
    rows = [sum(share * min(daily * 30, most) for share, daily in days) for most in (1000, 100)]
    assert rows[0] == pytest.approx(growth.load().rows_kept)
    assert 5 < rows[0] / rows[1] < 6


def test_the_mix_comes_to_what_a_count_by_hand_says():
    # 60 once a day, 20 hourly, 10 each quarter, 9 once a week, 1 each minute; Monday at 03:00 is the fullest.
    assert sum(growth.MIX.values()) == 100
    by_hand = 0.60 * 1 + 0.20 * 24 + 0.10 * 96 + 0.09 / 7 + 0.01 * 1440
    assert growth.load().ticks_a_day == pytest.approx(by_hand)
    assert growth.load().burst == pytest.approx(0.60 / 24 + 0.20 + 0.10 + 0.09 + 0.01)


@pytest.mark.parametrize("shards", growth.SHARDS)
def test_ids_fall_into_shards_as_evenly_as_the_model_says(shards):
    count, places = 100_000, Places(range(shards))
    loads = [0] * shards
    for number in range(count):
        loads[places.place(f"tenant-{number % 100}.job-{number}", None)] += 1
    assert max(loads) * shards / count < 2 * growth.fullest_shard(shards, count) - 1


@newest
def test_the_constants_are_those_of_this_release(postgres_url):
    found, told = asyncio.run(growth.measure(postgres_url, 2000)), growth.MEASURED
    assert found.schedule_bytes == pytest.approx(told.schedule_bytes, rel=0.25)
    assert found.run_bytes == pytest.approx(told.run_bytes, rel=0.25)
    # Other tests write to the same server.
    assert found.wal_bytes > 0.75 * told.wal_bytes


@newest
def test_a_ledger_that_is_divided_as_the_page_says_works_across_the_border(postgres_url):
    async def story():
        store = PostgresStore(postgres_url)
        await store.open()
        await store.lead("me")
        first = BORDER - WEEK // 2
        weekly = put(schedule("a", Every(WEEK, "start")), first, cursor=first - WEEK)
        await store.apply(Changes([weekly]))
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(STATEMENTS)
        for now in (first, first + WEEK, first + 2 * WEEK):
            [launch] = await pass_at(store, now)
            assert await store.settle([ending(launch, now + 1)], 1) == [True]
        counted = "SELECT tableoid::regclass::text, count(*) FROM runs GROUP BY 1 ORDER BY 1"
        parts = [tuple(row) for row in await connection.fetch(counted)]
        kept = len(await store.ledger("a", None, 10))
        pruned = await store.prune(BORDER + 9 * WEEK, Retention(0, 1))
        await connection.close()
        await store.close()
        return parts, kept, pruned

    parts, kept, pruned = asyncio.run(story())
    assert parts == [("runs_before", 1), ("runs_later", 1), ("runs_week_1", 1)]
    assert (kept, pruned) == (3, 3)
