"""The page of a fleet: its agents, why a schedule does not run now, its output, and commands by form."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from contextlib import contextmanager

import httpx2
import pytest
from tests.web.pages.html import page

from dutiful.fleet.control.daemon import Daemon
from dutiful.fleet.state.file import write_states
from dutiful.httpd.server import HttpServer, listen
from dutiful.testing import VirtualClock
from dutiful.web.fleet_page import AGENTS_SHOWN, OUTPUT_SHOWN, ROWS_A_PAGE, WHY, create_fleet_app, tail

FILE = f"""
version: 1
agents:
  - name: writer
    instances: {{max_concurrent: 2}}
    schedules:
      digest:
        type: interval
        interval: 1h
        job: {{type: command, command: ["{sys.executable}", "-c", "print('<b>three</b> lines')"]}}
      broken:
        type: interval
        interval: 1h
        job: {{type: command, command: ["{sys.executable}", "-c", "raise SystemExit('no disk')"]}}
      hook:
        type: webhook
        job: {{type: command, command: ["true"]}}
"""


class Fleet:
    """A fleet and its page on a loop of their own, on a clock that the test moves."""

    def __init__(self, path):
        self.path, self.ready = path, threading.Event()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self):
        self.loop, self.clock = asyncio.get_running_loop(), VirtualClock("2026-03-02T09:00:00+00:00")
        daemon = self.daemon = Daemon(self.path, clock=self.clock)
        with listen("127.0.0.1", 0) as listener:
            app = create_fleet_app(daemon, self.clock, "127.0.0.1")
            self.server = HttpServer(app, listener, None, self._listening)
            await daemon.start()
            try:
                await self.server.answer()
            finally:
                await daemon.stop(5)

    def _listening(self, url):
        self.url, self.client = url, httpx2.Client(base_url=url, trust_env=False, verify=False, timeout=60)
        self.ready.set()

    def advance(self, seconds):
        asyncio.run_coroutine_threadsafe(self.clock.advance(seconds), self.loop).result(60)

    def finish(self, runs):
        """Wait until so many jobs, which are real programs, have ended."""
        self.wait_for(lambda status: sum(each["done"] + each["failed"] for each in status["agents"]) == runs)

    def wait_for(self, is_so):
        """Let time pass until the status of the fleet is so."""
        for _ in range(600):
            self.advance(1)
            if is_so(asyncio.run_coroutine_threadsafe(self.daemon.status(), self.loop).result(60)):
                return
            threading.Event().wait(0.05)
        raise AssertionError("the fleet does not come to it")

    def send(self, path):
        field = re.search(
            r'name="csrf" value="([0-9a-f]+)"', self.client.get("/ui/fleet/writer/digest/run").text
        )[1]
        return self.client.post(path, data={"csrf": field}, headers={"Origin": self.url})


@contextmanager
def serving(path, runs):
    """Serve the page of the fleet of a file, once so many of its jobs have ended, until the block ends."""
    running = Fleet(path)
    running.thread.start()
    assert running.ready.wait(15)
    try:
        running.finish(runs)
        yield running
    finally:
        running.server.stop()
        running.thread.join(60)
        running.client.close()


@pytest.fixture
def fleet(tmp_path):
    (tmp_path / "fleet.yaml").write_text(FILE)
    with serving(tmp_path / "fleet.yaml", runs=2) as running:
        yield running


def test_the_page_names_every_schedule_and_why_it_does_not_run_now(fleet):
    text = page(fleet).text
    assert "Working. One schedule needs you." in text
    assert "writer 0 of 2 jobs 1 done, 1 failed since the start" in text
    assert "digest every hour from completion It waits for its next time." in text
    hook = "hook on a webhook or by hand The clock never fires this type; run it by hand or over HTTP."
    assert f"{hook} manual_only" in text


def test_a_schedule_has_its_runs_and_the_end_of_its_output_as_text(fleet):
    shown = page(fleet, "/ui/fleet/writer/digest")
    assert "<b>three</b> lines" in "".join(shown.words)
    assert "today 09:00 ran" in shown.text
    assert "Why does it not run now? It waits for its next time. not_due" in shown.text


def test_a_failure_is_shown_with_its_error(fleet):
    shown = page(fleet, "/ui/fleet/writer/broken").text
    assert "Its last run failed:" in shown
    assert "no disk" in shown


def test_every_command_asks_before_it_acts(fleet):
    here = "/ui/fleet/writer/digest"
    asked = {name: page(fleet, f"{here}/{name}").text for name in ("run", "cancel", "disable", "enable")}
    beside = "It runs once, with the next pass, beside its own times."
    assert f"{beside} Its agent runs 0 of 2 jobs. Cancel Run now" in asked["run"]
    assert "No job of it is running. Cancel" in asked["cancel"]
    assert (
        "It runs only by hand until it is enabled; a running job goes on. Cancel Disable" in asked["disable"]
    )
    assert "It runs by itself again, from its next time on. Cancel Enable" in asked["enable"]
    links = [link["href"] for link in page(fleet, here).all("a") if "data-dialog" in link]
    assert links == [f"{here}/run", f"{here}/disable"]
    assert "not_due" in page(fleet, here).text


def test_a_refused_command_stays_at_its_question(fleet):
    for _ in range(2):
        assert fleet.send("/ui/fleet/writer/digest/run").status_code == 303
    refused = fleet.send("/ui/fleet/writer/digest/run")
    assert refused.status_code == 409
    assert "Run it now?" in refused.text
    assert "is at its limit: 2 of 2 job(s) running" in refused.text
    fleet.finish(4)


def test_a_schedule_is_disabled_and_enabled_by_form(fleet):
    assert fleet.send("/ui/fleet/writer/digest/disable").status_code == 303
    assert "It is out of service until it is enabled. disabled" in page(fleet, "/ui/fleet/writer/digest").text
    done = fleet.send("/ui/fleet/writer/digest/enable")
    assert "writer/digest is in service again." in page(fleet, done.headers["location"]).text


def test_a_schedule_runs_by_hand_with_the_next_pass(fleet):
    fleet.send("/ui/fleet/writer/digest/run")
    fleet.finish(3)
    assert "by hand" in page(fleet, "/ui/fleet/writer/digest").text


def test_a_form_without_its_proof_changes_nothing(fleet):
    refused = fleet.client.post("/ui/fleet/writer/digest/disable", headers={"Origin": fleet.url})
    assert refused.status_code == 403
    assert "disabled" not in page(fleet, "/ui/fleet/writer/digest").text


@pytest.mark.parametrize(
    "path", ["/ui/fleet/writer/none", "/ui/fleet/none/digest", "/ui/fleet/..%2f..%2fetc/x"]
)
def test_what_the_fleet_does_not_have_is_not_found(fleet, path):
    assert fleet.client.get(path).status_code in {404, 422}


def test_another_host_is_not_answered(fleet):
    assert fleet.client.get("/", headers={"Host": "evil.example"}).status_code == 421


def test_long_outputs_are_cut_at_their_beginning():
    assert tail("x" * OUTPUT_SHOWN) == "x" * OUTPUT_SHOWN
    assert tail("a" + "x" * OUTPUT_SHOWN) == "… (the beginning is cut)\n" + "x" * OUTPUT_SHOWN


def test_every_reason_not_to_run_has_its_sentence():
    from dutiful.fleet.types import ScheduleSkipReason

    assert WHY.keys() == {reason.value for reason in ScheduleSkipReason}


def large_fleet(folder, agents, schedules):
    """Write a fleet of so many agents, each with schedules that no clock fires; the last one has failed."""
    lines = ["version: 1", "state_dir: state", "agents:"]
    for agent in range(agents):
        lines += [f"  - name: a{agent:03}", "    job: {type: command, command: ['true']}", "    schedules:"]
        lines += [f"      s{number:04}: {{type: webhook}}" for number in range(schedules - 1)]
        lines += ["      wrong: {type: webhook}"]
    (folder / "fleet.yaml").write_text("\n".join(lines))
    failed = {(f"a{agent:03}", "wrong"): {"last_error": "no disk"} for agent in range(agents)}
    write_states(folder / "state", failed)
    return folder / "fleet.yaml"


@pytest.mark.parametrize(("agents", "schedules"), [(2, 500), (100, 10)])
def test_a_thousand_schedules_are_a_short_page_that_begins_with_those_that_need_you(
    tmp_path, agents, schedules
):
    with serving(large_fleet(tmp_path, agents, schedules), runs=0) as fleet:
        shown = page(fleet)
        assert len(shown.answer.content) < 64_000
        assert len(shown.elements) < 1_500
        assert "1,000 schedules" in shown.text
        rows = [link["href"] for link in shown.all("a") if "data-row" in link]
        first = [f"/ui/fleet/a{agent:03}/wrong" for agent in range(min(agents, AGENTS_SHOWN))]
        assert [row for row in rows if row.endswith("/wrong")] == first
        assert rows[:2] == ["/ui/fleet/a000/wrong", "/ui/fleet/a000/s0000"]
        assert "/ui/fleet/a000" in shown.links
        assert ("/?page=2" in shown.links) is (agents > AGENTS_SHOWN)
        if agents > AGENTS_SHOWN:
            assert f"/ui/fleet/a{AGENTS_SHOWN:03}/wrong" in page(fleet, "/?page=2").links


def test_an_agent_has_pages_of_its_own_with_a_field_to_find_a_schedule(tmp_path):
    def rows(path):
        return [link["href"] for link in page(fleet, path).all("a") if "data-row" in link]

    with serving(large_fleet(tmp_path, 2, 120), runs=0) as fleet:
        here = "/ui/fleet/a001"
        pages = [rows(f"{here}?page={number}") for number in (1, 2, 3)]
        assert [len(each) for each in pages] == [ROWS_A_PAGE, ROWS_A_PAGE, 20]
        assert sorted(row for each in pages for row in each) == sorted(
            [f"{here}/wrong", *(f"{here}/s{number:04}" for number in range(119))]
        )
        assert [link for link in page(fleet, f"{here}?page=2").links if "page=" in link] == [
            f"{here}?page=1",
            f"{here}?page=3",
        ]
        assert rows(f"{here}?q=S011") == [f"{here}/s{number:04}" for number in range(110, 119)]
        assert rows("/?q=a001/wro") == [f"{here}/wrong"]
        assert "Nothing matches none. Clear" in page(fleet, f"{here}?q=none").text
        assert "Nothing matches none. Clear" in page(fleet, "/?q=none").text
        assert fleet.client.get("/ui/fleet/none").status_code == 404


@pytest.mark.parametrize("path", ["/", "/ui/fleet/writer", "/ui/fleet/writer/digest"])
def test_a_page_is_sent_again_only_after_something_has_changed(fleet, path):
    def refreshed(revision):
        answer = fleet.client.get(path, headers={"Dutiful-Revision": revision})
        return answer.status_code, re.findall(r'data-revision="([^"]+)"', answer.text)

    [first] = refreshed("")[1]
    fleet.advance(30)
    assert refreshed(first) == (204, [])
    fleet.send("/ui/fleet/writer/digest/disable")
    status, [second] = refreshed(first)
    assert status == 200
    fleet.send("/ui/fleet/writer/digest/run")
    fleet.finish(3)
    status, [third] = refreshed(second)
    assert status == 200
    assert refreshed(third) == (204, [])
    fleet.path.write_text(FILE + "nonsense: 1\n")
    fleet.advance(2)
    assert refreshed(third)[0] == 200


def test_a_file_that_cannot_be_used_is_a_banner_and_the_fleet_goes_on(fleet):
    fleet.path.write_text(FILE.replace("interval: 1h", "interval: 1 hour", 1))
    fleet.advance(2)
    shown = page(fleet)
    said = "The file has changed and cannot be used; the fleet goes on as it was"
    assert said in shown.text
    assert "schedules.digest.interval" in shown.text
    assert {"class": "note warn", "role": "alert"} in shown.all("div")
    assert "digest every hour from completion It waits for its next time." in shown.text
    fleet.path.write_text(FILE)
    fleet.advance(2)
    assert said not in page(fleet).text


def test_a_fleet_whose_passes_fail_says_so_first_with_its_problem_and_since_when(fleet):
    state = fleet.daemon.state_dir / "state.yaml"
    kept = state.rename(state.with_name("kept"))
    state.mkdir()
    fleet.advance(2)
    shown = page(fleet)
    assert ("h1", {}) in shown.elements
    assert "Not working: its passes fail" in shown.text
    assert "The fleet triggers nothing, because its passes fail" in shown.text
    assert re.search(r"StateFileError: .*state\.yaml.* Since today 09:00:\d\d UTC\.", shown.text)
    assert "head down" in [each.get("class") for each in shown.all("div")]
    state.rmdir()
    kept.rename(state)
    fleet.advance(2)
    assert "Working. One schedule needs you." in page(fleet).text


def test_a_running_job_has_its_last_line_and_takes_a_place(tmp_path):
    waits = (
        f"import pathlib, time; print('page <1>'); print('page <2>', flush=True)\n"
        f"while not pathlib.Path({str(tmp_path / 'go')!r}).exists(): time.sleep(0.02)"
    )
    job = {"type": "command", "command": [sys.executable, "-c", waits]}
    agents = [
        {
            "name": "writer",
            "instances": {"max_concurrent": 3},
            "schedules": {"digest": {"type": "interval", "interval": "1h", "job": job}},
        }
    ]
    (tmp_path / "fleet.yaml").write_text(json.dumps({"version": 1, "agents": agents}))
    with serving(tmp_path / "fleet.yaml", runs=0) as fleet:
        try:
            fleet.wait_for(lambda status: [job["output"] for job in status["jobs"]] == ["page <2>"])
            shown = page(fleet)
            assert re.search(r"digest every hour from completion running \S+ m?s: page <2> last", shown.text)
            assert "after it ends" in shown.text
            assert "writer 1 of 3 jobs 0 done, 0 failed since the start" in shown.text
            bars = [each["class"] for each in shown.all("rect") if each["class"] in {"rundot", "come"}]
            assert bars == ["rundot", "come", "come"]
            one = page(fleet, "/ui/fleet/writer/digest")
            assert "It does: it has been running for" in one.text
            assert "/ui/fleet/writer/digest/cancel" in one.links
            assert (
                "1 job of it is running. It ends as failed"
                in page(fleet, "/ui/fleet/writer/digest/cancel").text
            )
        finally:
            (tmp_path / "go").touch()
        fleet.finish(1)
