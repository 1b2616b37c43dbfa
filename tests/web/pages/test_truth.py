"""What the pages say is what the API says: next ticks, verdicts, the account, and the effect of an edit."""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from tests.web.pages.html import page

from dutiful import Cron
from dutiful.web.pages.difference import compare

ZONES = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Kiritimati",
]
NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def random_cron(chance: random.Random) -> str:
    minute = chance.choice(["*/5", "*/15", "0", str(chance.randrange(60)), "7,37"])
    hour = chance.choice(["*", "*/2", str(chance.randrange(24)), "9-17"])
    day = chance.choice(["*", "*", "*", "1", "15"])
    weekday = chance.choice(["*", "*", "1-5", "0,6"]) if day == "*" else "*"
    return f"{minute} {hour} {day} * {weekday}"


@pytest.fixture
def many(service):
    chance = random.Random(16)
    common = {"workflow_id": "report", "version": 1, "user_id": "ada"}
    wanted = [
        {
            **common,
            "schedule_id": f"s{n:03}",
            "cron_expr": random_cron(chance),
            "timezone": chance.choice(ZONES),
        }
        for n in range(200)
    ]
    service.post("/schedules/bulk", wanted)
    service.advance(3 * 3600)
    return service


def instants(html: str) -> list[str]:
    return re.findall(r'<time datetime="([^"]+)"', html)


def test_the_list_names_the_next_tick_of_two_hundred_schedules(many):
    told, path = {}, "/ui/schedules"
    while path:
        html = many.client.get(path).text
        for entry in re.findall(r'<li data-key="(s\d+)">(.*?)</li>', html, re.DOTALL):
            told[entry[0]] = instants(entry[1].partition('<div class="in">')[2])
        more = re.search(r'<a href="([^"]+)" rel="next"', html)
        path = more and more[1].replace("&amp;", "&")
    listed, cursor = {}, None
    while True:
        answer = many.get("/schedules", limit=100, **({"cursor": cursor} if cursor else {}))
        listed |= {view["schedule_id"]: [view["next_run_at"]] for view in answer["schedules"]}
        if (cursor := answer["next_cursor"]) is None:
            break
    assert len(told) == 200
    assert told == listed


def test_the_page_of_a_schedule_agrees_with_the_api(many):
    chance = random.Random(17)
    for number in chance.sample(range(200), 25):
        here = f"/schedules/s{number:03}"
        html = many.client.get(f"/ui{here}").text
        fires = html.partition('<ol class="fires">')[2].partition("</ol>")[0]
        assert instants(fires) == many.get(f"{here}/next", count=6)["preview"], here
        runs = many.get(f"{here}/runs", limit=1000)["runs"]
        counts = Counter(run["status"] for run in runs for _ in range(run["ticks"]))
        account = f"{counts['SUCCESS']:,} ran, {counts['FAILED']:,} failed, {counts['SKIPPED']:,} skipped"
        assert account in html, here
        if runs:
            verdict = many.get(f"{here}/explain", at=runs[0]["run_at"])
            assert verdict["run"]["idempotency_key"] in html, here


def test_the_account_of_the_overview_is_that_of_the_ledger(many):
    runs = many.get("/runs", limit=1000)["runs"]
    shown = page(many).text
    assert f"{len(runs):,} were due in 24 h {len(runs):,} ran" in shown
    assert "0 unaccounted" in shown


@pytest.mark.parametrize("seed", range(40))
def test_the_effect_of_an_edit_is_the_difference_of_the_sets_of_fire_times(seed):
    chance = random.Random(seed)
    old, new = (
        Cron.parse(random_cron(chance), "standard", chance.choice(ZONES), dst="vixie") for _ in range(2)
    )
    found = compare(old, new, NOW)
    begin, end = NOW + timedelta(seconds=1), NOW + found.within
    before, after = ({at.astimezone(UTC) for at in cron.between(begin, end)} for cron in (old, new))
    assert (found.before, found.after) == (len(before), len(after))
    assert (found.moved + found.removed, found.moved + found.added) == (
        len(before - after),
        len(after - before),
    )
