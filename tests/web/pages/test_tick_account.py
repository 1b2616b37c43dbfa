"""The account of a schedule: its cron counts the ticks, its ledger has the outcomes."""

from __future__ import annotations

import pytest
from tests.service.rig import after, given, play
from tests.web.pages.html import page

from dutiful.core.plan.outcome import Succeeded
from dutiful.web.pages.tick_account import Account, account_of


async def done(_):
    return Succeeded()


async def read(rig, limit=1000):
    found = await rig.registrar.runs("job", limit)
    return await rig.registrar.get_schedule("job"), found.items, found.next_cursor is not None


def told(story):
    """Return what a story returns, from a service whose runs all succeed."""
    return play(story, behave=done)


def test_every_tick_of_the_cron_has_an_entry():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(10 * 60)
        view, runs, more = await read(rig)
        return account_of(view, runs, after(-60), after(10), more)

    account = told(story)
    assert account == Account(after(-60), ran=10)
    assert (account.due, account.accounted) == (10, 10)


def test_a_tick_without_an_entry_is_seen():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(10 * 60)
        view, runs, more = await read(rig)
        lost = [run for run in runs if run.run_at not in (after(3), after(4))]
        return account_of(view, lost, after(-60), after(10), more)

    account = told(story)
    assert account == Account(after(-60), ran=8, unaccounted=2)
    assert (account.due, account.accounted) == (10, 8)


def test_ticks_after_the_newest_entry_are_still_to_be_recorded():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(10 * 60)
        view, runs, more = await read(rig)
        return account_of(view, runs, after(-60), after(12.5), more)

    assert told(story) == Account(after(-60), ran=10, waiting=2)


def test_before_the_first_entry_of_a_new_schedule_its_ticks_are_to_be_recorded():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        view, runs, more = await read(rig)
        return account_of(view, runs, after(-60), after(2), more)

    assert told(story) == Account(after(-60), waiting=2)


def test_a_run_by_hand_is_not_due():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr="*/5 * * * *"))
        await rig.registrar.trigger("job")
        await rig.clock.advance(10 * 60)
        view, runs, more = await read(rig)
        return account_of(view, runs, after(-60), after(10), more)

    assert told(story) == Account(after(-60), ran=2, by_hand=1)


def test_a_stretch_that_begins_before_the_range_counts_from_the_range_on():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.pause_schedule("job", True, "moves")
        await rig.clock.advance(60 * 60)
        await rig.registrar.pause_schedule("job", False)
        view, runs, more = await read(rig)
        assert [(run.ticks, run.reason) for run in runs] == [(60, "paused")]
        return account_of(view, runs, after(50), after(60), more)

    assert told(story) == Account(after(50), skipped=10)


def test_ticks_before_an_edit_are_those_that_were_recorded():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(10 * 60)
        await rig.registrar.upsert_schedule(given(cron_expr="*/5 * * * *"))
        await rig.clock.advance(10 * 60)
        view, runs, more = await read(rig)
        return account_of(view, runs, after(-60), after(20), more)

    assert told(story) == Account(after(-60), ran=12)


@pytest.mark.parametrize(
    ("changes", "ran"),
    [
        ({"start_at": after(3)}, 8),
        ({"end_at": after(3)}, 3),
        ({"start_at": after(2.5), "end_at": after(3)}, 1),
    ],
)
def test_there_are_no_ticks_outside_of_the_window(changes, ran):
    async def story(rig):
        await rig.registrar.upsert_schedule(given(**changes))
        await rig.clock.advance(10 * 60)
        view, runs, more = await read(rig)
        return account_of(view, runs, after(-60), after(10), more)

    assert told(story) == Account(after(-60), ran=ran)


def test_the_account_begins_where_the_entries_begin_that_were_read():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(10 * 60)
        view, runs, more = await read(rig, 5)
        return account_of(view, runs, after(-60), after(10), more)

    assert told(story) == Account(after(6), ran=4)


def test_the_account_begins_after_the_entries_that_were_deleted():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(retention_rows=3))
        await rig.clock.advance(10 * 60)
        await rig.restart(1)
        await rig.clock.advance(60)
        view, runs, more = await read(rig)
        return account_of(view, runs, after(-60), after(11), more)

    assert told(story) == Account(after(6), ran=5)


def test_the_page_tells_the_account_and_where_it_begins(service):
    service.upsert(schedule_id="fast", cron_expr="* * * * *")
    service.advance(60 * 1122 + 1)
    text = page(service, "/ui/schedules/fast?range=24h").text
    assert "Since Mon 2 Mar 11:03 999 due, 999 accounted for 999 ran, 0 failed, 0 skipped" in text
