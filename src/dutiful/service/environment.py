"""The variables that set up the service: one table of names, readers, defaults and meanings.

A reader takes the text of a variable and returns its value, or raises ValueError with the correct form.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.errors import InvalidArgumentError, quoted
from dutiful.core.policy import CatchUp, Overlap
from dutiful.launchers.executor import Mode
from dutiful.launchers.url import scheme_of
from dutiful.outbound import Allowed
from dutiful.outbound.secret import Secret
from dutiful.stores.url import store_for

if TYPE_CHECKING:
    from collections.abc import Mapping


Reader: TypeAlias = Callable[[str], Any]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_ORIGIN = re.compile(r"(?P<scheme>https?)://([a-z0-9._-]{1,253}|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_SECRET_MIN = 16


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def number(low: int, high: int) -> Reader:
    """Return the reader of a whole number from `low` to `high`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError(f"write a whole number from {low} to {high}")
        return int(text)

    return read


def seconds(low: float, high: float) -> Reader:
    """Return the reader of a number of seconds from `low` to `high`."""

    def read(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not low <= float(text) <= high:
            raise ValueError(f"write a number of seconds from {low:g} to {high:g}")
        return float(text)

    return read


def choice(choices: type[StrEnum]) -> Reader:
    """Return the reader of one of these words."""

    def read(text: str) -> StrEnum:
        try:
            return choices(text)
        except ValueError:
            raise ValueError(f"write one of {', '.join(choices)}") from None

    return read


def text(value: str) -> str:
    """Read any text that can be shown on a line."""
    if not value.isprintable() or len(value) > 4096:
        raise ValueError("write one line of at most 4096 characters")
    return value


def file(value: str) -> str:
    """Read the path of a file that must exist when the service starts; `Variable.missing` checks that."""
    return text(value)


def log_file(value: str) -> str:
    """Read the path of a file that is created if it is missing; its folder must exist."""
    return text(value)


def name(value: str) -> str:
    """Read a name: letters, digits, dots, underlines and dashes."""
    if not _NAME.fullmatch(value):
        raise ValueError("write 1 to 128 letters, digits, dots, underlines and dashes")
    return value


def host(value: str) -> str:
    """Read a host name or an address, without port."""
    bare = value.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(bare) or (":" in bare and bare.count(":") < 2):
        raise ValueError("write a host name or an address such as 127.0.0.1, without port")
    return bare


def port(value: str) -> int:
    """Read a port; 0 means any free port."""
    if value.startswith("tcp://"):
        # Kubernetes sets a variable of this form in every pod for a service named "dutiful".
        raise ValueError(
            "the cluster has set this; write enableServiceLinks: false in the pod, and a number here"
        )
    found: int = number(0, 65_535)(value)
    return found


def store(value: str) -> str:
    """Read the URL of a store, without opening the store."""
    try:
        store_for(text(value), "default")
    except InvalidArgumentError as error:
        raise ValueError(error.details["reason"]) from None
    return value


def executor(value: str) -> str:
    """Read the URL of an executor; whether it works is checked when the service starts."""
    try:
        scheme_of(text(value))
    except InvalidArgumentError as error:
        raise ValueError(error.details["reason"]) from None
    return value


def origin(value: str) -> str:
    """Read the address at which browsers reach the pages: a scheme and a host, with an optional port."""
    found = _ORIGIN.fullmatch(value.lower().removesuffix("/"))
    if found is None:
        raise ValueError("write a scheme and a host, such as https://cron.example.com, without a path")
    # Browsers leave out the default port of the scheme.
    usual = ":443" if found["scheme"] == "https" else ":80"
    return found[0].removesuffix(usual)


def secret(value: str) -> Secret:
    """Read a secret, which is never shown."""
    if len(value) < _SECRET_MIN:
        raise ValueError(f"write at least {_SECRET_MIN} characters, e.g. what `openssl rand -hex 32` prints")
    return Secret(value)


def allowed(value: str) -> Allowed:
    """Read host names, addresses and networks, separated by commas."""
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    try:
        return Allowed.parse(entries)._replace(setting="DUTIFUL_EXECUTOR_ALLOW")
    except ValueError as error:
        raise ValueError(f"{error}; write e.g. 10.1.0.0/16,executor.internal") from None


class Variable(NamedTuple):
    """One variable; `default` is a text for `read`, or None for no value."""

    name: str
    read: Reader
    default: str | None
    meaning: str

    @property
    def field(self) -> str:
        """Return the name of the field in Settings."""
        return self.name.removeprefix("DUTIFUL_").lower()

    def missing(self, value: object) -> str | None:
        """Return why the file named by this variable cannot be used; None where it can, or names no file."""
        if value is None or self.read not in {file, log_file}:
            return None
        path = str(value)
        if self.read is log_file:
            return _unwritable(path)
        if not os.path.exists(path):
            return "there is no such file"
        return None if os.access(path, os.R_OK) else "this user may not read the file"

    @property
    def is_secret(self) -> bool:
        """Return whether the value must never be shown, not even in an error."""
        return self.read is secret


def _unwritable(path: str) -> str | None:
    """Return why nothing can be added to a file, which is created if it is missing; None where it can."""
    if os.path.isdir(path):
        return "is a folder; name a file in it"
    if os.path.exists(path):
        return None if os.access(path, os.W_OK) else "this user may not write the file"
    folder = os.path.dirname(path) or "."
    return None if os.access(folder, os.W_OK) else f"no file can be made in the folder {folder!r}"


VARIABLES = (
    Variable("TICK_MS", number(10, 60_000), "1000", "the worker looks at least this often"),
    Variable("LOOKAHEAD_MS", number(0, 3_600_000), "60000", "how far ahead schedules are fetched"),
    Variable("MAX_CATCHUP_PER_TICK", number(1, 10_000), "100", "missed ticks of a schedule in one pass"),
    Variable("DEFAULT_OVERLAP_POLICY", choice(Overlap), "skip", "for schedules that name none"),
    Variable("DEFAULT_CATCHUP_POLICY", choice(CatchUp), "none", "for schedules that name none"),
    Variable("DEFAULT_JITTER_MS", number(0, 86_400_000), "0", "for schedules that name none"),
    Variable("DUTIFUL_STORE", store, "sqlite:dutiful.db", "where schedules and runs are kept"),
    Variable("DUTIFUL_NAMESPACE", name, "service", "separates services that share a store"),
    Variable(
        "DUTIFUL_SHARDS", number(1, 256), "16", "parts of a new PostgreSQL namespace, each led by one worker"
    ),
    Variable("DUTIFUL_NODE", name, None, "name of this process in the cluster; unset, host and process id"),
    Variable(
        "DUTIFUL_LEASE_S",
        seconds(1, 300),
        "5",
        "a silent worker loses its shards after this, and is not ready after twice this",
    ),
    Variable("DUTIFUL_RETENTION_DAYS", number(1, 36_600), "30", "how long ended runs are kept"),
    Variable(
        "DUTIFUL_RETENTION_ROWS", number(1, 1_000_000), "1000", "how many ended runs of a schedule are kept"
    ),
    Variable("DUTIFUL_DRAIN_S", seconds(0, 86_400), "30", "how long a stop waits for runs in flight"),
    Variable("DUTIFUL_HOST", host, "127.0.0.1", "the address to listen at"),
    Variable("DUTIFUL_PORT", port, "8787", "the port to listen at; 0 takes a free one"),
    Variable("DUTIFUL_EXECUTOR", executor, None, "what runs the workflows"),
    Variable("DUTIFUL_EXECUTOR_MODE", choice(Mode), "report", "what 2xx of an HTTP executor means"),
    Variable(
        "DUTIFUL_EXECUTOR_SECRET", secret, None, "signs requests to an HTTP executor and messages to queues"
    ),
    Variable("DUTIFUL_EXECUTOR_ALLOW", allowed, "", "hosts and networks that are open although not public"),
    Variable("DUTIFUL_EXECUTOR_TIMEOUT_S", seconds(0.1, 86_400), None, "for one call of the executor"),
    Variable("DUTIFUL_OUTPUT_DIR", text, None, "folder in which the output of commands is kept"),
    Variable(
        "DUTIFUL_LAUNCHES_MAX",
        number(1, 100_000),
        None,
        "launches at a time; unset, 256 or what open files allow",
    ),
    Variable(
        "DUTIFUL_LAUNCH_RETRIES", number(0, 30), "3", "tries of a failed launch, after 1, 2, 4 s and so on"
    ),
    Variable("DUTIFUL_JWT_KEYS", file, None, "file of the keys that tokens are signed with"),
    Variable("DUTIFUL_JWT_ISSUER", text, None, "the `iss` that tokens must have"),
    Variable("DUTIFUL_JWT_AUDIENCE", text, None, "the `aud` that tokens must have"),
    Variable("DUTIFUL_JWT_REVOKED", file, None, "file of the `jti` of tokens that are no longer taken"),
    Variable("DUTIFUL_TLS_CERT", file, None, "file of the server's certificate chain, PEM"),
    Variable("DUTIFUL_TLS_KEY", file, None, "file of the server's private key, PEM"),
    Variable("DUTIFUL_TLS_CLIENT_CA", file, None, "file of the authorities that sign clients, PEM"),
    Variable("DUTIFUL_TLS_CLIENTS", file, None, "file of the clients' names and scopes"),
    Variable("DUTIFUL_PUBLIC_URL", origin, None, "where browsers reach the pages, behind a proxy or by name"),
    Variable(
        "DUTIFUL_SESSION_KEY", secret, None, "seals logins of browsers; unset, they end with the process"
    ),
    Variable("DUTIFUL_RATE_PER_S", number(1, 100_000), "50", "requests of one caller or address, on average"),
    Variable("DUTIFUL_RATE_BURST", number(1, 1_000_000), "100", "requests of one caller or address, at once"),
    Variable("DUTIFUL_CONNECTIONS_PER_PEER", number(1, 100_000), "256", "open connections of one address"),
    Variable("DUTIFUL_AUDIT_LOG", log_file, None, "file to which who changed what is added, as JSON lines"),
    Variable("DUTIFUL_LOG_LEVEL", choice(LogLevel), "info", "the least of what is logged"),
    Variable("DUTIFUL_CONFIG", text, None, "TOML file of settings that no variable names"),
)


_FILE_MAX = 1_048_576
# A settings file cannot name another settings file.
_KEYS = {variable.field: variable.name for variable in VARIABLES if variable.name != "DUTIFUL_CONFIG"}
_FORM = "write a text, a number, true or false, or a list of texts"


class ConfigFile(NamedTuple):
    """The settings of a file by variable, and (key, correct form) for every problem."""

    values: Mapping[str, str]
    problems: list[tuple[str, str]]


def read_config(path: str) -> ConfigFile:
    """Return the settings in a file; a file that cannot be read is one problem with an empty key."""
    try:
        with open(path, "rb") as file:
            content = tomllib.loads(file.read(_FILE_MAX).decode())
    except OSError as error:
        return ConfigFile({}, [("", f"cannot be read: {error.strerror}")])
    except ValueError as error:
        return ConfigFile({}, [("", f"is not TOML: {quoted(str(error))}")])
    values, problems = dict[str, str](), list[tuple[str, str]]()
    for key, value in content.items():
        text = _as_text(value)
        if key not in _KEYS:
            problems.append((key, _advice(key)))
        elif text is None:
            problems.append((key, _FORM))
        else:
            values[_KEYS[key]] = text
    return ConfigFile(values, problems)


def _as_text(value: Any) -> str | None:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case list() if all(isinstance(item, str) for item in value):
            return ",".join(value)
    return None


def _advice(key: str) -> str:
    near = get_close_matches(key.lower().removeprefix("dutiful_"), _KEYS, n=1)
    return f"there is no such setting; did you mean {near[0]}?" if near else "there is no such setting"
