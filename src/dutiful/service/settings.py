"""The settings of the service, read from the environment and a file; any error refuses all of them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import DutifulError, quoted
from dutiful.outbound import Allowed
from dutiful.service.environment import VARIABLES, Variable, read_config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dutiful.core.policy import CatchUp, Overlap
    from dutiful.launchers.executor import Mode
    from dutiful.outbound.secret import Secret
    from dutiful.service.environment import LogLevel

_OWN_PREFIX = "DUTIFUL_"
# The similarity of two names from which one counts as a misspelling of the other.
_SLIP = 0.8


class SettingProblem(NamedTuple):
    """One wrong setting, and what to write instead; a secret value is shown as `***`."""

    # The name of the variable, after the path of the file if the value comes from a file.
    variable: str
    value: str | None
    fix: str

    def __str__(self) -> str:
        shown = "is not set" if self.value is None else f"is {quoted(self.value)!r}"
        return f"{self.variable} {shown}: {self.fix}"


class SettingsError(DutifulError):
    """The settings cannot be used; `problems` lists every wrong one."""

    def __init__(self, problems: list[SettingProblem]) -> None:
        listed = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(
            f"The service cannot start with these settings:{listed}",
            problems=[problem._asdict() for problem in problems],
        )
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the service. Every field is a variable; `VARIABLES` has their meanings."""

    tick_ms: int
    lookahead_ms: int
    max_catchup_per_tick: int
    default_overlap_policy: Overlap
    default_catchup_policy: CatchUp
    default_jitter_ms: int
    store: str
    namespace: str
    shards: int
    node: str | None
    lease_s: float
    retention_days: int
    retention_rows: int
    drain_s: float
    host: str
    port: int
    executor: str | None
    executor_mode: Mode
    executor_secret: Secret | None
    executor_allow: Allowed
    executor_timeout_s: float | None
    output_dir: str | None
    launches_max: int | None
    launch_retries: int
    jwt_keys: str | None
    jwt_issuer: str | None
    jwt_audience: str | None
    jwt_revoked: str | None
    tls_cert: str | None
    tls_key: str | None
    tls_client_ca: str | None
    tls_clients: str | None
    public_url: str | None
    session_key: Secret | None
    rate_per_s: int
    rate_burst: int
    connections_per_peer: int
    audit_log: str | None
    log_level: LogLevel
    config: str | None

    @property
    def has_auth(self) -> bool:
        """Return whether callers must authenticate, by a token or by a certificate."""
        return self.jwt_keys is not None or self.tls_client_ca is not None

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can connect."""
        return is_loopback(self.host)


class Effective(NamedTuple):
    """One setting in force, with secrets hidden, and its source."""

    variable: str
    value: str | None
    source: str


def settings_from(environ: Mapping[str, str]) -> Settings:
    """Return the settings of this environment and of the file that its DUTIFUL_CONFIG names.

    A variable overrides the file; an empty variable counts as not set. Raises SettingsError with every
    problem.
    """
    return _read(environ)[0]


def effective(environ: Mapping[str, str]) -> list[Effective]:
    """Return all settings in their order, secrets hidden.

    Raises SettingsError as `settings_from` does, and for files that the settings name and that do not exist.
    """
    settings, given = _read(environ)
    values = [(variable, getattr(settings, variable.field)) for variable in VARIABLES]
    missing = [
        SettingProblem(variable.name, str(value), why)
        for variable, value in values
        if (why := variable.missing(value)) is not None
    ]
    if missing:
        raise SettingsError(missing)
    return [
        Effective(variable.name, _shown(value), given[variable.name].source) for variable, value in values
    ]


def in_force(settings: Settings) -> list[tuple[str, str]]:
    """Return the name and the value of each setting that has a value, in their order, secrets hidden."""
    values = [(variable.name, _shown(getattr(settings, variable.field))) for variable in VARIABLES]
    return [(name, value) for name, value in values if value is not None]


class _Given(NamedTuple):
    """The text of one setting; `place` tells a person where to find it."""

    text: str | None
    source: str
    place: str


def _read(environ: Mapping[str, str]) -> tuple[Settings, dict[str, _Given]]:
    problems = [*_misspelt(environ)]
    given = {variable.name: _from_environment(variable, environ) for variable in VARIABLES}
    if (path := given["DUTIFUL_CONFIG"].text) is not None:
        problems += _add_file(path, given)
    values: dict[str, Any] = {}
    for variable in VARIABLES:
        text, _, place = given[variable.name]
        try:
            values[variable.field] = None if text is None else variable.read(text)
        except ValueError as error:
            shown = "***" if variable.is_secret else without_secrets(text or "")
            problems.append(SettingProblem(place, shown, str(error)))
    problems += _contradictions(values)
    if problems:
        raise SettingsError(problems)
    return Settings(**values), given


def _from_environment(variable: Variable, environ: Mapping[str, str]) -> _Given:
    if text := environ.get(variable.name):
        return _Given(text, "environment", variable.name)
    return _Given(variable.default, "default", variable.name)


def _add_file(path: str, given: dict[str, _Given]) -> Iterator[SettingProblem]:
    """Fill in the values of the file where the environment has none, and yield the problems of the file."""
    file, shown = read_config(path), quoted(path, 4096)
    for key, fix in file.problems:
        yield SettingProblem(
            f"{shown}: {quoted(key)}" if key else "DUTIFUL_CONFIG", "***" if key else path, fix
        )
    for name, text in file.values.items():
        if given[name].source == "default" and text:
            place = f"{shown}: {name.removeprefix(_OWN_PREFIX).lower()}"
            given[name] = _Given(text, "file", place)


def is_loopback(host: str) -> bool:
    """Return whether an address to listen at can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _shown(value: Any) -> str | None:
    match value:
        case None:
            return None
        case Allowed():
            return ",".join([*sorted(value.hosts), *map(str, value.networks)])
        case float():
            return f"{value:g}"
    return without_secrets(str(value))


