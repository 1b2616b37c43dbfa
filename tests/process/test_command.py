"""Commands as child processes. Everything here is real: the shells, the signals, the kills."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import textwrap

import pytest
from tests.process.living import ends, numbers
from tests.still_loop import let_pass, run_still

from dutiful.process import Exit, run

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
# A child, one that left the process group, one whose parent is gone, and the shell: their numbers in a line.
FAMILY = (
    "sleep 300 & a=$!; setsid sleep 300 & b=$!;"
    " c=$(setsid sleep 300 > /dev/null 2>&1 & echo $!); echo $a $b $c $$; "
)


def shell(script: str, **settings) -> Exit:
    return asyncio.run(run(["sh", "-c", script], environment=ENVIRONMENT, **settings))


def test_the_streams_and_the_code_come_back():
    ended = shell("cat; echo problem >&2; exit 3", stdin=b"hello\n")
    assert ended == Exit(3, "hello\n", "problem\n", timed_out_after=None, truncated=False)


def test_a_command_that_dies_by_a_signal_has_its_negative_number():
    assert shell("kill -USR1 $$").code == -signal.SIGUSR1
    assert shell("kill -KILL $$").code == -signal.SIGKILL


def test_no_shell_reads_the_arguments():
    words = ["$HOME", "a b", "; exit 4", "*"]
    program = "import sys; print(sys.argv[1:])"
    ended = asyncio.run(run([sys.executable, "-c", program, *words], environment=ENVIRONMENT))
    assert ended.stdout == f"{words}\n"


def test_a_program_that_does_not_exist_is_127_and_says_so():
    ended = asyncio.run(run(["no-such-program"], environment=ENVIRONMENT))
    assert ended == Exit(127, "", "cannot run 'no-such-program': No such file or directory\n")


def test_a_directory_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        shell("true", directory=str(tmp_path / "absent"))


def test_a_command_runs_in_its_directory(tmp_path):
    assert shell("pwd", directory=str(tmp_path)).stdout == f"{tmp_path}\n"


def test_a_command_gets_exactly_its_environment(monkeypatch):
    monkeypatch.setenv("CANARY", "tweet-7261")
    ended = asyncio.run(run(["env"], environment={**ENVIRONMENT, "GIVEN": "x"}))
    assert sorted(ended.stdout.split()) == ["GIVEN=x", "PATH=/usr/bin:/bin"]


def test_a_command_has_three_descriptors_a_private_umask_and_a_session_of_its_own():
    listed = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1])"
    program = f"{listed}; print(oct(os.umask(0)), os.getsid(0) == os.getpid() == os.getpgid(0))"
    ended = asyncio.run(run([sys.executable, "-I", "-c", program], environment=ENVIRONMENT))
    assert ended.stdout == "[0, 1, 2]\n0o77 True\n"


def test_a_command_need_not_read_what_it_is_given():
    assert shell("exit 0", stdin=b"x" * 1_000_000).code == 0


def test_signals_have_their_usual_effect_in_a_command():
    # Python ignores SIGPIPE, and what is ignored stays so in what it runs.
    assert shell("yes | head -n 1").stdout == "y\n"
    assert "broken" not in shell("yes | head -n 1").stderr.lower()


def test_of_much_output_the_end_is_kept_and_the_cut_is_marked():
    ended = shell("seq 1 100000; echo the end", output_limit=1024)
    mark, _, kept = ended.stdout.partition("\n")
    assert ended.truncated
    assert len(kept) == 1024
    assert kept.endswith("100000\nthe end\n")
    whole = "".join(f"{number}\n" for number in range(1, 100_001)) + "the end\n"
    assert mark == f"[{len(whole) - 1024} bytes left out]"


def test_a_chatty_command_does_not_fill_the_memory():
    # In a process of its own, because the memory of this one remembers everything that ran before.
    program = """
        import asyncio, resource
        from dutiful.process import run

        async def chat(megabytes):
            script = f"head -c {megabytes}000000 /dev/zero"
            await run(["sh", "-c", script], environment={"PATH": "/usr/bin:/bin"})
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async def both():
            return await chat(1), await chat(300)

        print(*asyncio.run(both()))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    before, after = numbers(done.stdout)
    assert after - before < 20_000, "kilobytes"


def test_the_latest_line_is_reported_while_the_command_runs():
    told = []

    async def answered_while_running():
        # The command goes on only when it has been heard.
        read, write = os.pipe()

        def hear(line):
            told.append(line)
            if line == "step 1":
                os.write(write, b"go\n")

        script = f"echo; echo step 1; read go < /proc/{os.getpid()}/fd/{read}; printf 'a\\rstep 2\\r'; echo"
        try:
            return await run(["sh", "-c", script], environment=ENVIRONMENT, on_output=hear, time_limit=30)
        finally:
            os.close(read)
            os.close(write)

    assert asyncio.run(answered_while_running()).code == 0
    assert told[0] == "step 1"
    assert told[-1] == "step 2"


