"""Which executor a text such as "command:./run-dag" names."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from dutiful.core.errors import InvalidArgumentError
from dutiful.launchers.command import CommandExecutor
from dutiful.launchers.http import HttpExecutor
from dutiful.launchers.python import PythonExecutor

if TYPE_CHECKING:
    from dutiful.launchers.executor import Executor, ExecutorSettings

SCHEMES = ("command", "http", "https", "python")
_QUEUES = ("celery", "nats", "redis")
_FORMS = "command:PROGRAM ARGS, http://HOST/PATH, https://HOST/PATH or python:MODULE:FUNCTION"


def executor_for(url: str, settings: ExecutorSettings) -> Executor:
    """Return the executor; raises InvalidArgumentError that says what to write instead."""
    match scheme_of(url):
        case "command":
            return CommandExecutor.parse(url.partition(":")[2], settings)
        case "python":
            return PythonExecutor(url.partition(":")[2].strip(), settings)
        case _:
            return HttpExecutor(url.strip(), settings)


def scheme_of(url: str) -> str:
    """Return which of SCHEMES the text names, without a look at the rest; raises InvalidArgumentError."""
    scheme, colon, _ = url.strip().partition(":")
    if not colon or scheme.lower() not in SCHEMES:
        raise _unknown(scheme.lower())
    return scheme.lower()


def _unknown(scheme: str) -> InvalidArgumentError:
    # The rest of the text is not told: a password may be part of it.
    if scheme in _QUEUES:
        advice = f"there is no executor for {scheme} yet; write {_FORMS}"
        return InvalidArgumentError("executor", f"{scheme}:…", advice)
    near = get_close_matches(scheme[:32], SCHEMES, n=1)
    advice = f"did you mean {near[0]}:…?" if near else f"write {_FORMS}"
    return InvalidArgumentError("executor", scheme[:32], advice)
