"""The account of a day: what is overdue without an entry, for all and for one user."""

from __future__ import annotations

from tests.service.rig import after, given, play

from dutiful.service.board import Matching

HOUR, DAY = 3_600_000, 86_400_000


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


def test_ticks_that_never_come_or_come_later_are_not_unaccounted():
    async def story(rig):
        upsert = rig.registrar.upsert_schedule
        await upsert(given(schedule_id="ended", end_at=after(2)))
        await upsert(given(schedule_id="later", start_at=after(1_000_000)))
        # Its ticks fire up to half an hour after their time.
        await upsert(given(schedule_id="jittered", cron_expr="5 * * * *", jitter_ms=HOUR))
        found = []
        for _ in range(20):
            await rig.clock.advance(100)
            found.append((await rig.service.board.day()).account.unaccounted)
        return found

    assert play(story) == [0] * 20


def test_the_drift_of_one_user_says_nothing_of_another():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(schedule_id="hers", user_id="ada"))
        await rig.clock.advance(61)
        return [(await rig.service.board.day(owner)).drift for owner in (None, "ada", "bob")]

    everybody, hers, his = play(story)
    assert everybody == hers == (0.0, 0.0)
    assert his is None


def test_forecasts_of_several_periods_are_kept_for_a_minute_side_by_side():
    async def story(rig):
        board, begin = rig.service.board, rig.clock.epoch_ms() // DAY * DAY
        await rig.registrar.upsert_schedule(given(cron_expr="0 * * * *"))

        async def ticks():
            load = await board.load()
            return [sum((await load.forecast(begin, begin + days * DAY, HOUR)).values()) for days in (1, 7)]

        before = await ticks()
        await rig.registrar.upsert_schedule(given(cron_expr="0 4 * * *"))
        kept = await ticks()
        await rig.clock.advance(60)
        return before, kept, await ticks()

    assert play(story) == ([24, 168], [24, 168], [1, 7])


def test_no_count_of_the_calendar_is_older_than_a_minute():
    async def story(rig):
        board, begin = rig.service.board, rig.clock.epoch_ms() // DAY * DAY
        await rig.registrar.upsert_schedule(given(cron_expr="0 * * * *"))

        async def counts():
            load = await board.load()
            forecast = await load.forecast(begin, begin + DAY, HOUR)
            fired = await load.firing(begin, begin + DAY)
            outage = await load.outage(begin, DAY - 1)
            return sum(forecast.values()), sum(each.ticks for each in fired), outage.ticks

        await (await board.load()).forecast(begin, begin + 7 * DAY, HOUR)
        await rig.registrar.upsert_schedule(given(cron_expr="0 4 * * *"))
        await rig.clock.advance(59)
        before = await counts()
        await rig.clock.advance(1)
        return before, await counts()

    assert play(story) == ((24, 24, 24), (1, 1, 1))


def test_ticks_are_unaccounted_also_beyond_the_schedules_that_are_read_first():
    async def story(rig):
        await rig.registrar.upsert_many([given(schedule_id=f"job-{n}") for n in range(201)])
        rig.service._worker._host.abandon()
        await rig.clock.advance(61 + 5)
        return (await rig.service.board.day()).account.unaccounted

    assert play(story) == 201


def test_schedules_that_fire_within_the_hour_are_counted_beyond_those_that_are_read_first():
    async def story(rig):
        hourly = [given(schedule_id=f"job-{n}", labels={"team": "a"}) for n in range(101)]
        later = [
            given(schedule_id=f"late-{n}", labels={"team": "a"}, cron_expr="0 0 29 2 *") for n in range(9)
        ]
        await rig.registrar.upsert_many(hourly + later)
        return await rig.service.board.matching([("label", "team=a")])

    assert play(story) == Matching(schedules=110, paused=0, soon=101)


def test_the_schedules_of_a_minute_are_counted_beyond_those_that_are_read():
    async def story(rig):
        noon = [given(schedule_id=f"his-{n}", user_id="bob", cron_expr="0 12 * * *") for n in range(250)]
        hers = [given(schedule_id=f"hers-{n}", cron_expr="0 12 * * *") for n in range(3)]
        later = [given(schedule_id="later", cron_expr="1 12 * * *"), given(schedule_id="sooner")]
        await rig.registrar.upsert_many(noon + hers + later)
        found = [(await rig.service.board.day_and_next(owner))[1] for owner in (None, "ada", "bob")]
        return [[(f"{soon.at:%H:%M}", soon.number) for soon in groups] for groups in found]

    # The minutes after the one in which the read ended are not known whole, so they are left out.
    assert play(story) == [
        [("10:01", 1), ("12:00", 253)],
        [("10:01", 1), ("12:00", 3), ("12:01", 1)],
        [("12:00", 250)],
    ]
