"""The list of schedules: filter, state and order hold together, and its numbers are those of the filter."""

from __future__ import annotations

import gzip

import pytest
from tests.web.pages.html import page
from tests.web.running import SCHEDULE, running


@pytest.fixture(scope="module")
def fleet():
    """Ten schedules of two teams, of which some fail, hang or are paused, after some minutes."""
    with running(None) as service:
        service.put("/workflows/broken/1", {"fail": "no such table"})
        service.put("/workflows/stuck/1", {"hang": True})
        service.put("/workflows/report/1", {"nodes": []})
        ways = [
            ("job-00", "report", "40 9 * * *", "a"),
            ("job-01", "report", "20 9 * * *", "b"),
            ("job-02", "broken", "* * * * *", "a"),
            ("job-03", "broken", "* * * * *", "b"),
            ("job-04", "stuck", "1 9 * * *", "a"),
            ("job-05", "stuck", "1 9 * * *", "b"),
            ("task-00", "report", "30 9 * * *", "a"),
            ("task-01", "broken", "* * * * *", "a"),
            ("task-02", "stuck", "1 9 * * *", "b"),
            ("task-03", "report", "10 9 * * *", "b"),
        ]
        for name, workflow, cron, team in ways:
            service.upsert(schedule_id=name, workflow_id=workflow, cron_expr=cron, labels={"team": team})
        for name in ("job-00", "job-01", "task-00"):
            service.post("/schedules/pause", {"schedule_id": name, "paused": True})
        service.advance(121)
        yield service


def ids(found):
    return [own["href"].rsplit("/", 1)[1] for own in found.all("a") if own.get("class") == "id"]


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ("state=paused&q=job-0", ["job-00", "job-01"]),
        ("state=paused&q=team=a", ["job-00", "task-00"]),
        ("state=failed&q=team=a", ["job-02", "task-01"]),
        ("state=failed&q=job", ["job-02", "job-03"]),
        ("state=failed&q=workflow:report", []),
        ("state=trouble&q=user:ada", ["job-02", "job-03", "task-01"]),
        ("state=running&q=team=b", ["job-05", "task-02"]),
        ("state=running&q=task", ["task-02"]),
        ("state=running&q=workflow:stuck", ["job-04", "job-05", "task-02"]),
        # Those that are paused come last.
        ("sort=next&q=task", ["task-01", "task-03", "task-02", "task-00"]),
        ("sort=next&q=team=b", ["job-03", "task-03", "job-05", "task-02", "job-01"]),
        ("sort=trouble&q=job", ["job-02", "job-03", "job-00", "job-01", "job-04", "job-05"]),
        ("sort=trouble&state=running", ["job-04", "job-05", "task-02"]),
        ("since=2026-03-02T09:10:00Z&until=2026-03-02T09:11:00Z", ["task-03"]),
        ("until=2026-03-02T09:10:00Z", ["job-02", "job-03", "task-01"]),
        ("q=user:eve", []),
    ],
)
def test_filter_state_and_order_hold_together(fleet, asked, listed):
    assert ids(page(fleet, f"/ui/schedules?{asked}")) == listed


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        ("", "all 10 in trouble 3 failed 3 running 3 paused 3"),
        ("q=team=a", "all 5 in trouble 2 failed 2 running 1 paused 2"),
        ("q=job&state=paused", "all 6 in trouble 2 failed 2 running 2 paused 2"),
        ("q=nothing", "all 0"),
    ],
)
def test_the_numbers_of_the_states_are_those_of_the_filter(fleet, asked, counted):
    assert f"Find {counted} " in page(fleet, f"/ui/schedules?{asked}").text


def test_a_run_in_flight_says_for_how_long_it_has_been_running(fleet):
    assert "running for 1 min" in page(fleet, "/ui/schedules?q=job-04").text


@pytest.mark.parametrize("order", ["id", "next", "trouble"])
@pytest.mark.parametrize("asked", ["q=s", "q=team=a", "state=failed"])
def test_every_order_lists_each_schedule_once_over_its_pages(service, order, asked):
    service.put("/workflows/broken/1", {"fail": "no such table"})
    many = [
        {
            **SCHEDULE,
            "schedule_id": f"s{n:03}",
            "labels": {"team": "a"},
            "workflow_id": "broken",
            "cron_expr": "1 9 * * *" if n % 2 else "30 10 * * *",
        }
        for n in range(121)
    ]
    service.post("/schedules/bulk", many)
    service.advance(61)
    seen, path = [], f"/ui/schedules?{asked}&sort={order}"
    while path:
        found = page(service, path)
        assert len(ids(found)) <= 50
        seen += ids(found)
        path = next((own["href"] for own in found.all("a") if own.get("rel") == "next"), None)
    wanted = {f"s{n:03}" for n in range(121) if n % 2 or asked != "state=failed"}
    assert (len(seen), {*seen}) == (len(wanted), wanted)


def test_the_schedules_of_one_minute_are_all_listed(service):
    service.post("/schedules/bulk", [{**SCHEDULE, "schedule_id": f"s{n:03}"} for n in range(300)])
    service.upsert(schedule_id="sooner", cron_expr="5 9 * * *")
    overview = page(service)
    assert "09:05 sooner" in overview.text
    assert "09:30 300 schedules s000, s001, s002 and 297 more in 30 min" in overview.text
    [link] = [link for link in overview.links if "until=" in link and "/ui/schedules" in link]
    seen = []
    while link:
        found = page(service, link)
        assert "next tick from Mon 2 Mar 09:30 until Mon 2 Mar 09:31 UTC" in found.text
        seen += ids(found)
        link = next((own["href"] for own in found.all("a") if own.get("rel") == "next"), None)
    assert seen == [f"s{n:03}" for n in range(300)]


