"""The HTTP listener of a fleet: tokens, signed webhooks, and what is refused."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from typing import NamedTuple

import aiohttp
import pytest

from dutiful.errors import InvalidArgumentError
from dutiful.fleet.control.answers import Target
from dutiful.fleet.control.http import Secrets, bound, metrics_of, secrets_from, server_of
from dutiful.fleet.errors import ConcurrencyLimitError, ScheduleNotFoundError

TOKEN, SECRET = "t" * 32, "s" * 32
BEARER = {"Authorization": f"Bearer {TOKEN}"}
AGENT = {"name": "a", "running": 1, "schedules": 2, "failing": 1, "done": 5, "failed": 3, "no_work": 0}
STATUS = {"status": "running", "stall": None, "check_count": 9, "agents": [AGENT]}


class Fleet:
    """Answers as a daemon does, and remembers what was triggered."""

    def __init__(self):
        self.triggered, self.stall, self.full, self.disabled = [], None, False, False

    async def status(self):
        return {**STATUS, "stall": self.stall}

    async def schedules(self, agent):
        return [{"agent": agent or "a", "schedule": "hook"}]

    async def history(self, agent, schedule, limit, *, failed):
        self.target(agent, schedule)
        return [{"run": 7, "limit": limit, "failed": failed}]

    async def output(self, agent, schedule, number):
        self.target(agent, schedule)
        return {"run": 7, "output": "<b>hi</b>"} if number in (None, 7) else None

    def target(self, agent, schedule):
        if (agent, schedule) == ("a", "nightly"):
            return Target("cron", "Sum up.")
        if (agent, schedule) != ("a", "hook"):
            raise ScheduleNotFoundError(agent, schedule, ["hook"])
        return Target("webhook", "Look at this.", self.disabled)

    async def run(self, agent, schedule, prompt):
        self.target(agent, schedule)
        if self.full:
            raise ConcurrencyLimitError(agent, 1, 1)
        self.triggered.append((agent, schedule, prompt))
        return {"agent": agent, "schedule": schedule, "run_at": 1}


class Answer(NamedTuple):
    status_code: int
    text: str

    def json(self):
        return json.loads(self.text)


class Client:
    """Sends requests and reads the whole answers."""

    def __init__(self, session):
        self._session = session

    async def post(self, path, headers=None, content=b"", json=None):
        sent = {"json": json} if json is not None else {"data": content}
        async with self._session.post(path, headers=headers, **sent) as answer:
            return Answer(answer.status, await answer.text())

    async def get(self, path, headers=None):
        async with self._session.get(path, headers=headers) as answer:
            return Answer(answer.status, await answer.text())


def story(steps, fleet=None, secrets=Secrets(TOKEN, SECRET)):  # noqa: B008
    fleet = fleet or Fleet()

    async def play():
        listening = bound("127.0.0.1:0")
        server = server_of(fleet, listening, secrets, logging.getLogger("tests.fleet"))
        serving = asyncio.create_task(server.answer())
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            async with aiohttp.ClientSession(url) as session:
                return await steps(Client(session))
        finally:
            server.stop()
            await serving

    return asyncio.run(play()), fleet


def signed(body, secret=SECRET):
    return {"X-Hub-Signature-256": "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()}


def test_a_trigger_with_the_token_runs_the_schedule_with_its_prompt():
    async def steps(client):
        plain = await client.post("/agents/a/schedules/hook/trigger", headers=BEARER)
        prompted = await client.post(
            "/agents/a/schedules/nightly/trigger", headers=BEARER, json={"prompt": "Now."}
        )
        return plain.status_code, plain.json(), prompted.status_code

    answers, fleet = story(steps)
    assert answers == (202, {"agent": "a", "schedule": "hook", "run_at": 1}, 202)
    assert fleet.triggered == [("a", "hook", None), ("a", "nightly", "Now.")]


def test_a_signed_webhook_runs_a_webhook_schedule_with_its_event():
    body = b'{"action": "opened"}'

    async def steps(client):
        headers = {**signed(body), "X-GitHub-Event": "issues"}
        return (
            await client.post("/agents/a/schedules/hook/trigger", headers=headers, content=body)
        ).status_code

    status, fleet = story(steps)
    assert status == 202
    expected = 'Look at this.\n\n## Webhook: issues\n\n{\n  "action": "opened"\n}'
    assert fleet.triggered == [("a", "hook", expected)]


@pytest.mark.parametrize(
    ("path", "headers", "body", "status", "code"),
    [
        ("hook", {}, b"", 401, "token_missing"),
        ("hook", {"Authorization": "Bearer " + "x" * 32}, b"", 401, "token_unknown"),
        ("hook", signed(b"{}", "other" * 8), b"{}", 401, "bad_signature"),
        ("hook", signed(b"{}"), b'{"changed": 1}', 401, "bad_signature"),
        ("nightly", signed(b"{}"), b"{}", 401, "bad_signature"),
        ("nope", BEARER, b"", 404, "schedule_not_found"),
        ("hook", BEARER, b"{", 400, "invalid_json"),
        ("hook", BEARER, b'{"prompt": "a", "prompt": "b"}', 400, "invalid_json"),
        ("hook", BEARER, b'{"promt": "a"}', 422, "invalid_request"),
        ("hook", BEARER, b'{"prompt": 5}', 422, "invalid_request"),
        ("hook", BEARER, b"[1]", 422, "invalid_request"),
        ("hook", BEARER, b'"Go."', 422, "invalid_request"),
        ("hook", BEARER, b'{"prompt": ""}', 422, "invalid_request"),
        ("hook", BEARER, b"x" * 70_000, 413, "too_large"),
        ("nope", signed(b"{}"), b"{}", 404, "schedule_not_found"),
    ],
    ids=str,
)
def test_a_trigger_that_is_refused_runs_nothing(path, headers, body, status, code):
    async def steps(client):
        answer = await client.post(f"/agents/a/schedules/{path}/trigger", headers=headers, content=body)
        return answer.status_code, answer.json()["error"]["code"]

    answered, fleet = story(steps)
    assert answered[0] == status
    assert code in answered[1]
    assert fleet.triggered == []


def test_a_webhook_with_a_bad_signature_learns_no_name_of_the_fleet():
    async def steps(client):
        paths = "/agents/a/schedules/hook/trigger", "/agents/x/schedules/y/trigger"
        return [(await client.post(path, headers=signed(b"", "guess"))).text for path in paths]

    known, unknown = story(steps)[0]
    assert known == unknown
    assert "bad_signature" in unknown


def test_a_key_that_is_unknown_is_reported_with_the_one_that_was_meant():
    async def steps(client):
        place = "/agents/a/schedules/hook/trigger"
        answers = [
            await client.post(place, headers=BEARER, content=body) for body in (b'{"promt": "a"}', b"[1]")
        ]
        return [answer.json()["error"]["message"] for answer in answers]

    assert story(steps)[0] == [
        "Invalid request: promt: there is no such key; did you mean 'prompt'?",
        "Invalid request: body: must be a JSON object",
    ]


def test_a_query_with_an_unknown_name_is_refused():
    runs = "/agents/a/schedules/hook/runs"

    async def steps(client):
        paths = (
            "/schedules?agnt=b",
            f"{runs}?limt=1",
            f"{runs}?limit=0",
            "/agents/a/schedules/hook/output?rn=7",
        )
        answers = [await client.get(path, headers=BEARER) for path in paths]
        return [(answer.status_code, answer.json()["error"]["message"]) for answer in answers]

    assert story(steps)[0] == [
        (422, "Invalid request: agnt: there is no such key; did you mean 'agent'?"),
        (422, "Invalid request: limt: there is no such key; did you mean 'limit'?"),
        (422, "Invalid request: limit: must be 1 or more"),
        (422, "Invalid request: rn: there is no such key; did you mean 'run'?"),
    ]


def test_an_event_too_long_for_a_prompt_says_where_it_was_cut():
    body = json.dumps([*range(9000)]).encode()

    async def steps(client):
        await client.post("/agents/a/schedules/hook/trigger", headers=signed(body), content=body)

    [(_, _, prompt)] = story(steps)[1].triggered
    assert (len(prompt), prompt.splitlines()[-1]) == (60_000, "[the rest of the event was left out]")


def test_a_disabled_schedule_takes_no_webhooks_and_an_operator_may_still_run_it():
    fleet = Fleet()
    fleet.disabled = True

    async def steps(client):
        place = "/agents/a/schedules/hook/trigger"
        hooked = await client.post(place, headers=signed(b"{}"), content=b"{}")
        asked = await client.post(place, headers=BEARER)
        return hooked.status_code, hooked.json()["error"]["code"], asked.status_code

    assert story(steps, fleet)[0] == (409, "schedule_disabled", 202)
    assert fleet.triggered == [("a", "hook", None)]


def test_an_agent_without_a_free_slot_is_a_conflict():
    fleet = Fleet()
    fleet.full = True

    async def steps(client):
        answer = await client.post("/agents/a/schedules/hook/trigger", headers=BEARER)
        return answer.status_code, answer.json()["error"]["code"]

    assert story(steps, fleet)[0] == (409, "concurrency_limit")


def test_signatures_count_for_nothing_without_a_webhook_secret():
    async def steps(client):
        return (
            await client.post("/agents/a/schedules/hook/trigger", headers=signed(b"{}", ""), content=b"{}")
        ).json()["error"]["code"]

    assert story(steps, secrets=Secrets(TOKEN, None))[0] == "token_missing"


def test_health_needs_no_token_and_tells_of_a_stall_and_the_rest_needs_one():
    fleet = Fleet()

    async def steps(client):
        well = (await client.get("/healthz")).status_code
        fleet.stall = "the disk is full"
        ill = (await client.get("/healthz")).status_code
        closed = [(await client.get(path)).status_code for path in ("/status", "/schedules", "/metrics")]
        opened = [(await client.get(path, headers=BEARER)).status_code for path in ("/status", "/schedules")]
        return well, ill, closed, opened

    assert story(steps, fleet)[0] == (200, 503, [401] * 3, [200] * 2)


def test_runs_and_their_output_can_be_read():
    async def steps(client):
        place = "/agents/a/schedules/hook"
        answers = [
            await client.get(f"{place}/{path}", headers=BEARER)
            for path in ("runs?limit=5&failed=true", "output", "output?run=7", "output?run=8", "runs?limit=0")
        ]
        missing = await client.get("/agents/a/schedules/none/output", headers=BEARER)
        refused = await client.get(f"{place}/output")
        return [(each.status_code, each.json()) for each in answers], missing.status_code, refused.status_code

    (answers, missing, refused), _ = story(steps)
    assert answers[0] == (200, {"runs": [{"run": 7, "limit": 5, "failed": True}]})
    assert answers[1] == answers[2] == (200, {"run": 7, "output": "<b>hi</b>"})
    assert (answers[3][0], answers[3][1]["error"]["code"]) == (404, "no_output")
    assert (answers[4][0], missing, refused) == (422, 404, 401)


def test_the_metrics_are_what_the_status_says():
    assert metrics_of({**STATUS, "stall": "no"}).splitlines() == [
        "# TYPE fleet_runs_total counter",
        'fleet_runs_total{agent="a",outcome="done"} 5',
        'fleet_runs_total{agent="a",outcome="failed"} 3',
        'fleet_runs_total{agent="a",outcome="no_work"} 0',
        "# TYPE fleet_jobs_running gauge",
        'fleet_jobs_running{agent="a"} 1',
        "# TYPE fleet_schedules gauge",
        'fleet_schedules{agent="a"} 2',
        "# TYPE fleet_schedules_failing gauge",
        'fleet_schedules_failing{agent="a"} 1',
        "# TYPE fleet_checks_total counter",
        "fleet_checks_total 9",
        "# TYPE fleet_stalled gauge",
        "fleet_stalled 1",
    ]


@pytest.mark.parametrize(
    "environ",
    [{}, {"DUTIFUL_FLEET_TOKEN": "short"}, {"DUTIFUL_FLEET_WEBHOOK_SECRET": "with blanks in it, long"}],
)
def test_no_or_a_weak_secret_is_refused_without_showing_it(environ):
    with pytest.raises(InvalidArgumentError) as refused:
        secrets_from(environ)
    assert not [value for value in environ.values() if value in str(refused.value)]


@pytest.mark.parametrize("address", ["8788", "127.0.0.1", "127.0.0.1:99999", "host:port", ""])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(InvalidArgumentError, match="HOST:PORT"):
        bound(address)


def test_json_answers_are_json():
    async def steps(client):
        return json.loads((await client.get("/schedules?agent=b", headers=BEARER)).text)

    assert story(steps)[0] == {"schedules": [{"agent": "b", "schedule": "hook"}]}
