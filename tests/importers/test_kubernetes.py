"""CronJobs, and what differs about each setting of theirs."""

from __future__ import annotations

import pytest

from dutiful.importers.imported import Target
from dutiful.importers.kubernetes import read_cron_jobs

JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: billing}
spec:
  schedule: "30 2 * * *"
  jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: b}]}}}}
"""


def one(text, **target):
    imported = read_cron_jobs(text, Target("kubernetes", "ada", **target))
    assert imported.refused == []
    (schedule,) = imported.schedules
    return schedule, {each.about: each for each in imported.differences[schedule["schedule_id"]]}


def test_a_cron_job_becomes_a_schedule_with_the_rules_of_kubernetes():
    schedule, differences = one(JOB)
    assert schedule == {
        "schedule_id": "billing.nightly",
        "workflow_id": "kubernetes",
        "version": 1,
        "user_id": "ada",
        "cron_expr": "30 2 * * *",
        "timezone": "UTC",
        "gap": "skip",
        "fold": "both",
        "overlap_policy": "allow",
        "catchup_policy": "latest",
        "input": {"job": {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}}},
    }
    assert [*differences] == ["timezone", "work", "run_timeout_s", "missed ticks"]


@pytest.mark.parametrize(
    ("line", "settings", "about"),
    [
        ("timeZone: Europe/Berlin", {"timezone": "Europe/Berlin"}, "changing clocks"),
        ("startingDeadlineSeconds: 300", {"grace_s": 300, "catchup_policy": "none"}, "missed ticks"),
        ("concurrencyPolicy: Forbid", {"overlap_policy": "buffer_one"}, "overlap"),
        ("concurrencyPolicy: Replace", {"overlap_policy": "cancel_other"}, "work"),
        ("suspend: true", {"paused": True}, "suspend"),
        ("suspend: false", {}, "work"),
        ("failedJobsHistoryLimit: 1", {}, "history"),
    ],
)
def test_a_setting_is_taken_over_and_what_differs_is_reported(line, settings, about):
    schedule, differences = one(f"{JOB}  {line}\n")
    assert {**schedule, **settings} == schedule
    assert about in differences
    assert ("paused" in schedule) == (line == "suspend: true")


def test_the_deadline_of_a_job_is_the_timeout_of_its_runs():
    schedule, differences = one(
        JOB.replace("{spec: {template", "{spec: {activeDeadlineSeconds: 60, template")
    )
    assert (schedule["run_timeout_s"], "run_timeout_s" in differences) == (60, False)


def test_the_zone_may_stand_before_the_schedule():
    schedule, _ = one(JOB.replace('"30', '"CRON_TZ=Asia/Tokyo 30'), timezone="Europe/Berlin")
    assert (schedule["cron_expr"], schedule["timezone"]) == ("30 2 * * *", "Asia/Tokyo")
    assert one(JOB, timezone="Europe/Berlin")[0]["timezone"] == "Europe/Berlin"


def test_question_marks_and_steps_of_one_are_asterisks():
    assert one(JOB.replace("30 2 * * *", "30 2 ? */1 1"))[0]["cron_expr"] == "30 2 * * 1"
    assert one(JOB.replace("30 2 * * *", "30 2 ?/2 * ?"))[0]["cron_expr"] == "30 2 */2 * *"


def test_a_null_is_a_key_that_is_left_out():
    template = "{metadata: {creationTimestamp: null}, spec: {template"
    text = JOB.replace("{spec: {template", template) + "  concurrencyPolicy: null\n  timeZone: null\n"
    schedule, _ = one(text)
    assert schedule == {**one(JOB)[0], "input": {"job": {"metadata": {}, **one(JOB)[0]["input"]["job"]}}}


def test_every_document_and_list_is_read_and_other_kinds_are_left_out():
    listed = "kind: List\nitems:\n- " + JOB.strip().replace("\n", "\n  ").replace("nightly", "listed")
    text = f"{JOB}---\nkind: ConfigMap\n---\n{listed}\n---\n"
    imported = read_cron_jobs(text, Target("k", "ada"))
    assert [each["schedule_id"] for each in imported.schedules] == ["billing.nightly", "billing.listed"]


def test_the_items_of_a_list_of_cron_jobs_need_not_say_their_kind():
    item = "{metadata: {name: a}, spec: {schedule: '0 1 * * *'}}"
    assert one(f"kind: CronJobList\nitems: [{item}]")[0]["schedule_id"] == "a"
    assert read_cron_jobs(f"kind: JobList\nitems: [{item}]", Target("k", "ada")).schedules == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no CronJob"),
        ("kind: ConfigMap\n", "has no CronJob"),
        ("items: &all\n- items: *all\n", "is not YAML: a value contains itself"),
        (JOB.replace("image: b", "image: 2026-13-45"), "is not YAML: month must be in 1..12"),
        (f"{JOB}  concurrencyPolicy: [Allow]\n", "concurrencyPolicy ['Allow'] is none of Allow, Forbid"),
        (JOB.replace("30 2 * * *", "@every 5m"), "'@every 5m' is an interval"),
        (JOB.replace("30 2 * * *", "30 2 * *"), "expected 5 fields, got 4"),
        (f"{JOB}  concurrencyPolicy: Never\n", "concurrencyPolicy 'Never' is none of Allow, Forbid, Replace"),
        (f"{JOB}  timeZone: Mars/Phobos\n", "Mars/Phobos"),
        (f"{JOB}  startingDeadlineSeconds: soon\n", "startingDeadlineSeconds 'soon' is no number of seconds"),
        ("kind: CronJob\n", "has no text under spec.schedule"),
        (JOB.replace('"30 2', "*/5"), "is not YAML"),
        (JOB.replace("image: b", f"image: {'b' * 20_000}"), "bytes as `input`, which holds 16,384"),
        (JOB.replace("image: b", "image: 2026-01-01"), "its work cannot be written as JSON"),
    ],
)
def test_what_cannot_be_imported_is_listed_with_the_reason(text, why):
    (refused,) = read_cron_jobs(text, Target("k", "ada")).refused
    assert why in refused.reason


def test_a_few_lines_of_aliases_that_stand_for_more_than_memory_are_refused():
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
    text = "\n".join([*lines, "kind: CronJob", 'spec: {schedule: "0 0 * * *", jobTemplate: *a11}'])
    [refused] = read_cron_jobs(text, Target("kubernetes", "ada")).refused
    assert "more than 2,000,000 values and characters; aliases repeat them" in refused.reason
