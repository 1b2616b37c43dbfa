"""What every store promises to the service: keys, reports, pages, notes, workflows; see `contract.py`."""

from __future__ import annotations

import json

import pytest
from tests.stores.notation import (
    MINUTE,
    T0,
    declare,
    due_at,
    end,
    ending,
    open_run,
    pass_at,
    put,
    report,
    rows,
    schedule,
    stored,
    wake_of,
)

from dutiful.core.cadence import Every
from dutiful.core.changes import Changes, Note
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import OvertakenError
from dutiful.core.plan.outcome import Accepted, Refused, Report, Settlement, Succeeded, Unanswered, hear
from dutiful.core.policy import Overlap, Policy, Reason, Retry
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import SkippedRange, Task, tick_key
from dutiful.core.workflow import PutWorkflow, Workflow, WorkflowEntry
from dutiful.runtime.ports import Found, Retention, RunFilter

KEY = "ab" * 32


def manual(run_at: int, own_key: str | None = KEY, id_: str = "a") -> Run:
    return Run(
        id_, run_at, "manual", Status.ENQUEUED, Phase.DELAYED, run_at,
        own_key=own_key, created_at=run_at, updated_at=run_at,
    )  # fmt: skip


def workflow(
    version: int, dag: str | None = None, owner: str = "ada", id_: str = "w", at: int = T0
) -> Workflow:
    return Workflow(id_, version, owner, dag or f'{{"a":{version}}}', at)


class KeyContract:
    """A run is found by the key that others know it by."""

    @stored
    async def test_a_tick_is_found_by_its_key_through_its_whole_life(self, store):
        await declare(store, schedule("a"), schedule("b"))
        await store.lead("me")
        launch, _ = await pass_at(store, T0)
        assert await store.find(tick_key("a", T0)) == Found(launch.run, schedule("a"))
        await end(store, launch, T0 + 1)
        found = (await store.find(tick_key("a", T0))).run
        assert (found.schedule_id, found.status) == ("a", Status.SUCCESS)
        assert (found.created_at, found.updated_at) == (T0, T0 + 1)

    @stored
    async def test_an_unknown_key_is_not_found(self, store):
        await declare(store, schedule())
        await store.lead("me")
        await pass_at(store, T0)
        for key in (tick_key("a", T0 + MINUTE), tick_key("b", T0), "", "zz", tick_key("a", T0).upper(), "é"):
            assert await store.find(key) is None

    @stored
    async def test_a_manual_run_is_found_by_its_own_key(self, store):
        await declare(store, schedule())
        await store.apply(Changes([put(schedule())], rows=[manual(T0 + 1)]))
        assert (await store.find(KEY)).run == manual(T0 + 1)
        await store.lead("me")
        launches = await pass_at(store, T0 + 1)
        assert KEY in [launch.run.key for launch in launches]
        assert (await store.find(KEY)).run.phase is Phase.LAUNCHED

    @stored
    async def test_a_stretch_is_found_by_its_first_tick(self, store):
        await declare(store, schedule(paused=True))
        await store.lead("me")
        await pass_at(store, T0)
        await pass_at(store, T0 + 2 * MINUTE)
        found = (await store.find(tick_key("a", T0))).run
        assert (found.reason, found.ticks) == (Reason.PAUSED, 3)
        # It began when its first tick was skipped, and was written again when it grew.
        assert (found.created_at, found.updated_at) == (T0, T0 + 2 * MINUTE)

    @stored
    async def test_the_rest_of_a_stretch_does_not_hide_the_run_of_its_second(self, store):
        await declare(store, schedule())
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        await end(store, launch, T0)
        stretch = Run(
            "a", T0, "schedule", Status.SKIPPED, Phase.ENDED, T0, Reason.MISSED, 0, 1, None, T0,
            T0 + MINUTE, 2, created_at=T0, updated_at=T0,
        )  # fmt: skip
        await store.apply(Changes([put(schedule(), cursor=T0 + MINUTE)], rows=[stretch]))
        assert len(await rows(store)) == 2
        assert (await store.find(tick_key("a", T0))).run.status is Status.SUCCESS

    @stored
    async def test_runs_that_leave_no_ledger_have_no_key(self, store):
        await declare(store, schedule(ledger=False))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        assert await store.find(tick_key("a", T0)) is None
        assert (launch.run.created_at, launch.run.updated_at) == (None, None)
        assert await open_run(store) == launch.run

    @stored
    async def test_a_removed_schedule_takes_its_keys_along(self, store):
        await declare(store, schedule())
        await store.lead("me")
        await pass_at(store, T0)
        await store.apply(Changes(removes=["a"]))
        assert await store.find(tick_key("a", T0)) is None


