"""A web service as work source, on the loopback."""

from __future__ import annotations

import pytest
from tests.fleet.run.work_sources.story import DONE, FAILED, Desk, play
from tests.web_server import Reply, serving

from dutiful.fleet.errors import WorkSourceError
from dutiful.fleet.run.work_sources import problems_of_work_source
from dutiful.fleet.types import WorkItem

ITEM = {
    "id": "a/7",
    "title": "Fix it",
    "description": "Soon.",
    "priority": 2,
    "labels": ["bug"],
    "url": "https://x",
}


def config(web, **settings):
    return {"type": "http", "url": f"{web.url}/queue/", "allow": ["127.0.0.1"], **settings}


def claimed(reply: Reply):
    with serving(lambda _: reply) as web:
        return play(Desk.claim, config(web))


def test_an_item_is_asked_for_and_reported_and_released():
    async def story(desk):
        first = await desk.claim()
        await desk.report(first, DONE)
        await desk.report(await desk.claim(), FAILED)
        await desk.release(await desk.claim())
        return first

    with serving(lambda asked: Reply(200, ITEM) if asked.method == "GET" else Reply(204)) as web:
        item = play(story, config(web, headers={"X-Key": "k"}))
    assert item == WorkItem("http-1:a/7", "http", "a/7", "Fix it", "Soon.", "2", ("bug",), "https://x")
    assert [(asked.method, asked.path, asked.content) for asked in web.asked if asked.method == "POST"] == [
        ("POST", "/queue/items/a%2F7/outcome", {"success": True, "summary": "fixed", "error": None}),
        ("POST", "/queue/items/a%2F7/outcome", {"success": False, "summary": None, "error": "no disk"}),
        ("POST", "/queue/items/a%2F7/release", {"reason": "changed my mind"}),
    ]
    assert web.asked[0][:2] == ("GET", "/queue/next?agent=scout")
    assert {asked.headers["x-key"] for asked in web.asked} == {"k"}


def test_no_content_is_nothing_to_do():
    assert claimed(Reply(204)).endswith(" has no work")


def test_only_id_and_title_are_needed():
    assert claimed(Reply(200, {"id": 7, "title": "Fix it"})) == WorkItem("http-1:7", "http", "7", "Fix it")


@pytest.mark.parametrize(
    "content", [{}, {"id": 7}, {"title": "x"}, {"id": 7, "title": 8}, [], b"<html>", None], ids=str
)
def test_what_is_no_item_is_an_error(content):
    with pytest.raises(WorkSourceError, match="it needs `id` and `title`"):
        claimed(Reply(200, content))


def test_a_failing_service_is_an_error_without_secrets():
    echo = serving(lambda asked: Reply(500, asked.headers["x-key"].encode()))
    with echo as web, pytest.raises(WorkSourceError) as caught:
        play(Desk.claim, config(web, headers={"X-Key": "canary-9"}))
    assert str(caught.value) == f"work source `http`: {web.url} answered 500: ***"


def test_what_is_not_public_needs_leave():
    with (
        serving(lambda _: Reply(204)) as web,
        pytest.raises(WorkSourceError, match="is not a public address"),
    ):
        play(Desk.claim, config(web, allow=[]))
    assert web.asked == []


def test_an_outcome_that_did_not_arrive_can_be_reported_again():
    answers = iter([Reply(200, ITEM), Reply(500), Reply(204)])

    async def story(desk):
        item = await desk.claim()
        with pytest.raises(WorkSourceError):
            await desk.report(item, DONE)
        await desk.report(item, DONE)

    with serving(lambda _: next(answers)) as web:
        play(story, config(web))
    assert len(web.asked) == 3


def test_a_url_with_a_query_cannot_be_built_upon():
    (problem,) = problems_of_work_source({"type": "http", "url": "https://example.com/?key=canary"})
    assert problem.message == "must have no query: /next and the like are put behind it"
    assert "canary" not in str(problem)
