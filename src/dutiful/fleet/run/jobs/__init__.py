"""The jobs a fleet file can describe: a command, a request to a URL, a Python function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.fleet.file.settings import problems_of, settings_of
from dutiful.fleet.run.jobs import command, http, python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dutiful.fleet.run.jobs.command import OnChunk, OnOutput
    from dutiful.fleet.types import Config, JobExecutor, Problem

_KINDS = {"command": command.KEYS, "http": http.KEYS, "python": python.KEYS}


def problems_of_job(config: object) -> Iterator[Problem]:
    """Yield everything that is wrong with a `job`; paths begin inside it. Nothing is imported or started."""
    return problems_of(config, _KINDS)


def unready_job(config: Config, folder: Path) -> Iterator[Problem]:
    """Yield why a job that is described well could not run from this folder, as far as can be seen now."""
    settings = settings_of(config, _KINDS, "job")
    if config["type"] == "command":
        yield from command.unready(settings, folder)
    elif config["type"] == "python":
        yield from python.unready(settings)


def executor_for(
    config: Config, on_output: OnOutput | None = None, on_chunk: OnChunk | None = None
) -> JobExecutor:
    """Return the executor of the jobs that `config` describes.

    `on_output(request, line)` is called with the latest line of a running command, `on_chunk(request, bytes)`
    with all of its output. Raises InvalidArgumentError with all problems, or if a Python function cannot be
    found.
    """
    settings = settings_of(config, _KINDS, "job")
    if config["type"] == "command":
        return command.CommandJob(settings, on_output, on_chunk)
    return http.HttpJob(settings) if config["type"] == "http" else python.PythonJob(settings)
