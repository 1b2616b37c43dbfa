"""The registrar of the service: bulk, lists, pauses, runs by hand, backfill, and the operator's own state."""

from __future__ import annotations

import pytest
from tests.service.rig import after, given, play

from dutiful.core.errors import InvalidArgumentError, OversizedBackfillError, UnknownScheduleError
from dutiful.core.plan.outcome import Succeeded
from dutiful.service import Backfilled, Service
from dutiful.service.payload import payload_of


async def done(_):
    return Succeeded()


def _pause_of(view):
    return view.paused, view.pause_note, view.paused_at, view.paused_by, view.version


def test_a_deploy_leaves_pause_and_note_to_the_operator():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.pause_schedule("job", True, "broken upstream", "ada")
        await rig.clock.advance(5)
        await rig.registrar.upsert_schedule(given(version=2))
        kept = await rig.registrar.get_schedule("job")
        await rig.registrar.upsert_schedule(given(version=2, paused=False))
        resumed = await rig.registrar.get_schedule("job")
        return [_pause_of(view) for view in (kept, resumed)], kept.updated_at

    views, updated_at = play(story)
    assert views == [(True, "broken upstream", after(0), "ada", 2), (False, None, None, None, 2)]
    assert updated_at == after(5 / 60)


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("https://run.example/x?token=1", "https://run.example/x?***"),
        ("redis://ada:pw@run.example/0?stream=runs", "redis://***@run.example/0?***"),
    ],
)
def test_an_executor_that_is_sent_as_it_is_shown_keeps_its_secrets(secret, shown):
    async def story(rig):
        await rig.registrar.upsert_schedule(given(executor=secret))
        assert (await rig.registrar.get_schedule("job")).executor == shown
        previewed = await rig.registrar.preview_upsert(given(executor=shown, cron_expr="0 * * * *"))
        again = await rig.registrar.upsert_schedule(given(executor=shown, cron_expr="0 * * * *"))
        due = await rig.service._store.get("job")
        refused = []
        for wrong in ({"executor": shown.replace("run", "evil")}, {"executor": shown, "schedule_id": "new"}):
            with pytest.raises(InvalidArgumentError) as error:
                await rig.registrar.upsert_schedule(given(**wrong))
            refused.append(error.value.details["argument"])
        return previewed.changed, again.changed, payload_of(due.schedule).executor, refused

    assert play(story) == (["cron_expr"], ["cron_expr"], secret, ["executor", "executor"])


def test_a_deploy_makes_no_past_tick_due():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr="0 * * * *", catchup_policy="fire_immediately"))
        await rig.clock.advance(30 * 60)
        await rig.registrar.upsert_schedule(given(cron_expr="*/5 * * * *", catchup_policy="fire_immediately"))
        await rig.clock.advance(6 * 60)
        return rig.calls.ticks()

    assert play(story) == ["10:35"]


def test_the_same_deploy_again_changes_nothing():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        for _ in range(6):
            await rig.clock.advance(30)
            await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        return rig.calls.ticks(), await rig.rows()

    assert play(story) == (["10:01", "10:02", "10:03"], [f"10:0{n} ENQUEUED" for n in (1, 2, 3)])


def test_ten_thousand_schedules_are_stored_together_or_not_at_all():
    many = [given(schedule_id=f"s{n:05}", cron_expr=f"{n % 60} 12 * * *") for n in range(10_000)]

    async def story(rig):
        with pytest.raises(InvalidArgumentError) as caught:
            await rig.registrar.upsert_many([*many[:-1], given(schedule_id="s00000")])
        assert caught.value.details["index"] == 9_999
        assert (await rig.registrar.list_schedules()).items == []
        stored = await rig.registrar.upsert_many(many)
        with pytest.raises(InvalidArgumentError, match="at most 10000"):
            await rig.registrar.upsert_many([*many, given()])
        page = await rig.registrar.list_schedules(limit=1)
        return len(stored), stored[61], page.items[0].schedule_id

    count, one, first = play(story)
    assert (count, one.schedule_id, one.next_run_at, first) == (10_000, "s00061", after(121), "s00000")


def test_lists_come_in_pages_through_filters():
    async def story(rig):
        inputs = [
            given(
                schedule_id=f"s{n}", workflow_id=f"w{n % 2}", user_id=f"u{n % 3}",
                labels={"n": str(n % 4), **({"odd": ""} if n % 2 else {})},
            )
            for n in range(12)
        ]  # fmt: skip
        await rig.registrar.upsert_many(inputs)
        await rig.registrar.pause_schedule("s3", True)

        async def ids(**filters):
            found, cursor, sizes = [], None, []
            while True:
                page = await rig.registrar.list_schedules(limit=2, cursor=cursor, **filters)
                found += [view.schedule_id for view in page.items]
                sizes.append(len(page.items))
                cursor = page.next_cursor
                if cursor is None:
                    return found, sizes

        return [
            await ids(),
            await ids(workflow_id="w1", user_id="u0"),
            await ids(paused=True),
            await ids(label="odd"),
            await ids(label="n=2"),
            await ids(user_id="nobody"),
        ]

    every, both, paused, odd, two, nobody = play(story)
    assert every == (sorted(f"s{n}" for n in range(12)), [2] * 6)
    assert both == (["s3", "s9"], [2])
    assert paused == (["s3"], [1])
    assert odd[0] == sorted(f"s{n}" for n in range(1, 12, 2))
    assert two[0] == ["s10", "s2", "s6"]
    assert nobody == ([], [0])


