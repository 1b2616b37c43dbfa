"""The parts that launchers and receivers of all queues share: a broker's URL, and the published message."""

from __future__ import annotations

import json
import ssl
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from dutiful.core.delivery_signature import signature
from dutiful.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dutiful.launchers.executor import ExecutorSettings, Meta

# Seconds for the whole hand-off: connecting, publishing and the acknowledgement.
TIMEOUT_S = 10.0
TLS_OPTIONS = ("ca", "cert", "key")


class Broker(NamedTuple):
    """The address of a broker, split into the parts for its client and a form that may be shown."""

    scheme: str
    hosts: tuple[str, ...]
    """HOST:PORT, or several of them."""
    path: str
    user: str | None
    password: str | None
    options: Mapping[str, str]

    @classmethod
    def parse(cls, url: str, options: Collection[str], form: str) -> Broker:
        """Return the parts of the URL; raises InvalidArgumentError, in which no credentials are shown."""
        scheme, _, rest = url.partition("://")
        parts = urlsplit(f"queue://{rest}")
        place = parts.netloc.rpartition("@")[2]
        broker = cls(
            scheme.lower(),
            tuple(host for host in place.split(",") if host),
            parts.path,
            *_credentials(parts.netloc),
            _options(parts.query, options, form),
        )
        if not broker.hosts or any(not _is_address(host) for host in broker.hosts):
            raise InvalidArgumentError("executor", f"{scheme}://{place}", f"write {form}")
        return broker

    @property
    def shown(self) -> str:
        """Return the address without credentials and options, for logs and errors."""
        return f"{self.scheme}://{','.join(self.hosts)}{self.path}"

    def without_secrets(self, error: BaseException | str) -> str:
        """Return the text of an error on one line, without the credentials of this broker."""
        text = " ".join(str(error).split()) or type(error).__name__
        # Without a password the user is a token.
        secret = self.user if self.password is None else self.password
        return text.replace(secret, "***") if secret else text

    def problem(self, what: str, error: BaseException) -> str:
        """Return what went wrong, this address, and the error, in one line without credentials."""
        return f"{what} {self.shown}: {self.without_secrets(error)}"

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context of the options `ca`, `cert` and `key`; raises InvalidArgumentError."""
        try:
            context = ssl.create_default_context(cafile=self.options.get("ca"))
            if "cert" in self.options:
                context.load_cert_chain(self.options["cert"], self.options.get("key"))
        except OSError as error:
            reason = f"ca, cert and key must name PEM files that can be read: {error}"
            raise InvalidArgumentError("executor", self.shown, reason) from None
        return context

    def redis(self, form: str) -> dict[str, Any]:
        """Return the connection settings for a client of Redis or Valkey; raises InvalidArgumentError."""
        host, _, port = self.hosts[0].rpartition(":") if ":" in self.hosts[0] else (self.hosts[0], "", "6379")
        database = self.path.strip("/") or "0"
        if len(self.hosts) > 1 or not port.isdecimal() or not database.isdecimal():
            raise InvalidArgumentError("executor", self.shown, f"write {form}")
        how = {"host": host.strip("[]"), "port": int(port), "db": int(database)}
        how |= {"username": self.user, "password": self.password}
        if self.scheme not in {"rediss", "valkeys"}:
            return how
        self.tls()
        files = {"ssl_ca_certs": "ca", "ssl_certfile": "cert", "ssl_keyfile": "key"}
        return {**how, **{name: self.options.get(option) for name, option in files.items()}}


class Message(NamedTuple):
    """The published body, and its signature where there is a secret."""

    body: bytes
    timestamp: str
    signature: str | None

    @classmethod
    def of(cls, dag: Any, meta: Meta, settings: ExecutorSettings) -> Message:
        """Return the message of a run: the same body that an HTTP executor gets."""
        body = json.dumps({"dag": dag, "meta": meta.as_json()}).encode()
        timestamp = str(int(settings.clock.now().timestamp()))
        if settings.secret is None:
            return cls(body, timestamp, None)
        return cls(
            body, timestamp, signature(settings.secret.reveal(), timestamp, meta.idempotency_key, body)
        )


def _credentials(netloc: str) -> tuple[str | None, str | None]:
    user, colon, password = netloc.rpartition("@")[0].partition(":")
    return unquote(user) or None, unquote(password) if colon else None


def _options(query: str, known: Collection[str], form: str) -> dict[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            advice = f"did you mean {near[0]}=?" if near else f"write {form}"
            raise InvalidArgumentError("executor", name, f"there is no such option of this queue; {advice}")
    return given


def _is_address(host: str) -> bool:
    try:
        parts = urlsplit(f"queue://{host}")
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
