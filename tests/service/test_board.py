"""The account of a day: what is overdue without an entry, for all and for one user."""

from __future__ import annotations

from tests.service.rig import given, play


def test_ticks_that_nothing_decides_are_unaccounted_for_their_owner_alone():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(schedule_id="hers", user_id="ada"))
        await rig.registrar.upsert_schedule(given(schedule_id="his", user_id="bob", cron_expr="*/5 * * * *"))
        rig.service._worker._host.abandon()
        await rig.clock.advance(601)
        days = [await rig.service.board.day(owner) for owner in (None, "ada", "bob", "eve")]
        return [day.account.unaccounted for day in days]

    # By one second past 10:10, less what may still be on its way.
    everybody, hers, his, none = play(story)
    assert (hers, his, none) == (9, 1, 0)
    assert everybody == hers + his


def test_the_drift_of_one_user_says_nothing_of_another():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(schedule_id="hers", user_id="ada"))
        await rig.clock.advance(61)
        return [(await rig.service.board.day(owner)).drift for owner in (None, "ada", "bob")]

    everybody, hers, his = play(story)
    assert everybody == hers == (0.0, 0.0)
    assert his is None
