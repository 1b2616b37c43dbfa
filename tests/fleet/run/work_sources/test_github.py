"""GitHub issues as work source, against a server of the same shape."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.fleet.run.work_sources.hub import TOKEN, Hub
from tests.fleet.run.work_sources.story import DONE, FAILED, Desk
from tests.web_server import Reply, serving

from dutiful.fleet.run.work_sources import WorkSourceError, problems_of_work_source
from dutiful.fleet.types import WorkItem
from dutiful.testing import VirtualClock

NOTHING = "no open issue of ada/engine is labelled 'ready'"


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)


def config(url: str, **settings):
    return {"type": "github", "repository": "ada/engine", "api_url": url, "allow": ["127.0.0.1"], **settings}


def play(hub: Hub, story, **settings):
    async def with_clock(url):
        clock = VirtualClock("2026-01-05T12:00:00+00:00")
        return await story(Desk(config(url, **settings), clock))

    with serving(hub.answer) as web:
        hub.url = web.url
        return asyncio.run(with_clock(web.url))


def test_an_issue_is_an_item():
    hub = Hub()
    hub.add("Fix the login", "bug", "ready", "priority: high", body="It fails.\n")
    assert play(hub, Desk.claim) == WorkItem(
        "github-1:1",
        "github",
        "1",
        "Fix the login",
        "It fails.",
        "high",
        ("bug", "priority: high"),
        "https://hub.example/ada/engine/issues/1",
    )
    assert hub.labels() == {1: ["bug", "priority: high", "in-progress"]}


def test_only_open_issues_with_the_label_count_and_no_pull_requests():
    hub = Hub()
    hub.add("closed", "ready", state="closed")
    hub.add("other", "bug")
    hub.add("pull", "ready", pull_request=True)
    hub.add("issue", "ready")

    async def story(desk):
        return (await desk.claim()).title, await desk.claim()

    assert play(hub, story) == ("issue", NOTHING)
    assert hub.labels()[3] == ["ready"]


def test_success_closes_failure_labels_and_release_puts_back():
    hub = Hub()
    for title in ("a", "b", "c"):
        hub.add(title, "ready")

    async def story(desk):
        first, second, third = [await desk.claim() for _ in range(3)]
        await desk.report(first, DONE)
        await desk.report(second, FAILED)
        await desk.release(third)

    play(hub, story)
    assert hub.labels() == {1: [], 2: ["failed"], 3: ["ready"]}
    assert hub.states() == ["closed", "open", "open"]
    assert hub.issues[1]["state_reason"] == "completed"
    assert hub.comments == []


def test_labels_and_comments_are_a_matter_of_taste():
    hub = Hub()
    hub.add("a", "to do")
    hub.add("b", "to do")
    names = {
        "ready_label": "to do",
        "in_progress_label": "doing/now",
        "done_label": "done",
        "failed_label": "oh no",
    }

    async def story(desk):
        await desk.report(await desk.claim(), DONE)
        await desk.report(await desk.claim(), FAILED)

    play(hub, story, **names, comment="true")
    assert hub.labels() == {1: ["done"], 2: ["oh no"]}
    assert hub.states() == ["open", "open"]
    assert hub.comments == [
        (1, "Claimed by scout."),
        (1, "Done: fixed"),
        (2, "Claimed by scout."),
        (2, "Failed: no disk"),
    ]


def test_a_long_list_is_read_page_by_page():
    hub = Hub()
    for number in range(120):
        hub.add(f"pull {number}", "ready", pull_request=True)
    hub.add("issue", "ready")

    async def story(desk):
        return (await desk.claim()).external_id

    assert play(hub, story) == "121"


def test_claimers_at_once_never_take_the_same_issue():
    hub = Hub()
    for number in range(12):
        hub.add(str(number), "ready")

    async def story(desk):
        async def work(mine):
            taken = []
            while not isinstance(item := await mine.claim(), str):
                taken.append(item.external_id)
            return taken

        return await asyncio.gather(*(work(Desk(desk.config)) for _ in range(4)))

    taken = Counter(number for numbers in play(hub, story) for number in numbers)
    assert taken == Counter(str(number) for number in range(1, 13))


def test_an_issue_whose_claimer_was_never_heard_of_again_is_put_back():
    hub = Hub()
    hub.add("old", "in-progress", updated_at="2026-01-05T05:59:00Z")
    hub.add("new", "in-progress", updated_at="2026-01-05T11:00:00Z")

    async def story(desk):
        return (await desk.claim()).title, await desk.claim()

    assert play(hub, story, stale_after="6h") == ("old", NOTHING)
    assert hub.labels() == {1: ["in-progress"], 2: ["in-progress"]}


def test_an_issue_that_is_worked_on_for_long_is_not_taken_for_abandoned():
    hub = Hub()
    hub.add("a", "ready")

    async def story(desk):
        await desk.claim()
        hub.issues[1]["updated_at"] = "2026-01-01T00:00:00Z"
        return await desk.claim()

    assert play(hub, story, stale_after="6h") == NOTHING


def test_a_used_up_rate_limit_is_respected_until_its_end():
    hub = Hub(Reply(403, {"message": "secondary"}, {"Retry-After": "90"}))
    hub.add("a", "ready")

    async def story(desk):
        clock = desk.sources._clock
        told = [await desk.claim(), await desk.claim()]
        await clock.advance(89)
        told.append(await desk.claim())
        await clock.advance(1)
        return told, (await desk.claim()).title

    limited = "work source `github`: the rate limit is used up for 90 s"
    waiting = "the rate limit of GitHub is used up until 12:01:30 UTC"
    assert play(hub, story) == ([limited, waiting, waiting], "a")


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        (Reply(429), 60),
        (Reply(429, headers={"Retry-After": "7"}), 7),
        (Reply(403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767614460"}), 60),
        (Reply(403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "5"}), 1),
    ],
    ids=str,
)
def test_a_rate_limit_has_many_forms(reply, seconds):
    assert play(Hub(reply), Desk.claim) == f"work source `github`: the rate limit is used up for {seconds} s"


def test_an_outcome_waits_for_the_end_of_a_short_limit():
    hub = Hub()
    hub.add("a", "ready")

    async def story(desk):
        item = await desk.claim()
        hub.refusals += [Reply(429, headers={"Retry-After": "30"})] * 2
        reporting = asyncio.create_task(desk.report(item, DONE))
        clock = desk.sources._clock
        await clock.advance(59)
        assert not reporting.done()
        await clock.advance(1)
        await reporting

    play(hub, story)
    assert hub.states() == ["closed"]


def test_an_outcome_does_not_wait_for_ever():
    hub = Hub()
    hub.add("a", "ready")

    async def story(desk):
        item = await desk.claim()
        hub.refusals.append(Reply(429, headers={"Retry-After": "3600"}))
        with pytest.raises(WorkSourceError, match="the rate limit is used up for 3600 s"):
            await desk.report(item, DONE)

    play(hub, story)


def test_an_issue_that_cannot_be_labelled_is_given_back():
    hub = Hub()
    hub.add("a", "ready")

    async def story(desk):
        original = hub._answer

        def refuse(asked):
            is_claim = asked.method == "POST" and asked.content == {"labels": ["in-progress"]}
            return Reply(422, {"message": "Validation Failed"}) if is_claim else original(asked)

        hub._answer = refuse
        with pytest.raises(WorkSourceError, match="answered 422"):
            await desk.claim()

    play(hub, story)
    assert hub.labels() == {1: ["ready"]}


def test_a_wrong_token_is_an_error_that_does_not_show_it(monkeypatch):
    monkeypatch.setenv("OTHER", "canary-1")
    with pytest.raises(WorkSourceError) as caught:
        play(Hub(), Desk.claim, token_env="OTHER")
    assert "answered 401" in str(caught.value)
    assert "canary-1" not in str(caught.value)


@pytest.mark.parametrize("value", ["", "with space", "line\nbreak"])
def test_a_variable_without_token_is_an_error(monkeypatch, value):
    monkeypatch.setenv("OTHER", value)
    with pytest.raises(WorkSourceError, match="the environment variable OTHER holds no token"):
        play(Hub(), Desk.claim, token_env="OTHER")


def test_a_repository_that_is_not_there_is_an_error():
    with pytest.raises(WorkSourceError, match=r"GET /repos/ada/absent/issues: .* answered 404"):
        play(Hub(), Desk.claim, repository="ada/absent")


@pytest.mark.parametrize("name", ["engine", "ada/engine/x", "ada/../x", "a b/c", "", 5, "ada/en?gine"])
def test_a_repository_has_an_owner_and_a_name(name):
    (problem,) = problems_of_work_source({"type": "github", "repository": name})
    assert (problem.path, problem.message) == (("repository",), "must be OWNER/NAME")
