"""Why a tick ran or did not, over HTTP: the code, the setting that decided, and each check of the tick."""

from __future__ import annotations

TICK = "2026-03-02T09:30:00Z"


def test_explaining_a_tick_that_ran(service):
    service.upsert()
    service.advance(1801)
    answer = service.get("/schedules/nightly/explain", at=TICK)
    (run,) = service.get("/schedules/nightly/runs")["runs"]
    assert answer == {
        "schedule_id": "nightly",
        "at": TICK,
        "due": True,
        "run": run,
        "text": f"nightly at {TICK} is SUCCESS",
        "code": "SUCCESS",
        "setting": None,
        "steps": [
            {"name": name, "passed": True, "fact": fact}
            for name, fact in [
                ("A tick of the cron", "09:30 in UTC"),
                ("In its window", "it has no start and no end"),
                ("Not paused", "it runs"),
                ("In time", "0 ms late, 60 s allowed"),
                ("No run in the way", "overlap=skip"),
                ("Room for it", "no limit"),
                ("Executor took it", "attempt 1"),
                ("Task succeeded", "after 0 ms"),
            ]
        ],
    }


def test_explaining_a_local_time_that_does_not_exist(service):
    given = {"cron_expr": "30 2 * * *", "timezone": "America/New_York", "gap": "skip", "fold": "both"}
    service.upsert(schedule_id="early", **given)
    answer = service.get("/schedules/early/explain", at="2026-03-08T02:30:00-05:00")
    assert (answer["code"], answer["due"], answer["at"]) == ("dst_gap", False, "2026-03-08T07:30:00Z")
    assert "02:30:00 in America/New_York does not exist on that day, decided by gap=skip" in answer["text"]


def test_explaining_an_instant_that_is_no_tick(service):
    service.upsert()
    answer = service.get("/schedules/nightly/explain", at="2026-03-02T09:31:00Z")
    assert (answer["due"], answer["run"], answer["code"]) == (False, None, "not_due")
    assert answer["steps"] == [
        {"name": "A tick of the cron", "passed": False, "fact": "the cron has no tick at this time"}
    ]


def test_explaining_a_skipped_tick_names_the_setting_that_decided(service):
    service.upsert(paused=True)
    service.advance(1801)
    answer = service.get("/schedules/nightly/explain", at=TICK)
    assert (answer["code"], answer["setting"]) == ("paused", "paused=True")
    assert [step["passed"] for step in answer["steps"]] == [True, True, False]


def test_an_offset_whose_plus_was_not_escaped_is_understood(service):
    service.upsert()
    answer = service.client.get("/schedules/nightly/explain?at=2026-03-02T10:30:00+01:00")
    assert (answer.status_code, answer.json()["at"], answer.json()["due"]) == (200, TICK, True)
