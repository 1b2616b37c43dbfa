"""`dutiful top`: frames at several widths, and a real terminal with keys, another size and a dead service."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from tests.cli.foreground import command
from tests.fleet.rig import FleetRig, agent, cron, every
from tests.web.running import running

from dutiful import Scheduler
from dutiful.cli.main import cli
from dutiful.cli.top_frame import Row, Screen, Shown, frame, in_order
from dutiful.testing import VirtualClock

NOW = datetime(2026, 11, 2, 14, 5, 12, tzinfo=UTC)
ROWS = [
    Row(
        "settlement.us-east",
        "failed",
        "At 01:30, New York",
        ["ran", "ran", "failed", "ran", "skipped", "failed"],
        3,
        NOW - timedelta(hours=7),
        NOW + timedelta(hours=16),
        "task_failed",
    ),
    Row(
        "reports.hourly-emea",
        "skipped",
        "At minute 0 of every hour, UTC",
        ["ran", "hand", "backfilled", "running", *["skipped"] * 17],
        3,
        NOW - timedelta(minutes=5),
        NOW + timedelta(minutes=54),
        "overlap, 7 in a row",
    ),
    Row("search.suggest", "paused", "At 04:00, UTC", [], 0, None, None, ""),
]
ACCOUNT = {
    "due": 41_208,
    "ran": 40_961,
    "failed": 12,
    "skipped": {"overlap": 143, "missed": 92},
    "open": 0,
    "unaccounted": 0,
    "drift_p50_s": 0.012,
    "drift_p99_s": 0.18,
}
DAY = [
    {"at": (NOW + timedelta(hours=hour)).isoformat(), "ran": ran, "failed": failed, "to_come": to_come}
    for hour, ran, failed, to_come in [
        *((-11.5, 100, 0, 0), (-6, 1, 0, 0), (-3, 50, 2, 0)),
        *((0.5, 0, 0, 25), (11.9, 0, 0, 100), (13, 0, 0, 9)),
    ]
]
SHOWN = Shown(
    "127.0.0.1:8787",
    NOW,
    "working, pass 0.4 s ago",
    True,
    "12,480 schedules, 38 paused",
    ROWS,
    {"needs": 3, "running": 23, "all": 12_480},
    ACCOUNT,
    DAY,
)


def drawn(**screen):
    shown = screen.pop("shown", SHOWN)
    return [line.plain.rstrip() for line in frame(shown, Screen(**screen))]


TOP = [
    "dutiful top  127.0.0.1:8787  14:05:12 UTC  working, pass 0.4 s ago",
    "24 h  41,208 due  ▮40,961  ✕12  ◇235  0 unaccounted  drift p50 12 ms  p99 180 ms",
    "02:05 ·█··········▁·····✕·····┃·▄·····················█ 02:05  ◇ overlap 143",
    " 1 needs you 3   2 running 23   3 next   4 all 12,480",
]
KEYS = " ↑↓ choose  enter why  t run  p pause  e edit  / find  s sort  ? keys  q quit"
WIDE_KEYS = " ↑↓ choose  enter why  t run now  p pause  e edit  o page  / find  s sort  ? keys  q quit"


WIDE_CELLS = [
    [
        " ✕",
        "settlement.us-east",
        "At 01:30, New York",
        " " * 14 + "▮▮✕▮◇✕○○○",
        "7 h ago",
        "in 16 h",
        "task_failed",
    ],
    [
        *("▸◇", "reports.hourly-emea", "At minute 0 of ever…", "▲▯▶" + "◇" * 17 + "○○○"),
        *("5 min ago", "in 54 min", "overlap, 7 in a row"),
    ],
    [" ‖", "search.suggest", "At 04:00, UTC", "", "", "-", ""],
]


def test_120_columns_have_everything():
    wide = drawn(width=120, height=12, chosen=1)
    assert wide[:2] == [
        TOP[0].ljust(93) + "12,480 schedules, 38 paused",
        "24 h  41,208 due  ▮40,961  ✕12  ◇235  0 unaccounted".ljust(93) + "drift p50 12 ms  p99 180 ms",
    ]
    ahead = "·▄·································█ 02:05  ◇ overlap 143"
    assert wide[2] == f"02:05 ·█················▁········✕········┃{ahead}"
    columns = (3, 21, 22, 25, 14, 14, 22)
    cells = [
        ("", "schedule", "when", "last 20, next 3", "last", "next", "note"),
        *WIDE_CELLS,
    ]
    rows = ["".join(cell.ljust(width) for cell, width in zip(row, columns, strict=True)) for row in cells]
    assert wide[3:] == [TOP[3], *(row.rstrip() for row in rows), "", "", "", WIDE_KEYS]


def test_runs_under_way_are_part_of_the_account():
    shown = replace(SHOWN, account=ACCOUNT | {"due": 41_231, "open": 23})
    line = "24 h  41,231 due  ▮40,961  ✕12  ◇235  {}23  0 unaccounted".format
    assert drawn(shown=shown, width=120, height=12)[1].startswith(line("▶"))
    assert drawn(shown=shown, width=120, height=12, ascii=True)[1].startswith(
        "24 h  41,231 due  |40,961  x12  -235  >23  0 unaccounted"
    )


def test_80_columns_leave_out_when_and_last():
    assert drawn(width=80, height=12) == [
        *TOP,
        "   schedule             last 20, next 3          next         note",
        "▸✕ settlement.us-east                 ▮▮✕▮◇✕○○○  in 16 h      task_failed",
        " ◇ reports.hourly-emea  ▲▯▶◇◇◇◇◇◇◇◇◇◇◇◇◇◇◇◇◇○○○  in 54 min    overlap, 7 in a r…",
        " ‖ search.suggest                                -",
        *["", "", ""],
        KEYS,
    ]


def test_60_columns_have_shape_id_and_next():
    assert drawn(width=60, height=12) == [
        "dutiful top  14:05:12 UTC  working, pass 0.4 s ago",
        "24 h  41,208 due  ▮40,961  ✕12  ◇235  0 unaccounted",
        "02:05 █········▁···✕····┃▄················█ 02:05",
        TOP[3],
        "   schedule             next",
        "▸✕ settlement.us-east   in 16 h",
        " ◇ reports.hourly-emea  in 54 min",
        " ‖ search.suggest       -",
        *["", "", ""],
        " ↑↓ choose  enter why  ? keys  q quit",
    ]


def test_ascii_has_a_shape_for_everything():
    lines = drawn(width=80, height=12, ascii=True)
    assert lines == [
        TOP[0],
        "24 h  41,208 due  |40,961  x12  -235  0 unaccounted  drift p50 12 ms  p99 180 ms",
        "02:05 .#..........:.....x.....|.|.....................# 02:05  - overlap 143",
        TOP[3],
        "   schedule             last 20, next 3          next         note",
        ">x settlement.us-east                 ||x|-xooo  in 16 h      task_failed",
        " - reports.hourly-emea  ^:>-----------------ooo  in 54 min    overlap, 7 in a r~",
        " = search.suggest                                -",
        *["", "", ""],
        " k/j choose  enter why  t run  p pause  e edit  / find  s sort  ? keys  q quit",
    ]
    assert "".join(lines).isascii()


def test_a_service_that_does_not_answer_leaves_the_last_frame_with_the_reason():
    lines = drawn(width=80, height=14, problem="No service answers at http://127.0.0.1:8787")
    assert lines[:2] == [
        "dutiful top  127.0.0.1:8787  14:05:12 UTC  not reached since 14:05:12",
        "No service answers at http://127.0.0.1:8787",
    ]
    assert lines[6].startswith("▸✕ settlement.us-east")


@pytest.mark.parametrize("width", [20, 59, 60, 79, 80, 109, 110, 250])
@pytest.mark.parametrize("height", [4, 8, 24, 60])
def test_no_frame_is_wider_or_higher_than_the_screen(width, height):
    many = [row._replace(id=f"{row.id}-{number}" * 4) for number in range(40) for row in ROWS]
    shown = replace(SHOWN, rows=many)
    lines = drawn(shown=shown, width=width, height=height, chosen=70, why="because " * 90)
    assert (len(lines), max(map(len, lines)) <= width) == (height, True)


def test_more_rows_than_lines_are_counted_and_the_chosen_one_is_seen():
    many = [ROWS[0]._replace(id=f"job-{number:02}") for number in range(40)]
    lines = drawn(shown=replace(SHOWN, rows=many), width=80, height=12, chosen=30)
    assert [line[:9] for line in lines[5:11]] == [
        *(" ✕ job-28", " ✕ job-29", "▸✕ job-30", " ✕ job-31", " ✕ job-32", "   and 35"),
    ]


def test_why_stands_below_the_rows():
    assert drawn(width=80, height=12, why="It ran.")[-3:] == ["── why " + "─" * 73, "It ran.", KEYS]


@pytest.mark.parametrize(
    ("screen", "text"),
    [
        ({"view": "needs"}, "Nothing needs you."),
        ({"view": "running"}, "Nothing is running."),
        ({"view": "all"}, "There are no schedules yet."),
        ({"view": "all", "find": "zz"}, "No schedule here matches 'zz'."),
    ],
)
def test_an_empty_view_says_so(screen, text):
    assert drawn(shown=replace(SHOWN, rows=[]), **screen)[4].strip() == text


def test_the_rows_are_sorted_by_id_next_or_trouble():
    def ordered(sort):
        return [row.id.partition(".")[0] for row in in_order(ROWS, sort)]

    assert ordered("") == ["settlement", "reports", "search"]
    assert ordered("id") == ["reports", "search", "settlement"]
    assert ordered("next") == ["reports", "settlement", "search"]
    assert ordered("trouble") == ["settlement", "reports", "search"]


def test_the_leader_and_the_begin_of_the_skips_are_named_where_there_is_room():
    account = {**ACCOUNT, "skipped_since": {"overlap": "2026-11-02T08:30:00Z"}}
    shown = replace(SHOWN, account=account, health="working, worker-2 leads, pass 0.4 s ago")
    assert drawn(shown=shown, width=120)[2].endswith("  ◇ overlap 143 from 08:30")
    assert drawn(shown=shown, width=80)[0].endswith("  working, worker-2 leads")


def test_text_of_others_cannot_move_the_cursor():
    evil = [ROWS[0]._replace(id="a\x1b[2Jb", note="x\ny")]
    assert "\x1b" not in "".join(drawn(shown=replace(SHOWN, rows=evil)))


@pytest.fixture
def service(tmp_path):
    with running(tmp_path) as it:
        it.put("/workflows/report/1", {})
        it.put("/workflows/broken/1", {"fail": "disk full"})
        it.upsert(cron_expr="*/10 * * * *")
        it.upsert(schedule_id="broken", workflow_id="broken", cron_expr="15 * * * *")
        it.advance(1801)
        yield it


def test_into_a_pipe_it_prints_one_frame(service):
    environ = {"DUTIFUL_URL": service.url, "DUTIFUL_TOKEN": "", "COLUMNS": "80"}
    done = CliRunner().invoke(cli, ["top"], env=environ)
    lines = done.stdout.splitlines()
    assert done.exit_code == 0
    assert lines[1].startswith("24 h  4 due  ▮3  ✕1  ◇0  0 unaccounted")
    assert lines[3:] == [
        " 1 needs you 1   2 running 0   3 next   4 all 2",
        "   schedule  last 20, next 3          next         note",
        "▸✕ broken                       ✕○○○  in 44 min    task_failed",
    ]


def test_without_a_service_it_says_how_to_start_one():
    done = CliRunner().invoke(cli, ["top"], env={"DUTIFUL_URL": "http://127.0.0.1:1", "DUTIFUL_TOKEN": ""})
    assert done.exit_code == 1
    assert "start it with `dutiful serve`" in done.stderr


class Terminal:
    """A command on a terminal of its own; `screen` is the last whole frame, without colours."""

    def __init__(self, pid, fd):
        self.pid, self.fd, self.seen = pid, fd, ""

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, columns, lines=24):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, pattern):
        """Return the lines of the first frame from now on that has a pattern."""
        self.seen = ""
        # A frame is drawn every second, in one or two pieces: this is about half a minute.
        for _ in range(60):
            assert select.select([self.fd], [], [], 30)[0], "nothing is drawn any more"
            self.seen += os.read(self.fd, 65_536).decode(errors="ignore")
            if re.search(pattern, self.screen):
                return self.screen.splitlines()
        raise AssertionError(f"{pattern!r} never came:\n{self.screen}")

    def ended(self):
        """Return the exit code of the command, once it has ended."""
        with suppress(OSError):
            while os.read(self.fd, 65_536):
                pass
        pid, self.pid = self.pid, None
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    @property
    def screen(self):
        frames = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", part) for part in self.seen.split("\x1b[H")]
        return "\n".join(line.rstrip() for line in "\n".join(frames[-2:]).splitlines())


@contextmanager
def terminal(url, *arguments, columns=80, encoding="utf-8"):
    pid, fd = pty.fork()
    if not pid:
        environ = {"TERM": "xterm", "DUTIFUL_URL": url, "DUTIFUL_TOKEN": "", "PYTHONIOENCODING": encoding}
        kept = {name: text for name, text in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        os.execve(command()[0], command("top", *arguments), kept | environ)
    it = Terminal(pid, fd)
    it.resize(columns)
    try:
        yield it
    finally:
        if it.pid is not None:
            os.kill(it.pid, signal.SIGKILL)
            it.ended()
        os.close(fd)


def test_on_a_terminal_keys_choose_explain_find_and_act(service):
    with terminal(service.url) as top:
        top.until(r"▸✕ broken")
        top.press("\n")
        top.until(r"─ why ─+\n *broken .*FAILED")
        top.press("4")
        top.until(r"▮ nightly")
        top.press("/nigh\n")
        top.until(r"find nigh\n.*\n▸▮ nightly")
        top.press("p")
        top.until(r"Pause nightly, because: _")
        top.press("ask Ada\n")
        top.until(r"‖ nightly .*ask Ada")
        paused = service.get("/schedules/nightly")
        assert (paused["paused"], paused["pause_note"]) == (True, "ask Ada")
        top.press("/workflow:broken\n")
        top.until(r"find workflow:broken\n.*\n▸✕ broken")
        top.press("s")
        top.until(r"sort id   find workflow:broken")
        top.press("q")
        assert top.ended() == 0


def test_a_terminal_without_unicode_gets_ascii_alone_and_does_not_end_by_the_notes_of_others(service):
    pause = {"schedule_id": "nightly", "paused": True, "note": "Jörg räumt auf"}
    service.post("/schedules/pause", pause)
    with terminal(service.url, encoding="ascii") as top:
        top.until(r">x broken")
        top.press("4")
        # One pattern for the whole frame, because a terminal may hand it over in pieces.
        lines = top.until(r"(?s)= nightly [^\n]*J.rg r.umt auf.*k/j choose")
        assert "".join(lines).isascii()
        top.press("q")
        assert top.ended() == 0


def test_another_size_is_another_frame(service):
    with terminal(service.url, "--view", "all", columns=80) as top:
        top.until(r"schedule +last 20, next 3 +next +note")
        top.resize(60)
        top.until(r"schedule +next\n")
        top.resize(120)
        top.until(r"schedule +when +last 20, next 3 +last +next +note")


def test_a_service_that_dies_is_reported_and_what_was_known_stays(tmp_path):
    with ExitStack() as alive:
        service = alive.enter_context(running(tmp_path))
        service.upsert()
        with terminal(service.url, "--view", "all") as top:
            top.until(r"nightly")
            alive.close()
            # One pattern for the whole frame, because a terminal may hand it over in pieces.
            top.until(r"(?s)not reached since \d\d:\d\d:\d\d.*start it with `dutiful serve`.*nightly")


def test_the_tasks_of_a_library_are_read_from_its_store(tmp_path):
    store = f"sqlite:{tmp_path}/state.db"

    async def played():
        clock = VirtualClock("2026-03-02T09:00:00", timezone="UTC")
        scheduler = Scheduler(store, clock=clock, timezone="UTC")
        await scheduler.initialize([("ok", "0 9 * * *", nothing, 60), ("bad", "0 9 * * *", failing, 60)])
        await clock.advance(1)
        await scheduler.stop()

    asyncio.run(played())
    done = CliRunner().invoke(cli, ["top", "--store", store], env={"COLUMNS": "80"})
    lines = done.stdout.splitlines()
    assert done.exit_code == 0
    assert "no scheduler runs" in lines[0]
    assert lines[1] == " 1 needs you 1   2 running 0   3 next   4 all 2"
    assert [line[:6].rstrip() for line in lines[3:]] == ["▸✕ bad", " ▮ ok"]
    assert "retry: ValueError: no" in lines[3]


async def nothing():
    pass


async def failing():
    raise ValueError("no")


def test_a_fleet_is_watched_by_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(cli, ["fleet", "init"])
    done = CliRunner().invoke(cli, ["top", "--fleet", "fleet.yaml"], env={"COLUMNS": "120"})
    lines = done.stdout.splitlines()
    assert (done.exit_code, lines[0].endswith("3 agents, 0 jobs running")) == (0, True)
    assert lines[1] == " 1 needs you 0   2 running 0   3 next   4 all 6   5 fleet 3"
    assert len(lines) == 9
    done = CliRunner().invoke(cli, ["top", "--fleet", "fleet.yaml", "--view", "fleet"], env={"COLUMNS": "80"})
    assert done.stdout.splitlines()[2:] == [
        "   agent     note",
        "▸○ watcher   0 of 1 places taken, 2 schedules, 0 done, 0 failed",
        " ○ reporter  0 of 2 places taken, 3 schedules, 0 done, 0 failed",
        " ‖ worker    0 of 1 places taken, 1 schedule, 0 done, 0 failed",
    ]
    assert CliRunner().invoke(cli, ["top", "--view", "fleet"]).exit_code == 2


def test_a_fleet_shows_when_schedules_run_and_their_last_ticks(tmp_path):
    async def story():
        lasting = agent("writer", digest=every("1h"), report=cron("0 9 * * 1-5", timezone="Europe/Berlin"))
        async with FleetRig(tmp_path / "state", lasting, behave=behave, check_interval=600) as rig:
            await rig.clock.advance(26 * 3600)

    async def behave(info):
        if info.metadata.due_at.hour == 7:
            raise ValueError("no disk")

    asyncio.run(story())
    (tmp_path / "fleet.yaml").write_text(
        "{version: 1, state_dir: state, agents: [{name: writer, job: {type: command, command: ['true']}, "
        "schedules: {digest: {type: interval, interval: 1h}, "
        "report: {type: cron, expression: '0 9 * * 1-5', timezone: Europe/Berlin}}}]}"
    )
    done = CliRunner().invoke(cli, ["top", "--fleet", str(tmp_path / "fleet.yaml")], env={"COLUMNS": "130"})
    digest, report = (re.split(r" {2,}", line)[1:3] for line in done.stdout.splitlines()[3:5])
    assert digest == ["every hour from completion", f"{'▮' * 16}✕▮▮▮○"]
    assert report == ["At 09:00, Monday to Friday, in Berlin", "▮○"]


def test_two_things_to_watch_are_refused():
    done = CliRunner().invoke(cli, ["top", "--fleet", "a.yaml", "--store", "sqlite:b.db"])
    assert (done.exit_code, "give one of them" in done.stderr) == (2, True)


def test_plain_prints_a_line_for_each_change(service):
    environ = {"DUTIFUL_URL": service.url, "DUTIFUL_TOKEN": ""}
    pipes = {"stdout": subprocess.PIPE, "text": True, "env": os.environ | environ}
    with subprocess.Popen(command("top", "--plain"), **pipes) as process:
        try:
            assert process.stdout.readline() == "09:30:01 working\n"
            assert process.stdout.readline() == "09:30:01 broken failed task_failed\n"
            service.post("/schedules/pause", {"schedule_id": "broken", "paused": True})
            assert re.fullmatch(r"09:30:01 broken .*\n", process.stdout.readline())
        finally:
            process.kill()