class ReportContract:
    """A report about a run counts once, and only while the run's row is as the report found it."""

    async def launched(self, store, **policy):
        await declare(store, schedule(**policy))
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        return launch

    @stored
    async def test_a_report_may_overtake_the_answer_of_the_launch(self, store):
        launch = await self.launched(store)
        assert await report(store, launch.run, T0 + 5)
        for answer in (Accepted("late"), Refused(Reason.LAUNCH_REFUSED), Succeeded()):
            assert not await end(store, launch, T0 + 6, answer)
        [row] = await store.ledger("a", None, 10)
        assert (row.status, row.ended_at, row.run_id) == (Status.SUCCESS, T0 + 5, None)
        assert (await store.get("a")).state.succeeded_at == T0 + 5

    @stored
    async def test_a_run_reported_as_started_is_accepted_whatever_its_launch_answers(self, store):
        launch = await self.launched(store, launch_retry=Retry(1000))
        found = launch.run._replace(status=Status.ENQUEUED)
        # An in-process launcher would say STARTED from the beginning.
        assert not await report(store, found, T0 + 5, Status.STARTED)
        await store.report(launch.run, Settlement(launch.run._replace(status=Status.ENQUEUED), keep=True))
        assert await report(store, found, T0 + 5, Status.STARTED, run_id="r 1")
        assert not await end(store, launch, T0 + 6, Unanswered())
        run = await open_run(store)
        assert (run.phase, run.status, run.run_id) == (Phase.ACCEPTED, Status.STARTED, "r 1")

    @stored
    async def test_reports_need_no_leadership(self, store):
        launch = await self.launched(store)
        await store.close()
        await store.open()
        assert await report(store, launch.run, T0 + 5, Status.FAILED, error="exit status 1")
        [row] = await store.ledger("a", None, 10)
        assert (row.status, row.reason, row.detail) == (Status.FAILED, Reason.TASK_FAILED, "exit status 1")
        assert (await store.get("a")).state.failed_at == T0 + 5

    @stored
    async def test_a_report_counts_once(self, store):
        launch = await self.launched(store)
        assert await report(store, launch.run, T0 + 5)
        assert not await report(store, launch.run, T0 + 6, Status.FAILED)
        assert await rows(store) == [(0, "SUCCESS", "ended")]

    @stored
    async def test_a_report_on_a_run_that_moved_on_is_left_out(self, store):
        launch = await self.launched(store)
        await end(store, launch, T0 + 1, Accepted("r"))
        assert not await report(store, launch.run, T0 + 5)
        assert await report(store, await open_run(store), T0 + 5)
        gone = launch.run._replace(schedule_id="gone")
        assert not await store.report(
            gone, Settlement(hear(gone, Report(Status.SUCCESS), Policy(), T0), keep=True)
        )

    @stored
    async def test_a_report_ends_a_run_that_waits_to_be_tried_again(self, store):
        launch = await self.launched(store, launch_retry=Retry(1000))
        await end(store, launch, T0 + 1, Unanswered("timeout"))
        assert await report(store, await open_run(store), T0 + 5)
        assert (await store.get("a")).runs == ()
        assert await rows(store) == [(0, "SUCCESS", "ended")]

    @stored
    async def test_a_report_wakes_the_schedules_that_wait_for_its_run(self, store):
        await declare(store, schedule("a", Every(MINUTE)), schedule("b", Cron.parse("14 22 * * *")))
        await store.lead("me")
        a, b = await pass_at(store, T0)
        await report(store, a.run, T0 + 7)
        assert await due_at(store, T0 + 7) == ["a"]
        await report(store, b.run, T0 + 7)
        assert await wake_of(store, "b") == T0 + 24 * 60 * MINUTE

    @stored
    async def test_a_move_made_before_a_report_is_left_out(self, store):
        launch = await self.launched(store, run_timeout=MINUTE)
        before = await store.get("a")
        await report(store, launch.run, T0 + 5)
        assert (await store.get("a")).version != before.version

    @stored
    async def test_without_a_ledger_a_report_ends_the_row(self, store):
        launch = await self.launched(store, ledger=False)
        settlement = ending(launch, T0 + 5)
        assert await store.report(launch.run, settlement)
        assert await rows(store) == []
        assert (await store.get("a")).state.succeeded_at == T0 + 5