@pytest.mark.parametrize("cursor", ["", "x", "!!", "W10", "WzEsMl0", "é", "Ww"])
def test_a_cursor_that_is_none_is_refused(cursor):
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        for asked in (rig.registrar.list_schedules(cursor=cursor), rig.registrar.runs("job", cursor=cursor)):
            with pytest.raises(InvalidArgumentError, match="cursor"):
                await asked

    play(story)


@pytest.mark.parametrize("limit", [0, 1001, True, "5"])
def test_pages_have_a_size(limit):
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        questions = (rig.registrar.list_schedules(limit=limit), rig.registrar.runs("job", limit))
        for asked in (*questions, rig.registrar.next_fires("job", limit), rig.registrar.recent(limit)):
            with pytest.raises(InvalidArgumentError, match="from 1 to 1000"):
                await asked

    play(story)


def test_the_latest_runs_of_a_user_are_those_of_its_schedules():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.upsert_schedule(given(schedule_id="other", user_id="bob"))
        await rig.clock.advance(61)
        users = (None, "ada", "bob", "eve")
        latest = [await rig.registrar.recent(10, user_id=user) for user in users]
        return [sorted(run.schedule_id for run in runs) for runs in latest]

    assert play(story) == [["job", "other"], ["job"], ["other"], []]


def test_runs_come_in_pages_also_where_two_share_an_instant():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(overlap_policy="allow"))
        await rig.clock.advance(60)
        await rig.registrar.trigger("job")
        await rig.clock.advance(120)
        whole = (await rig.registrar.runs("job")).items
        for size in (1, 2, 3):
            found, cursor = [], None
            while True:
                page = await rig.registrar.runs("job", size, cursor)
                found += page.items
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert found == whole
        return [(f"{run.run_at:%H:%M}", run.trigger) for run in whole]

    assert play(story) == [
        ("10:03", "schedule"), ("10:02", "schedule"), ("10:01", "schedule"), ("10:01", "manual"),
    ]  # fmt: skip


def test_pausing_many_takes_those_whose_pause_has_ended_while_no_worker_ran():
    """The pause of `job` is over, but only a worker, or an edit, writes that down."""

    async def story(rig):
        await rig.service.stop()
        alone = Service(rig.settings, rig.clock, worker=False)
        await alone.start()
        await alone.registrar.upsert_schedule(given())
        await alone.registrar.pause_schedule("job", True, "lunch", "ada", after(30))
        await rig.clock.advance(3600)
        changed = await alone.registrar.pause_where(True, "incident", workflow_id="report", by="bo")
        view = await alone.registrar.get_schedule("job")
        await alone.stop()
        await rig.service.start()
        return changed, (view.pause_note, view.paused_at, view.paused_by, view.pause_until)

    assert play(story) == (1, ("incident", after(60), "bo", None))


def test_many_are_paused_by_workflow_user_or_label():
    async def story(rig):
        inputs = [given(schedule_id=f"s{n}", user_id=f"u{n % 2}", labels={"tier": str(n)}) for n in range(4)]
        await rig.registrar.upsert_many(inputs)
        changed = [
            await rig.registrar.pause_where(True, "quota", user_id="u1", by="ada"),
            await rig.registrar.pause_where(True, "again", workflow_id="report", by="bo"),
            await rig.registrar.pause_where(False, label="tier=1"),
        ]
        views = (await rig.registrar.list_schedules()).items
        return changed, [(view.paused, view.pause_note, view.paused_by) for view in views]

    assert play(story) == (
        [2, 2, 1],
        [(True, "again", "bo"), (False, None, None), (True, "again", "bo"), (True, "quota", "ada")],
    )


def test_a_run_by_hand_has_a_key_of_its_own_and_reaches_the_executor_as_manual():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.registrar.pause_schedule("job", True)
        triggered = [await rig.registrar.trigger("job") for _ in range(2)]
        await rig.clock.advance(0)
        metas = [(meta.source, meta.idempotency_key) for meta in rig.calls.metas]
        report = await rig.registrar.report(triggered[0].idempotency_key, "SUCCESS")
        return triggered, metas, report

    triggered, metas, report = play(story)
    keys = [each.idempotency_key for each in triggered]
    assert len({*keys}) == 2
    assert sorted(metas) == sorted(("manual", key) for key in keys)
    assert (report.status, report.trigger, report.run_at) == ("SUCCESS", "manual", triggered[0].run_at)


