"""Filtered lists are read by an index: their cost follows the schedules returned, not those stored."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from tests.stores.notation import declare, put, schedule
from tests.stores.sqlite_rig import with_store

from dutiful.core.changes import Changes
from dutiful.runtime.ports import PART_OF_ID, RunFilter
from dutiful.stores.sqlite.figures import matching
from dutiful.stores.sqlite.reads import count, having

ADA, TEAM, PART = ("user", "ada"), ("label", "team"), (PART_OF_ID, "a")


@pytest.mark.parametrize("facets", [(), (ADA,), (ADA, TEAM), (PART,), (PART, ADA)])
@pytest.mark.parametrize("paused", [None, True, False])
def test_a_page_is_found_without_a_scan_or_a_sort(tmp_path, facets, paused):
    path = tmp_path / "state.db"
    with_store(path, lambda store: declare(store, schedule()))
    query, values = having(facets, paused, "")
    with closing(sqlite3.connect(path)) as connection:
        steps = connection.execute(
            f"EXPLAIN QUERY PLAN {query} ORDER BY id LIMIT ?", ("default", *values, 50)
        ).fetchall()
    plan = [detail for *_, detail in steps]
    assert [step for step in plan if step.startswith(("SCAN", "USE TEMP B-TREE"))] == []


@pytest.mark.parametrize(("facets", "counts"), [((), [1, 3, 2, 0]), ((PART,), [1, 0, 0, 0])])
def test_all_schedules_are_counted_by_indexes_alone(tmp_path, facets, counts):
    path = tmp_path / "state.db"
    for namespace, names in {"alpha": "a", "default": "bcd", "zeta": "ef"}.items():
        stored = [schedule(name) for name in names]
        with_store(path, lambda store, stored=stored: declare(store, *stored), namespace=namespace)
    with closing(sqlite3.connect(path)) as connection:
        asked = []
        connection.set_trace_callback(asked.append)
        found = [count(connection, each, facets, None) for each in ("alpha", "default", "zeta", "none")]
        connection.set_trace_callback(None)
        steps = connection.execute(f"EXPLAIN QUERY PLAN {asked[1]}").fetchall()
    assert found == counts
    reads = [detail for *_, detail in steps if "declarations" in detail]
    assert reads
    assert all("COVERING INDEX" in step or "declarations_damaged" in step for step in reads), reads


def test_schedules_with_a_facet_are_counted_by_indexes_alone_without_the_damaged_ones(tmp_path):
    path = tmp_path / "state.db"
    puts = [put(schedule(name)) for name in "abcd"]
    facets = [("a", [ADA, TEAM]), ("b", [ADA]), ("c", [ADA]), ("d", [TEAM])]
    with_store(path, lambda store: store.apply(Changes(puts, facets=facets)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE declarations SET damage = 'odd' WHERE id IN ('c', 'd')")
        asked = []
        connection.set_trace_callback(asked.append)
        found = [count(connection, "default", [facet], None) for facet in (ADA, TEAM)]
        connection.set_trace_callback(None)
        steps = connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}").fetchall()
    assert found == [2, 1]
    reads = [detail for *_, detail in steps if "declarations" in detail]
    assert len(reads) == 1
    assert "declarations_damaged" in reads[0]


def test_without_a_filter_schedules_are_counted_by_their_pages(tmp_path):
    path = tmp_path / "state.db"
    with_store(path, lambda store: declare(store, schedule()))
    with closing(sqlite3.connect(path)) as connection:
        asked = []
        connection.set_trace_callback(asked.append)
        assert count(connection, "default", (), None) == 1
        connection.set_trace_callback(None)
        program = connection.execute(f"EXPLAIN {asked[0]}").fetchall()
    assert "Count" in [operation for _, operation, *_ in program]


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({}, "USING PRIMARY KEY"),
        ({"status": "FAILED"}, "USING INDEX runs_failed"),
        ({"schedule_id": "a"}, "USING INDEX runs_ended"),
    ],
)
def test_runs_are_read_from_a_position_on_in_the_order_of_an_index(tmp_path, wanted, index, oldest_first):
    path = tmp_path / "state.db"
    with_store(path, lambda store: declare(store, schedule()))
    with closing(sqlite3.connect(path)) as connection:
        asked = []
        connection.set_trace_callback(asked.append)
        matching(connection, "default", RunFilter(**wanted), None, 60, oldest_first)
        connection.set_trace_callback(None)
        steps = connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}").fetchall()
    plan = [detail for *_, detail in steps]
    assert [step for step in plan if step.startswith("SEARCH runs") and index in step], plan
    assert [step for step in plan if step.startswith("SCAN runs") and "INDEX" not in step] == [], plan