class PageContract:
    """Lists are read in pages, by id; and the newest rows of all."""

    @stored
    async def test_schedules_are_read_in_pages(self, store):
        ids = [f"s{n:02}" for n in range(7)]
        await declare(store, *map(schedule, reversed(ids)))
        pages = [["s00", "s01", "s02"], ["s03", "s04", "s05"], ["s06"], []]
        after = ""
        for expected in pages:
            page = await store.page(after, 3)
            assert [due.schedule.id for due in page] == expected
            after = page[-1].schedule.id if page else after
        assert await store.page("", 10) == [*reversed(await store.every())]

    @stored
    async def test_some_schedules_are_read_by_their_ids(self, store):
        await declare(store, *map(schedule, "dbac"))
        await store.lead("me")
        await pass_at(store, T0)
        assert [due.schedule.id for due in await store.some(["c", "a", "none", "c"])] == ["a", "c"]
        assert await store.some(["b"]) == [await store.get("b")]
        assert await store.some([]) == []

    @stored
    async def test_the_newest_rows_of_all_schedules_come_first(self, store):
        await declare(store, schedule("a"), schedule("b", paused=True))
        await store.lead("me")
        [a] = await pass_at(store, T0)
        await end(store, a, T0)
        await pass_at(store, T0 + MINUTE)
        recent = await store.recent(10)
        assert [(run.schedule_id, (run.run_at - T0) // MINUTE) for run in recent] == [
            ("a", 1),
            ("b", 0),
            ("a", 0),
        ]
        assert await store.recent(1) == recent[:1]

    @stored
    async def test_the_last_pruned_tick_is_reported(self, store):
        await declare(store, schedule())
        assert (await store.get("a")).pruned_until == 0
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        await end(store, launch, T0)
        await store.prune(T0 + MINUTE, Retention(0, 0))
        [due] = await store.page("", 1)
        assert due.pruned_until == (await store.get("a")).pruned_until == T0


class NoteContract:
    """Notes are kept beside the schedules, and go with them."""

    @stored
    async def test_notes_are_read_back(self, store):
        await declare(store, schedule("a"), schedule("b"))
        assert await store.notes(["a", "b", "c"]) == {}
        notes = [("a", Note(T0, "maintenance, é日", T0 - 1, "ada é日")), ("c", Note(1)), ("b", Note(T0 + 1))]
        await store.apply(Changes(notes=notes))
        assert await store.notes(["a", "b", "c"]) == {
            "a": Note(T0, "maintenance, é日", T0 - 1, "ada é日"),
            "b": Note(T0 + 1),
        }
        await store.apply(Changes([put(schedule("a"))], notes=[("a", Note(T0 + 2))]))
        assert await store.notes(["a"]) == {"a": Note(T0 + 2)}

    @stored
    async def test_a_note_comes_with_the_schedule_it_is_about(self, store):
        await store.apply(Changes([put(schedule("a"))], notes=[("a", Note(T0, "new"))]))
        assert await store.notes(["a"]) == {"a": Note(T0, "new")}
        await store.apply(Changes(removes=["a"]))
        await declare(store, schedule("a"))
        assert await store.notes(["a"]) == {}

    @stored
    async def test_workflows_are_kept_by_id_and_version(self, store):
        assert await store.load_workflow("w", 1) is None
        await store.apply(Changes(workflows=[PutWorkflow(workflow(1)), PutWorkflow(workflow(2))]))
        replaced = workflow(1, '{"a":"é日"}', at=T0 + 1)
        await store.apply(Changes(workflows=[PutWorkflow(replaced, '{"a":1}')]))
        assert [await store.load_workflow("w", n) for n in (1, 2, 3)] == [replaced, workflow(2), None]
        assert [await store.workflow_owner(id_) for id_ in ("w", "v")] == ["ada", None]

    @stored
    async def test_a_workflow_that_is_not_as_expected_stops_all_that_is_written_with_it(self, store):
        await store.apply(Changes(workflows=[PutWorkflow(workflow(1))]))
        for wanted in (
            PutWorkflow(workflow(1, '{"a":2}')),
            PutWorkflow(workflow(1, '{"a":2}'), '{"a":3}'),
            PutWorkflow(workflow(2), '{"a":1}'),
            PutWorkflow(workflow(2, owner="bob")),
        ):
            with pytest.raises(OvertakenError):
                await store.apply(Changes([put(schedule("a"))], workflows=[wanted]))
        assert await store.every() == []
        assert [await store.load_workflow("w", n) for n in (1, 2)] == [workflow(1), None]

    @stored
    async def test_workflows_are_listed_and_deleted(self, store):
        stored = [workflow(2), workflow(10), workflow(1, '{"a":"é"}', owner="bob", id_="v")]
        await store.apply(Changes(workflows=[PutWorkflow(each) for each in stored]))
        bobs, second, tenth = (
            WorkflowEntry("v", 1, "bob", 10, T0),
            WorkflowEntry("w", 2, "ada", 7, T0),
            WorkflowEntry("w", 10, "ada", 8, T0),
        )
        assert await store.workflows(("", -1), 9) == [bobs, second, tenth]
        assert await store.workflows(("v", 1), 1) == [second]
        assert await store.workflows(("w", 2), 9) == [tenth]
        assert await store.workflows(("", -1), 9, "bob") == [bobs]
        assert [await store.delete_workflow("w", 2) for _ in range(2)] == [True, False]
        assert await store.workflows(("", -1), 9, "ada") == [tenth]


class RunQueryContract:
    """The runs of all schedules are found by what became of them, page by page."""

    async def filled(self, store):
        """Three minutely ticks of `a` (ada) and `b` (bob); those of `b` failed."""
        tasks = {
            id_: Task("workflow", json.dumps({"user_id": user})) for id_, user in (("a", "ada"), ("b", "bob"))
        }
        await declare(store, *(schedule(id_)._replace(task=task) for id_, task in tasks.items()))
        await store.lead("me")
        for minute in range(3):
            now = T0 + minute * MINUTE
            for launch in await pass_at(store, now):
                outcome = Refused(Reason.LAUNCH_REFUSED) if launch.schedule.id == "b" else Succeeded()
                await end(store, launch, now + 1, outcome)

    @staticmethod
    async def found(store, after=None, limit=100, oldest_first=False, **wanted):
        page = await store.runs(RunFilter(**wanted), after, limit, oldest_first)
        return [f"{run.schedule_id}{(run.run_at - T0) // MINUTE}" for run in page.runs], page.more_after

    @stored
    async def test_runs_are_found_by_every_filter(self, store):
        await self.filled(store)
        for wanted, runs in (
            ({}, "b2 a2 b1 a1 b0 a0"),
            ({"status": "FAILED"}, "b2 b1 b0"),
            ({"reason": "launch_refused"}, "b2 b1 b0"),
            ({"schedule_id": "a"}, "a2 a1 a0"),
            ({"owner": "ada"}, "a2 a1 a0"),
            ({"since": T0 + MINUTE}, "b2 a2 b1 a1"),
            ({"until": T0 + MINUTE}, "b0 a0"),
            ({"since": T0 + MINUTE, "until": T0 + 2 * MINUTE, "status": "SUCCESS"}, "a1"),
            ({"status": "SKIPPED"}, ""),
            ({"owner": "eve"}, ""),
            ({"schedule_id": "nobody"}, ""),
            ({"schedule_id": "b", "status": "FAILED", "until": T0 + 2 * MINUTE}, "b1 b0"),
            ({"schedule_id": "a", "owner": "bob"}, ""),
        ):
            assert await self.found(store, **wanted) == (runs.split(), None), wanted
            assert await self.found(store, oldest_first=True, **wanted) == (runs.split()[::-1], None), wanted

    @stored
    async def test_runs_are_found_by_their_trigger(self, store):
        await self.filled(store)
        past = Run(
            "a", T0 - MINUTE, "schedule", Status.ENQUEUED, Phase.DELAYED, T0, backfill=Overlap.QUEUE,
            created_at=T0, updated_at=T0,
        )  # fmt: skip
        due = await store.get("a")
        edit = put(due.schedule, cursor=due.state.cursor)._replace(version=due.version)
        await store.apply(Changes([edit], rows=[past, manual(T0 + 3 * MINUTE)]))
        for trigger, runs in (("schedule", "a2 a1 a0"), ("manual", "a3"), ("backfill", "a-1")):
            for more in ({"schedule_id": "a"}, {"owner": "ada"}):
                assert await self.found(store, trigger=trigger, **more) == (runs.split(), None)

    @stored
    async def test_starts_outside_the_ledger_are_remembered_for_a_while(self, store):
        await store.note_start("k", T0, keep=1000)
        assert [await store.has_start(key) for key in ("k", "j")] == [True, False]
        await store.note_start("j", T0 + 1001, keep=1000)
        assert [await store.has_start(key) for key in ("k", "j")] == [False, True]

    @stored
    async def test_open_runs_are_counted_by_phase(self, store):
        await declare(store, schedule("a"), schedule("b"))
        await store.lead("me")
        launch, _ = await pass_at(store, T0)
        assert await store.open_counts() == {"launched": 2}
        await end(store, launch, T0 + 1)
        assert await store.open_counts() == {"launched": 1}

    @stored
    async def test_runs_come_page_by_page(self, store):
        await self.filled(store)
        first, after = await self.found(store, limit=4)
        rest, end_ = await self.found(store, after, limit=4)
        assert (first, rest, end_) == (["b2", "a2", "b1", "a1"], ["b0", "a0"], None)
        assert await self.found(store, after, limit=4, until=T0 + MINUTE) == (["b0", "a0"], None)

    @stored
    async def test_pages_of_one_run_each_are_the_whole_list(self, store):
        await self.filled(store)
        for wanted in ({}, {"schedule_id": "a"}, {"status": "FAILED"}, {"oldest_first": True}):
            whole, _ = await self.found(store, **wanted)
            seen, after = await self.found(store, limit=1, **wanted)
            while after is not None:
                more, after = await self.found(store, after, limit=1, **wanted)
                seen += more
            assert seen == whole, wanted


class DropContract:
    """Rows of skipped ticks can be taken apart, as they are or not at all."""

    async def skipped(self, store):
        await declare(store, schedule(paused=True))
        await store.lead("me")
        await pass_at(store, T0 + 2 * MINUTE)
        [row] = await store.ledger("a", None, 10)
        return row

    @stored
    async def test_a_stretch_is_replaced_by_its_parts(self, store):
        row = await self.skipped(store)
        due = await store.get("a")
        first = row._replace(run_until=None, ticks=1)
        last = first._replace(run_at=T0 + 2 * MINUTE, fire_at=T0 + 2 * MINUTE)
        run = Run(
            "a", T0 + MINUTE, "schedule", Status.ENQUEUED, Phase.DELAYED, T0 + 9, backfill=Overlap.QUEUE,
            created_at=T0 + 9, updated_at=T0 + 9,
        )  # fmt: skip
        edit = put(due.schedule, cursor=due.state.cursor)._replace(version=due.version)
        await store.apply(Changes([edit], rows=[run, first, last], drops=[row]))
        assert await store.ledger("a", None, 10) == [last, run, first]
        assert (await store.find(tick_key("a", T0 + MINUTE))).run == run
        assert (await store.get("a")).state.skipped is None

    @stored
    async def test_a_stretch_that_has_grown_is_not_dropped_nor_anything_written(self, store):
        row = await self.skipped(store)
        await pass_at(store, T0 + 3 * MINUTE)
        before = await store.every()
        with pytest.raises(OvertakenError):
            await store.apply(Changes([put(schedule(grace=1))], drops=[row]))
        assert await store.every() == before
        assert before[0].state.skipped == SkippedRange(T0, Reason.PAUSED, 4)

    @stored
    async def test_a_row_of_a_run_is_never_dropped(self, store):
        await declare(store, schedule())
        await store.lead("me")
        [launch] = await pass_at(store, T0)
        claimed = launch.run._replace(status=Status.SKIPPED, phase=Phase.ENDED, attempt=0)
        with pytest.raises(OvertakenError):
            await store.apply(Changes([put(schedule())], drops=[claimed]))
        assert await rows(store) == [(0, "STARTED", "launched")]


class ServiceContract(
    KeyContract, ReportContract, PageContract, NoteContract, DropContract, RunQueryContract
):
    """All of it."""