def test_a_backfill_runs_ticks_under_their_own_keys():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        await rig.clock.advance(60)
        filled = await rig.registrar.backfill("job", after(-3), after(2))
        again = await rig.registrar.backfill("job", after(-3), after(2), "allow")
        await rig.clock.advance(1)
        explained = await rig.registrar.explain("job", after(-3))
        return filled, again, rig.calls.metas, explained

    filled, again, metas, explained = play(story, behave=done)
    assert (filled, again) == (Backfilled(4, 1), Backfilled(0, 5))
    assert [(meta.source, f"{meta.scheduled_for:%H:%M}") for meta in metas] == [
        ("schedule", "10:01"),
        *(("backfill", tick) for tick in ("09:57", "09:58", "09:59", "10:00")),
    ]
    assert explained.due
    assert explained.run.idempotency_key == metas[1].idempotency_key
    assert explained.run.trigger == "backfill"


def test_a_backfill_that_cannot_be_is_refused():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        with pytest.raises(OversizedBackfillError):
            await rig.registrar.backfill("job", after(-100_000), after(0))
        with pytest.raises(InvalidArgumentError, match="end"):
            await rig.registrar.backfill("job", after(1), after(1))
        with pytest.raises(InvalidArgumentError, match="start"):
            await rig.registrar.backfill("job", after(0).replace(tzinfo=None), after(1))
        with pytest.raises(InvalidArgumentError, match="overlap_policy"):
            await rig.registrar.backfill("job", after(0), after(1), "never")

    play(story)


def test_a_day_of_downtime_can_be_made_up_for():
    async def story(rig):
        await rig.registrar.upsert_schedule(given(cron_expr="0 * * * *"))
        await rig.restart(24 * 3600)
        await rig.clock.advance(0)
        before = await rig.rows()
        filled = await rig.registrar.backfill("job", after(0), after(24 * 60))
        await rig.clock.advance(60)
        return before, filled, len(rig.calls.metas), {*[row.split()[1] for row in await rig.rows()]}

    before, filled, launched, statuses = play(story, behave=done)
    assert before == ["11:00-09:00 SKIPPED missed", "10:00 SUCCESS"]
    assert (filled, launched, statuses) == (Backfilled(24, 0), 25, {"SUCCESS"})


def test_questions_about_nothing_are_refused():
    async def story(rig):
        for asked in (
            rig.registrar.get_schedule("gone"),
            rig.registrar.delete_schedule("gone"),
            rig.registrar.pause_schedule("gone", True),
            rig.registrar.next_fires("gone", 1),
            rig.registrar.runs("gone"),
            rig.registrar.explain("gone", after(0)),
            rig.registrar.trigger("gone"),
            rig.registrar.backfill("gone", after(0), after(1)),
        ):
            with pytest.raises(UnknownScheduleError, match='"gone"'):
                await asked

    play(story)


def test_explain_says_what_will_be_and_what_was():
    async def story(rig):
        await rig.registrar.upsert_schedule(given())
        future = await rig.registrar.explain("job", after(5))
        never = await rig.registrar.explain("job", after(-5))
        await rig.registrar.pause_schedule("job", True)
        await rig.clock.advance(61)
        skipped = await rig.registrar.explain("job", after(1))
        return future, never, skipped

    future, never, skipped = play(story)
    assert (future.due, future.run) == (True, None)
    assert future.text == "job at 2026-01-05T10:05:00Z will fire at 2026-01-05T10:05:00Z"
    assert never.run is None
    assert (skipped.due, skipped.run.reason) == (True, "paused")


def test_a_view_has_everything_that_was_declared():
    async def story(rig):
        rich = given(
            dialect="standard", gap="skip", fold="last", grace_s=15.5, delivery="at_most_once",
            run_timeout_s=60, queue_limit=3, labels={"b": "2", "a": "1"}, timezone="Europe/Berlin",
            cron_expr="30 2 * * *",
        )  # fmt: skip
        await rig.registrar.upsert_schedule(rich)
        return await rig.registrar.get_schedule("job")

    view = play(story)
    assert (view.dialect, view.gap, view.fold, view.timezone) == ("standard", "skip", "last", "Europe/Berlin")
    assert (view.grace_s, view.delivery, view.run_timeout_s, view.queue_limit) == (
        15.5,
        "at_most_once",
        60,
        3,
    )
    assert (view.labels, view.quarantine) == ({"a": "1", "b": "2"}, None)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("run_after", "first")),
        ({"cron_expr": "*/5 * * * *"}, ("skip", "both")),
        ({"gap": "skip"}, ("skip", "first")),
        ({"fold": "last"}, ("run_after", "last")),
        ({"dst": "vixie"}, ("run_after", "first")),
    ],
)
def test_a_daily_job_runs_once_a_day_unless_somebody_says_otherwise(changes, expected):
    async def story(rig):
        await rig.registrar.upsert_schedule(given(**{"cron_expr": "30 2 * * *", **changes}))
        view = await rig.registrar.get_schedule("job")
        return view.gap, view.fold

    assert play(story) == expected
