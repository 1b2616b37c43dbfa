"""The main pages over a PostgreSQL store: they answer, and their facts are those of the database."""

from __future__ import annotations

import re

from tests.web.pages.html import page
from tests.web.running import running

KEY = re.compile(r"/ui/runs/([0-9a-f]{64})")


def test_the_main_pages_show_the_facts_of_a_cluster(newest_postgres_url):
    settings = {"DUTIFUL_STORE": newest_postgres_url, "DUTIFUL_NODE": "worker-1", "DUTIFUL_SHARDS": "1"}
    with running(None, start="2026-03-02T09:59:59+00:00", **settings) as service:
        service.put("/workflows/report/1", {}, user_id="ada")
        service.put("/workflows/broken/1", {"fail": "no disk"}, user_id="ada")
        service.upsert(schedule_id="hourly", cron_expr="0 * * * *")
        service.upsert(schedule_id="broken", workflow_id="broken", cron_expr="0 10 * * *")
        service.upsert(schedule_id="asleep", cron_expr="* * * * *", paused=True)
        service.advance(2)

        overview = page(service, "/").text
        assert "broken" in overview
        assert "worker-1 leads" in overview
        listed = page(service, "/ui/schedules").text
        assert all(name in listed for name in ("hourly", "broken", "asleep"))
        assert "hourly" not in page(service, "/ui/schedules?state=failed").text
        one = page(service, "/ui/schedules/hourly").text
        assert re.search(r"10:00 .*succeeded|10:00 .*SUCCESS", one)
        why = page(service, "/ui/why?schedule=broken&at=today+10:00").text
        assert "The whole run A tick of the cron: yes 10:00 in UTC" in why
        assert "1 failed" in page(service, "/ui/runs").text
        failed = page(service, "/ui/runs?status=FAILED&view=each")
        [key] = {found[1] for link in failed.links if link and (found := KEY.search(link))}
        assert "no disk" in page(service, f"/ui/runs/{key}").text
        calendar = page(service, "/ui/calendar").text
        assert "25 ticks counted" in calendar
        system = page(service, "/ui/system").text
        assert "Schedules 3" in system
        assert re.search(r"Store dutiful_store_bytes postgresql, [1-9]\d* [kM]B", system)
        assert "worker-1" in system
