"""Jobs that a web server does, sent for real."""

from __future__ import annotations

import asyncio

import pytest
from tests.fleet.requests import ITEM, request
from tests.ports import port_without_listener
from tests.still_loop import run_still, silent_server
from tests.web_server import Reply, serving

from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.run.jobs import executor_for
from dutiful.fleet.types import JobResult


def executor(url: str, **settings):
    return executor_for({"type": "http", "url": url, "allow": ["127.0.0.1"], **settings})


def do(url: str, item=None, **settings) -> JobResult:
    return asyncio.run(executor(url, **settings).execute(request(item=item)))


def answered(reply: Reply, **settings) -> JobResult:
    with serving(lambda _: reply) as web:
        result = do(web.url, **settings)
    return result._replace(error=result.error and result.error.replace(web.url, "URL"))


def test_the_job_is_posted_whole():
    with serving(lambda _: Reply(204)) as web:
        assert do(f"{web.url}/jobs", ITEM, headers={"Authorization": "Bearer t"}) == JobResult(True)
    (asked,) = web.asked
    assert (asked.method, asked.path, asked.headers["authorization"]) == ("POST", "/jobs", "Bearer t")
    assert asked.content == {
        "agent": "scout",
        "schedule": "look",
        "prompt": "Look around.",
        "work_item": {**ITEM._asdict(), "labels": ["bug", "web"]},
    }


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (Reply(200, {"summary": "3 found"}), JobResult(True, "3 found")),
        (Reply(202, {"success": True}), JobResult(True)),
        (Reply(200, {"summary": "\x1b[2Jgone\n"}), JobResult(True, "[2Jgone")),
        (Reply(200, b"fine, thanks"), JobResult(True)),
        (Reply(200, [1, 2]), JobResult(True)),
        (
            Reply(200, {"success": False, "error": "no disk", "summary": "1"}),
            JobResult(False, "1", "no disk"),
        ),
        (Reply(200, {"success": False}), JobResult(False, None, "URL answered without success")),
        (Reply(200, {"success": "yes"}), JobResult(False, None, "URL answered without success")),
        (Reply(200, {"summary": {"a": 1}}), JobResult(True)),
        (Reply(503, b"busy"), JobResult(False, None, "URL answered 503: busy")),
        (Reply(301, b""), JobResult(False, None, "URL answered 301; redirects are not followed")),
        (
            Reply(200, {"summary": "x" * 70_000}),
            JobResult(False, None, "the answer of URL is longer than 65536 bytes"),
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_answer_is_the_result(reply, result):
    assert answered(reply) == result


def test_a_server_that_does_not_answer_is_a_failure():
    async def story():
        async with silent_server(30) as port:
            url = f"http://127.0.0.1:{port}"
            return url, await executor(url, timeout="30s").execute(request())

    url, result = run_still(story())
    assert result == JobResult(False, error=f"no answer from {url}: 30 s have passed")


def test_a_job_that_never_left_did_not_begin():
    with port_without_listener() as port, pytest.raises(JobNotStartedError):
        do(f"http://127.0.0.1:{port}")
    with pytest.raises(JobNotStartedError, match=r"169\.254\.169\.254 is not a public address"):
        do("http://169.254.169.254/latest/meta-data")


def test_without_leave_nothing_is_sent_to_the_loopback():
    with (
        serving(lambda _: Reply()) as web,
        pytest.raises(JobNotStartedError, match="is not a public address"),
    ):
        do(web.url, allow=[])
    assert web.asked == []


def test_secrets_are_in_no_error():
    def echo(asked):
        return Reply(500, f"{asked.headers['authorization']} {asked.headers['x-key']}".encode())

    with serving(echo) as web:
        headers = {"Authorization": "Bearer canary-1", "X-Key": "canary-2"}
        result = do(f"{web.url}/?token=canary-3", headers=headers)
    assert "canary" not in result.error
    assert result.error == f"{web.url} answered 500: *** ***"