def test_an_error_of_a_listener_does_not_end_the_command():
    def fall_over(line):
        raise RuntimeError(line)

    assert shell("echo a; echo b", on_output=fall_over) == Exit(0, "a\nb\n", "")


def test_processes_that_a_command_leaves_running_are_killed_at_its_end():
    ended = shell(FAMILY)
    family = numbers(ended.stdout)
    assert len(family) == 4
    assert [pid for pid in family if not ends(pid, 0)] == []


def overdue(script: str, **settings) -> Exit:
    """Run a command whose time is over as soon as it has said something."""
    said = []

    def hear(line):
        said.append(line)
        let_pass(30 if len(said) == 1 else 0)

    program = ["sh", "-c", script]
    return run_still(run(program, environment=ENVIRONMENT, time_limit=30, on_output=hear, **settings))


def test_a_command_that_takes_too_long_is_asked_to_end():
    # The shell forks before it sets the trap: a child that is signalled before it is `sleep` has none.
    ended = overdue("sleep 300 & trap 'echo asked; exit 5' TERM; echo up; wait")
    assert ended == Exit(5, "up\nasked\n", "", timed_out_after=30)


def test_a_command_that_does_not_listen_is_killed_with_all_its_descendants():
    script = "trap '' TERM; " + FAMILY + "while true; do wait; done"
    ended = overdue(script, grace=0)
    assert (ended.code, ended.timed_out_after) == (-signal.SIGKILL, 30)
    assert [pid for pid in numbers(ended.stdout) if not ends(pid, 0)] == []
    assert len(numbers(ended.stdout)) == 4


def test_a_cancelled_command_is_gone_with_all_its_descendants():
    told = []

    async def cancel_when_up():
        up = asyncio.Event()

        def hear(line):
            told.append(line)
            up.set()

        script = f"trap '' TERM; {FAMILY} wait; wait"
        task = asyncio.create_task(
            run(["sh", "-c", script], environment=ENVIRONMENT, on_output=hear, grace=0.2)
        )
        await up.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_when_up())
    family = numbers(told[0])
    assert len(family) == 4
    assert [pid for pid in family if not ends(pid, 0)] == []


PARENT = """
    import asyncio
    from dutiful.process import run

    script = {script!r}
    environment = {{"PATH": "/usr/bin:/bin"}}
    tell = lambda line: print(line, flush=True)
    asyncio.run(run(["sh", "-c", script], environment=environment, on_output=tell))
"""


def start_parent(script: str) -> subprocess.Popen[str]:
    program = textwrap.dedent(PARENT.format(script=f"trap '' TERM; {script} sleep 300"))
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def test_a_parent_that_is_killed_leaves_no_survivor():
    for _ in range(5):
        with start_parent(FAMILY) as parent:
            family = numbers(parent.stdout.readline())
            parent.kill()
        assert len(family) == 4
        assert [pid for pid in family if not ends(pid)] == []


def test_a_copy_of_the_parent_does_not_keep_its_commands_alive():
    # A forked copy holds the parent's end of every pipe; the kernel tells of the death in another way.
    program = textwrap.dedent(PARENT.format(script="echo $$; sleep 300"))
    program = "import os, signal\n" + program.replace(
        "print(line, flush=True)", "print(line, os.fork() or signal.pause(), flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        command, copy = numbers(parent.stdout.readline())
        parent.kill()
        try:
            assert ends(command)
        finally:
            os.kill(copy, signal.SIGKILL)


def test_a_command_dies_with_its_warden_and_its_end_is_noticed():
    # Those that left the session cannot be found without the warden; they hold the streams open.
    with start_parent(FAMILY) as parent:
        child, escaped, orphan, command = numbers(parent.stdout.readline())
        with open(f"/proc/{command}/stat", encoding="ascii") as stat:
            warden = int(stat.read().split()[3])
        os.kill(warden, signal.SIGKILL)
        try:
            assert ends(command)
            assert ends(child)
            assert parent.wait(20) == 0
        finally:
            os.kill(escaped, signal.SIGKILL)
            os.kill(orphan, signal.SIGKILL)


@pytest.fixture
def many_files():
    """Have 1,100 files open, so that the next ones have numbers that `select` cannot take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip(f"this machine allows {hard} open files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for file in opened:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_a_command_runs_where_more_than_a_thousand_files_are_open():
    assert shell("cat; exit 3", stdin=b"fed") == Exit(3, "fed", "", timed_out_after=None, truncated=False)
