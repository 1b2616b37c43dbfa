"""`dutiful config` and `dutiful doctor`: the settings in force, and whether the service works with them."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from dutiful.cli.output import Form, print_table, reading, show
from dutiful.cli.serve import config_option, environment
from dutiful.core.errors import DutifulError, InvalidArgumentError
from dutiful.httpd.tls import server_context
from dutiful.launchers.executor import ExecutorSettings, Probing
from dutiful.launchers.url import executor_for, scheme_of
from dutiful.process.output_log import OutputFolder
from dutiful.runtime.clock import SystemClock
from dutiful.service.http_settings import middleware_settings, tls_files
from dutiful.service.launcher import named_executors
from dutiful.service.settings import SettingsError, effective, settings_from
from dutiful.stores.url import store_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dutiful.runtime.ports import Store
    from dutiful.service.settings import Settings


# A clock this far (ms) behind its own earlier writes has been set back.
_BEHIND_MS = 60_000


class Finding(NamedTuple):
    """One check: `state` is ok, note or wrong; a note does not keep the service from working."""

    check: str
    state: str
    detail: str


@click.command()
@config_option
@reading
@click.pass_context
def doctor(ctx: click.Context, config_file: str | None, form: Form) -> None:
    """Check settings, store, clock and executor; exit 1 if the service could not do its work.

    A store that is missing is not made, and no run is handed to the executor.

    Example: DUTIFUL_EXECUTOR=nats://127.0.0.1:4222 dutiful doctor
    """
    findings = asyncio.run(_examine(environment(config_file)))
    found = [finding._asdict() for finding in findings]
    rows = [[*finding] for finding in findings]
    show(form, found, lambda: print_table(["check", "state", "detail"], rows), lines=found)
    if any(finding.state == "wrong" for finding in findings):
        ctx.exit(1)


async def _examine(environ: dict[str, str]) -> list[Finding]:
    try:
        settings = settings_from(environ)
    except SettingsError as error:
        return [Finding("settings", "wrong", str(error))]
    found = [_files(environ, settings)]
    for name, examine in (("store", _store), ("clock", _clock), ("executor", _executor)):
        try:
            found.append(await examine(settings))
        except DutifulError as error:
            found.append(Finding(name, "wrong", str(error)))
    # An unreadable store is already among the findings.
    with suppress(DutifulError):
        found += await _named_executors(settings)
    return found


def _files(environ: dict[str, str], settings: Settings) -> Finding:
    """Read the files that the settings name, as a start does; nothing is made."""
    try:
        effective(environ)
        middleware_settings(settings, SystemClock())
        if (files := tls_files(settings)) is not None:
            server_context(files)
        outputs = settings.output_dir
        if outputs is not None and Path(outputs).exists() and (flaw := OutputFolder(Path(outputs)).flaw()):
            raise InvalidArgumentError("DUTIFUL_OUTPUT_DIR", outputs, flaw)
    except DutifulError as error:
        return Finding("settings", "wrong", str(error))
    return Finding("settings", "ok", "those of this terminal can be read; `dutiful config` shows them")


async def _store(settings: Settings) -> Finding:
    missing = _missing_file(settings)
    if missing is not None:
        writable = os.access(missing.absolute().parent, os.W_OK)
        detail = f"{missing} is made at the first start" if writable else f"{missing} cannot be made"
        return Finding("store", "ok" if writable else "wrong", detail)
    async with _opened(settings) as store:
        damaged = await store.damaged()
    if damaged:
        names = ", ".join(schedule_id for schedule_id, _ in damaged[:5])
        return Finding("store", "note", f"{len(damaged)} schedules cannot be read: {names}")
    return Finding("store", "ok", f"{settings.store.partition(':')[0]} store can be read")


async def _clock(settings: Settings) -> Finding:
    """Compare the host's clock with the times that it has written to the store."""
    clock = SystemClock()
    shown = "no run is recorded after the present time"
    if _missing_file(settings) is not None:
        return Finding("clock", "ok", shown)
    async with _opened(settings) as store:
        rows = await store.recent(1)
    ahead = max((row.updated_at or row.run_at for row in rows), default=0) - clock.epoch_ms()
    if ahead > _BEHIND_MS:
        detail = f"it is {ahead // 1000} s behind the last recorded run: was it set back?"
        return Finding("clock", "wrong", detail)
    return Finding("clock", "ok", shown)


async def _executor(settings: Settings) -> Finding:
    if settings.executor is None:
        return Finding("executor", "note", "none: every run is refused until DUTIFUL_EXECUTOR is set")
    return await _probed(settings, "executor", settings.executor)


async def _named_executors(settings: Settings) -> list[Finding]:
    """Probe the executors that schedules name, each once."""
    if _missing_file(settings) is not None:
        return []
    async with _opened(settings) as store:
        named = await named_executors(store)
    return [await _probed(settings, f"executor of {schedule_id}", url) for url, schedule_id in named.items()]


async def _probed(settings: Settings, check: str, url: str) -> Finding:
    how = ExecutorSettings(
        SystemClock(), settings.executor_secret, settings.executor_allow, settings.executor_timeout_s
    )
    try:
        executor = executor_for(url, how)
    except DutifulError as error:
        return Finding(check, "wrong", str(error))
    if not isinstance(executor, Probing):
        return Finding(check, "ok", f"{scheme_of(url)}: can be used; it is not asked to run anything")
    problem = await executor.probe()
    detail = f"{scheme_of(url)}: answers, and takes runs" if problem is None else problem
    return Finding(check, "ok" if problem is None else "wrong", detail)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Store]:
    store = store_for(settings.store, settings.namespace)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _missing_file(settings: Settings) -> Path | None:
    """Return the file of a SQLite store that does not exist yet, or None."""
    scheme, _, path = settings.store.partition(":")
    return Path(path) if scheme == "sqlite" and not Path(path).exists() else None


@click.command()
@config_option
@reading
def config(config_file: str | None, form: Form) -> None:
    """Print the settings of the service; exit 2 if it could not start with them.

    Secrets are shown as ***.

    Example: TICK_MS=500 dutiful config
    """
    settings = effective(environment(config_file))
    found = {each.variable: {"value": each.value, "source": each.source} for each in settings}
    rows = [[each.variable, each.value or "-", each.source] for each in settings]
    lines = [{"variable": name, **values} for name, values in found.items()]
    show(form, found, lambda: print_table(["variable", "value", "from"], rows), lines=lines)