def test_where_nothing_matches_ids_that_are_spelled_alike_are_named(service):
    for name in ("billing.dunning", "billing.export", "search.index"):
        service.upsert(schedule_id=name)
    found = page(service, "/ui/schedules?q=billing.duning")
    assert "Nothing matches billing.duning. Clear Near: billing.dunning, billing.export" in found.text
    assert "Near:" not in page(service, "/ui/schedules?q=billing&state=paused").text


def test_the_same_list_is_a_link_to_the_api(fleet):
    for asked, link in [
        ("", "/schedules"),
        ("?q=job&state=paused", "/schedules?paused=true&find=job"),
        ("?q=team%3Da", "/schedules?label=team%3Da"),
    ]:
        shown = page(fleet, f"/ui/schedules{asked}")
        assert link in shown.links
        listed = [each["schedule_id"] for each in fleet.client.get(link).json()["schedules"]]
        assert listed == ids(shown)


def test_characters_that_no_id_has_are_left_out_of_a_filter(fleet):
    assert ids(page(fleet, "/ui/schedules?q=task-0%00%0A3")) == ["task-03"]


@pytest.fixture(scope="module")
def full():
    """More than a page of failing schedules with long ids and many labels, and a full history of each."""
    with running(None) as service:
        service.put(
            "/workflows/broken/1", {"fail": "no such table: invoices_2026_03 (sqlite3.OperationalError)"}
        )
        labels = {"team": "billing-platform", "tier": "1", "country": "switzerland", "owner": "ada"}
        many = [
            {
                **SCHEDULE,
                "schedule_id": f"billing.invoices.export-{n:04}",
                "workflow_id": "broken",
                "cron_expr": "* 9-17 * * 1-5",
                "timezone": "America/New_York" if n % 2 else "UTC",
                "labels": labels,
            }
            for n in range(52)
        ]
        service.post("/schedules/bulk", [{**each, "cron_expr": "* * * * *"} for each in many])
        service.advance(21 * 60)
        service.post("/schedules/bulk", many)
        yield service


@pytest.mark.parametrize(
    "path",
    [
        "/ui/schedules",
        "/ui/schedules?state=trouble",
        "/ui/schedules?sort=next",
        "/ui/schedules?q=team%3Dbilling-platform&sort=trouble",
        "/ui/runs",
        "/ui/runs?view=each&status=FAILED",
        "/",
    ],
)
def test_full_pages_of_failures_with_long_ids_and_labels_are_within_their_budget(full, path):
    found = page(full, path)
    sizes = len(found.answer.content), len(gzip.compress(found.answer.content)), len(found.elements)
    assert all(size <= most for size, most in zip(sizes, (64 * 1024, 12 * 1024, 1500), strict=True)), sizes


def test_a_row_shows_two_labels_and_how_many_more_there_are(full):
    listed = page(full, "/ui/schedules")
    assert len(ids(listed)) == 50
    assert "billing.invoices.export-0000 country switzerland owner ada +2" in listed.text
    assert (
        "owner ada team billing-platform tier 1"
        in page(full, "/ui/schedules/billing.invoices.export-0000").text
    )


@pytest.mark.parametrize(("failing", "well"), [(50, 0), (60, 0), (50, 1), (60, 5)])
def test_no_schedule_is_lost_between_those_in_trouble_and_the_others(failing, well):
    """As many of them fail as a page shows, or more."""
    with running(None) as service:
        service.put("/workflows/broken/1", {"fail": "no such table"})
        service.put("/workflows/report/1", {"nodes": []})
        fails = [{"schedule_id": f"bad-{n:02}", "workflow_id": "broken"} for n in range(failing)]
        fine = [{"schedule_id": f"a-good-{n}"} for n in range(well)]
        minutely = {**SCHEDULE, "cron_expr": "* * * * *"}
        service.post("/schedules/bulk", [{**minutely, **each} for each in fails + fine])
        service.advance(61)
        seen, path = [], "/ui/schedules?sort=trouble"
        while path is not None:
            found = page(service, path)
            seen += ids(found)
            path = next((own["href"] for own in found.all("a") if own.get("rel") == "next"), None)
    assert seen == [each["schedule_id"] for each in fails + fine]


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ("sort=id", ["bad", "ever", "noon", "soon"]),
        # The next tick of a paused schedule is the first one from the end of its pause on.
        ("sort=next", ["soon", "noon", "bad", "ever"]),
        ("sort=trouble", ["bad", "ever", "noon", "soon"]),
        ("since=2026-03-02T10:00:00Z", ["soon", "noon"]),
        ("since=2026-03-02T10:00:00Z&until=2026-03-02T12:00:00Z", ["soon"]),
        ("until=2026-03-02T10:00:00Z", []),
    ],
)
def test_paused_schedules_are_listed_by_time_and_order_too(paused_ones, asked, listed):
    assert ids(page(paused_ones, f"/ui/schedules?state=paused&{asked}")) == listed


@pytest.fixture(scope="module")
def paused_ones():
    """Schedules that are paused until ten, until noon, and until somebody resumes them."""
    with running(None) as service:
        service.put("/workflows/broken/1", {"fail": "no such table"})
        service.put("/workflows/report/1", {"nodes": []})
        ends = {"soon": "2026-03-02T10:00:00Z", "noon": "2026-03-02T12:00:00Z", "ever": None, "bad": None}
        for name in ends:
            workflow = "broken" if name == "bad" else "report"
            service.upsert(schedule_id=name, workflow_id=workflow, cron_expr="* * * * *")
        service.advance(61)
        for name, until in ends.items():
            service.post("/schedules/pause", {"schedule_id": name, "paused": True, "until": until})
        yield service
