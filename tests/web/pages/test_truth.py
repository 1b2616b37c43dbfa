"""What the pages say is what the API says: next ticks, verdicts, the account, and the effect of an edit."""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests import oracles
from tests.web.pages.html import page
from tests.web.running import SCHEDULE, running

from dutiful import Cron
from dutiful.web.pages.fire_time_changes import compare

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


@pytest.fixture(scope="module")
def many():
    """A service with two hundred schedules, of which some fail, some hang and some are paused."""
    chance = random.Random(16)
    with running(None) as service:
        for name, dag in (("report", {}), ("broken", {"fail": "no such table"}), ("hangs", {"hang": True})):
            service.put(f"/workflows/{name}/1", dag)
        wanted = [
            {
                **SCHEDULE,
                "schedule_id": f"s{number:03}",
                "workflow_id": chance.choices(["report", "broken", "hangs"], [7, 2, 1])[0],
                "cron_expr": random_cron(chance),
                "timezone": chance.choice(ZONES),
            }
            for number in range(200)
        ]
        service.post("/schedules/bulk", wanted)
        service.advance(2 * 3600)
        for number in range(0, 200, 9):
            pause = {"schedule_id": f"s{number:03}", "paused": True, "note": "of this test"}
            service.post("/schedules/pause", pause)
        service.advance(3600)
        yield service


def instants(html: str) -> list[str]:
    return re.findall(r'<time datetime="([^"]+)"', html)


def test_the_list_names_the_next_tick_of_two_hundred_schedules(many):
    told, path = {}, "/ui/schedules"
    while path:
        html = many.client.get(path).text
        for entry in re.findall(r'<li>.*?/ui/schedules/(s\d+)">(.*?)</li>', html, re.DOTALL):
            told[entry[0]] = instants(entry[1].partition('<div class="in">')[2])
        more = re.search(r'<a href="([^"]+)" rel="next"', html)
        path = more and more[1].replace("&amp;", "&")
    listed, cursor = {}, None
    while True:
        answer = many.get("/schedules", limit=100, **({"cursor": cursor} if cursor else {}))
        # The list says of a paused schedule that it is paused, and names no tick.
        listed |= {
            view["schedule_id"]: [] if view["paused"] else [view["next_run_at"]]
            for view in answer["schedules"]
        }
        if (cursor := answer["next_cursor"]) is None:
            break
    assert len(told) == 200
    assert told == listed


def test_the_pages_of_two_hundred_schedules_agree_with_the_api(many):
    seen = Counter()
    for number in range(200):
        here = f"/schedules/s{number:03}"
        runs = many.get(f"{here}/runs", limit=1000)["runs"]
        asked = f"&at={runs[number % len(runs)]['run_at']}" if runs else ""
        html = many.client.get(f"/ui{here}?range=24h{asked}").text
        fires = html.partition('<ol class="fires">')[2].partition("</ol>")[0]
        assert instants(fires) == many.get(f"{here}/next", count=6)["preview"], here
        counts = Counter(run["status"] for run in runs for _ in range(run["ticks"]))
        account = f"{counts['SUCCESS']:,} ran, {counts['FAILED']:,} failed, {counts['SKIPPED']:,} skipped"
        assert account in html, here
        if runs:
            verdict = many.get(f"{here}/explain", at=runs[number % len(runs)]["run_at"])
            assert told_of(html) == answer_of(verdict), here
            seen[verdict["run"]["reason"] or verdict["run"]["status"]] += 1
    assert {"SUCCESS", "task_failed", "lost_run", "overlap", "paused"} <= seen.keys()


def told_of(html):
    """Return what the panel of the verdict says: the instant, the state and the reason."""
    panel = html.partition('id="why"')[2].partition("</h3>")[0]
    patterns = r'<time datetime="([^"]+)"', r"</svg> ([A-Z ]+)</span>", r'class="reason">(\w+)<'
    found = [re.search(pattern, panel) for pattern in patterns]
    return [None if one is None else one[1] for one in found]


def answer_of(verdict):
    return [verdict["at"], verdict["run"]["status"], verdict["run"]["reason"]]


def test_the_account_of_the_overview_is_that_of_the_ledger(many):
    runs = many.get("/runs", limit=1000)["runs"]
    ticks = Counter(run["status"] for run in runs for _ in range(run["ticks"]))
    due, shown = ticks.total(), page(many).text
    assert f"{due:,} were due in 24 h {ticks['SUCCESS']:,} ran {ticks['FAILED']:,} failed" in shown
    assert "0 unaccounted" in shown


def posix_cron(chance: random.Random, days: str) -> str:
    """Return a text that the oracle can read, with at least 24 and at most 144 ticks on each of its days."""
    minutes = chance.choice(["0,10,20,30,40,50", "0-3", "7,37"])
    return f"{minutes} {chance.choice(['*', '0-11', '1-4,9-17'])} {days}"


def naive(zone: str, text: str, gap: str, fold: str, end: datetime) -> dict[int, date]:
    """Return the fire times of a text until the end by the oracle, each with its local day."""
    tz = ZoneInfo(zone)
    ticks = oracles.ticks(text, tz, int(NOW.timestamp()) + 1, int(end.timestamp()), gap, fold)
    return {at: datetime.fromtimestamp(at, tz).date() for at in ticks}


@pytest.mark.parametrize("seed", range(12))
def test_the_effect_of_an_edit_is_the_difference_of_the_fire_times_of_the_oracle(seed):
    chance = random.Random(seed)
    # So many ticks are compared for a month: clocks change in it in America and Europe.
    days = "* * *", chance.choice(["* * *", "* * 1-5", "1,15 * *", "28-31 * 0,6"])
    sides = [
        (
            chance.choice(ZONES),
            posix_cron(chance, each),
            chance.choice(["skip", "run_after"]),
            chance.choice(["first", "last", "both"]),
        )
        for each in chance.sample(days, 2)
    ]
    found = compare(*(Cron.parse(text, "posix", zone, gap, fold) for zone, text, gap, fold in sides), NOW)
    assert found.within == timedelta(days=30)
    before, after = (naive(*side, NOW + found.within) for side in sides)
    gone = Counter(before[at] for at in before.keys() - after.keys())
    come = Counter(after[at] for at in after.keys() - before.keys())
    moved = (gone & come).total()
    expected = len(before), len(after), moved, come.total() - moved, gone.total() - moved
    assert (found.before, found.after, found.moved, found.added, found.removed) == expected
