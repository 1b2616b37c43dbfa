"""Jobs that are commands, run for real."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap

import pytest
from tests.fleet.requests import ITEM, request
from tests.process.living import ends, numbers
from tests.still_loop import let_pass, run_still

from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.run.jobs import executor_for
from dutiful.fleet.types import JobResult


def do(*command: str, prompt="Look around.", item=None, on_output=None, **settings) -> JobResult:
    config = {"type": "command", "command": [*command], **settings}
    return asyncio.run(executor_for(config, on_output).execute(request(prompt, item)))


def shell(script: str, **settings) -> JobResult:
    return do("sh", "-c", script, **settings)


def test_the_last_line_is_the_summary():
    assert shell("echo reading; echo '12 files read'; echo") == JobResult(True, "12 files read")
    assert shell("true") == JobResult(True)


def test_a_code_other_than_zero_is_a_failure_with_the_end_of_stderr():
    script = "echo half way; for n in 1 2 3 4; do echo line $n >&2; done; exit 3"
    assert shell(script) == JobResult(False, "half way", "exit code 3: line 2 | line 3 | line 4")
    assert shell("exit 1") == JobResult(False, None, "exit code 1")
    assert shell("kill -KILL $$") == JobResult(False, None, "killed by signal 9")


def test_the_prompt_is_on_stdin_and_in_the_environment():
    assert shell("cat", prompt="Tidy up.") == JobResult(True, "Tidy up.")
    assert shell('echo "$DUTIFUL_AGENT $DUTIFUL_SCHEDULE $DUTIFUL_PROMPT"') == JobResult(
        True, "scout look Look around."
    )


def test_the_work_item_is_in_the_environment_as_json():
    program = "import os; print(os.environ['DUTIFUL_WORK_ITEM'])"
    told = json.loads(do(sys.executable, "-c", program, item=ITEM).summary)
    assert told == {**ITEM._asdict(), "labels": ["bug", "web"]}
    assert shell('echo "${DUTIFUL_WORK_ITEM-none}"') == JobResult(True, "none")


def test_a_prompt_is_never_read_by_a_shell(tmp_path):
    prompt = f"$(touch {tmp_path}/a); `touch {tmp_path}/b` ; touch {tmp_path}/c\n'\""
    assert shell('printf %s "$DUTIFUL_PROMPT" > /dev/null; cat > /dev/null; echo fine', prompt=prompt).success
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    "prompt", ["a\0b", "x" * 300_000, "half \udce9 a character"], ids=["nul", "long", "half"]
)
def test_a_prompt_that_no_variable_can_hold_still_arrives_on_stdin(prompt):
    expected = len(prompt.encode("utf-8", "replace"))
    assert shell("wc -c", prompt=prompt) == JobResult(True, str(expected))


def test_a_job_sees_no_more_of_the_environment_than_it_is_given(monkeypatch):
    monkeypatch.setenv("CANARY_SECRET", "tweet-7261")
    monkeypatch.setenv("GIVEN_TOKEN", "given-5")
    monkeypatch.setenv("HOME", "/nest")
    names = "import os; print(sorted(os.environ))"
    own = ["DUTIFUL_AGENT", "DUTIFUL_PROMPT", "DUTIFUL_SCHEDULE"]
    # LC_CTYPE is what Python itself adds, here in the job.
    seen = do(sys.executable, "-I", "-c", names, environment=["GIVEN_TOKEN", "ABSENT"]).summary
    assert seen.replace("'LC_CTYPE', ", "") == str([*own, "GIVEN_TOKEN", "HOME", "LANG", "PATH"])
    assert shell("echo $GIVEN_TOKEN$CANARY_SECRET", environment=["GIVEN_TOKEN"]) == JobResult(True, "given-5")
    found = shell("cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -c CANARY; env | grep -c CANARY; true")
    assert found == JobResult(True, "0")


def test_a_job_runs_where_it_is_told_to(tmp_path):
    (tmp_path / "tool.sh").write_text("#!/bin/sh\npwd\n", encoding="utf-8")
    (tmp_path / "tool.sh").chmod(0o700)
    assert do("./tool.sh", directory=str(tmp_path)) == JobResult(True, str(tmp_path))


def test_a_job_that_cannot_begin_says_so(tmp_path):
    with pytest.raises(JobNotStartedError, match="there is no program 'no-such-program' on the path /usr"):
        do("no-such-program")
    with pytest.raises(JobNotStartedError, match="No such file or directory"):
        shell("true", directory=str(tmp_path / "absent"))


def test_a_job_that_takes_too_long_is_ended_with_its_grandchildren():
    script = "sleep 300 & a=$!; setsid sleep 300 & echo $a $! $$; wait"
    config = {"type": "command", "command": ["sh", "-c", script], "timeout": "30s"}
    # Its time is over as soon as it has said something.
    executor = executor_for(config, lambda *_: let_pass(30))
    result = run_still(executor.execute(request()))
    assert (result.success, result.error) == (False, "timed out after 30 s")
    assert len(numbers(result.summary)) == 3
    assert [pid for pid in numbers(result.summary) if not ends(pid, 0)] == []


def test_a_cancelled_job_is_gone():
    told = []

    async def cancel_when_up():
        up = asyncio.Event()

        def hear(asked, line):
            told.append((asked.schedule_name, line))
            up.set()

        config = {"type": "command", "command": ["sh", "-c", "echo $$; sleep 300"]}
        task = asyncio.create_task(executor_for(config, hear).execute(request()))
        await up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_when_up())
    ((name, line),) = told
    assert name == "look"
    assert ends(int(line), 0)


def test_the_latest_line_is_reported_with_the_request():
    told = []
    shell(
        "echo one", on_output=lambda asked, line: told.append((asked.agent.name, asked.schedule_name, line))
    )
    assert told == [("scout", "look", "one")]


def test_much_output_is_cut_and_its_end_is_the_summary():
    assert shell("seq 1 200000; echo the end", output_limit="2048") == JobResult(True, "the end")


def test_control_characters_stay_out_of_the_summary():
    assert shell(r"printf '\033[31mred\007\n'") == JobResult(True, "[31mred")


PARENT = """
    import asyncio
    from dutiful.fleet.run.jobs import executor_for
    from tests.fleet.requests import request

    script = "sleep 300 & a=$!; setsid sleep 300 & echo $a $! $$; wait"
    config = {"type": "command", "command": ["sh", "-c", script]}
    tell = lambda asked, line: print(line, flush=True)
    asyncio.run(executor_for(config, tell).execute(request()))
"""


def test_a_fleet_that_is_killed_leaves_no_survivor():
    program = [sys.executable, "-c", textwrap.dedent(PARENT)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as parent:
        family = numbers(parent.stdout.readline())
        parent.kill()
    assert len(family) == 3
    assert [pid for pid in family if not ends(pid)] == []