def without_secrets(url: str) -> str:
    """Return a URL without its user and its query; other texts unchanged."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return url
    bare, query, _ = rest.partition("?")
    user, at, place = bare.rpartition("@")
    return f"{scheme}://{'***@' if user or at else ''}{place}{'?***' if query else ''}"


def hides_secrets(url: str) -> bool:
    """Return whether a URL is as `without_secrets` shows one that has secrets."""
    return "://***@" in url or url.endswith("?***")


def _misspelt(environ: Mapping[str, str]) -> Iterator[SettingProblem]:
    # Other programs may use the prefix too, so report only names that look like a misspelling.
    known = {variable.name.removeprefix(_OWN_PREFIX): variable.name for variable in VARIABLES}
    for name in sorted(name for name in environ if name.startswith(_OWN_PREFIX)):
        near = get_close_matches(name.removeprefix(_OWN_PREFIX), known, n=1, cutoff=_SLIP)
        if near and known[near[0]] != name:
            fix = f"there is no such variable; did you mean {known[near[0]]}?"
            yield SettingProblem(name, "***", fix)


def _contradictions(values: Mapping[str, Any]) -> Iterator[SettingProblem]:
    """Yield the problems of settings in combination; settings that could not be read are ignored."""
    yield from _missing(values, "jwt_keys", ("jwt_issuer", "jwt_audience"))
    yield from _missing(values, "jwt_revoked", ("jwt_keys",))
    yield from _missing(values, "tls_cert", ("tls_key",))
    yield from _missing(values, "tls_key", ("tls_cert",))
    yield from _missing(values, "tls_client_ca", ("tls_cert", "tls_key", "tls_clients"))
    yield from _missing(values, "tls_clients", ("tls_client_ca",))
    yield from _missing(values, "session_key", ("jwt_keys",))
    has_auth = values.get("jwt_keys") or values.get("tls_client_ca")
    if (url := values.get("public_url")) is not None and not has_auth:
        fix = "set DUTIFUL_JWT_KEYS or DUTIFUL_TLS_CLIENT_CA: else everybody who reaches it may change things"
        yield SettingProblem("DUTIFUL_PUBLIC_URL", url, fix)
    host = values.get("host", "127.0.0.1")
    if not is_loopback(host) and not has_auth:
        fix = (
            "others could reach it without auth; set DUTIFUL_JWT_KEYS or DUTIFUL_TLS_CLIENT_CA, or 127.0.0.1"
        )
        yield SettingProblem("DUTIFUL_HOST", host, fix)


def _missing(values: Mapping[str, Any], given: str, needed: tuple[str, ...]) -> Iterator[SettingProblem]:
    if values.get(given) is None:
        return
    for field in needed:
        if field in values and values[field] is None:
            name, because = f"{_OWN_PREFIX}{field.upper()}", f"{_OWN_PREFIX}{given.upper()}"
            yield SettingProblem(name, None, f"{because} needs it")
