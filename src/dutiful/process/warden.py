"""The warden: a process between this one and a command, so that no process of the command outlives them.

Run as a script: `python -I -S warden.py LIFELINE PARENT LC_CTYPE OPEN_FILES PROGRAM ARGS…`. LIFELINE is one
end of a socket whose other end only PARENT has. The warden writes the process number of the command there. A
byte from PARENT asks the command to end (TERM); the end of the stream, which the kernel brings about however
PARENT dies, kills everything. The warden ends as the command ended, after the last descendant. OPEN_FILES is
the soft limit of open files of the command.

It imports nothing of the package: it must start fast, and have few ways to fail.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_PATIENCE = 0.05


def prctl(option: int, value: int) -> None:
    """Set a kernel option of this process, where the kernel supports it."""
    # Without these options the socket and the process group still catch most cases.
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(lifeline: int, parent: int, open_files: int, command: list[str]) -> int:
    """Run the command until it ends or the lifeline does; return its wait status."""
    # Move the lifeline to a low number: `select` cannot take numbers beyond 1023, which PARENT may use.
    passed, lifeline = lifeline, os.dup(lifeline)
    os.close(passed)
    wakeup_read = wake_on_signals()
    prctl(_SET_CHILD_SUBREAPER, 1)
    # A second way to notice the parent's death: a forked copy of the parent may hold the socket open.
    prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    own = os.getpid()
    # Until the child has its own handlers, a signal to it would write to the pipe it shares with the warden.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    child = os.fork()
    if child == 0:
        become(command, own, open_files)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    let_go_of_the_streams()
    with contextlib.suppress(OSError):
        os.write(lifeline, str(child).encode())
    if os.getppid() == parent:
        watch(lifeline, wakeup_read, child)
    return sweep(child)


def watch(lifeline: int, wakeup_read: int, child: int) -> None:
    """Return when the command has ended, or must end."""
    while not has_ended(child):
        ready, _, _ = select.select([lifeline, wakeup_read], [], [])
        if lifeline in ready and not heed(lifeline, child):
            return
        if wakeup_read in ready and signal.SIGTERM in os.read(wakeup_read, 64):
            return
        for orphan in set(orphans()) - {child}:
            os.waitpid(orphan, os.WNOHANG)


def has_ended(child: int) -> bool:
    """Return whether the command has ended, without reaping it: its process number must stay taken."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wake_on_signals() -> int:
    """Return a descriptor that becomes readable when a child has ended or the warden is to end."""
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return wakeup_read


def become(command: list[str], warden: int, open_files: int) -> None:
    """Turn this process into the command, in a session of its own."""
    try:
        os.setsid()
        forget_handlers()
        prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit_open_files(open_files)
        if os.getppid() == warden:
            os.execvp(command[0], command)  # noqa: S606 - running the command is the purpose
    except OSError as error:
        said = f"cannot run {command[0]!r}: {error.strerror}\n"
        os.write(2, said.encode("utf-8", "backslashreplace"))
    finally:
        os._exit(127)


def limit_open_files(open_files: int) -> None:
    """Set the soft limit of open files; PARENT may have raised its own."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The hard limit may have been lowered below the number.
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, most))


def forget_handlers() -> None:
    """Reset all signals to their default effect; the command would inherit ignored signals."""
    signal.set_wakeup_fd(-1)
    usual = (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ)
    for number in usual:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def let_go_of_the_streams() -> None:
    """Close the warden's copies of the three streams, so that they end with the command."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def heed(lifeline: int, child: int) -> bool:
    """Pass the parent's request to end on to the command; return False when the parent is gone."""
    try:
        asked = os.read(lifeline, 64)
    except OSError:
        return False
    if asked:
        signal_all(child, signal.SIGTERM)
    return bool(asked)


def signal_all(child: int, number: int) -> None:
    """Signal the command's process group, and every orphan that the kernel has given to the warden."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)
    signal_orphans(number)


def signal_orphans(number: int) -> None:
    """Signal the orphans that the warden has inherited. It must wait for orphans of another user."""
    for orphan in orphans():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(orphan, number)


def orphans() -> list[int]:
    """Return the warden's own children: the command, and the orphans of its dead descendants."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children", encoding="ascii") as children:
            return [int(pid) for pid in children.read().split()]
    except OSError:
        return []


def sweep(child: int) -> int:
    """Kill until no descendant is left; return the status of the command."""
    signal_all(child, signal.SIGKILL)
    status = 0
    while True:
        try:
            found, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if found == child:
            status = ended
        elif not found:
            select.select([], [], [], _PATIENCE)
        # A process that has just lost its parent becomes a child of the warden, and may have left the group.
        signal_orphans(signal.SIGKILL)


def end_like(status: int) -> None:
    """End this process with the given wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def restore_locale(lc_ctype: str) -> None:
    """Undo the change that Python makes to the environment when it starts in the C locale."""
    os.environ.pop("LC_CTYPE", None)
    if lc_ctype:
        os.environ["LC_CTYPE"] = lc_ctype


if __name__ == "__main__":
    restore_locale(sys.argv[3])
    end_like(main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), sys.argv[5:]))
