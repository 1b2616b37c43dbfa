"""Builds the parts of httpd from the settings: authentication, rate limits and TLS."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from dutiful.httpd.auth import Auth, Sessions, read_clients
from dutiful.httpd.limits import Limits, Rates
from dutiful.httpd.middleware import MiddlewareSettings, PageAddress
from dutiful.httpd.reloading_file import ReloadingFile
from dutiful.httpd.tls import TlsFiles
from dutiful.httpd.token_keys import read_keys, read_revoked
from dutiful.httpd.tokens import TokenCheck

if TYPE_CHECKING:
    from dutiful.runtime.ports import Clock
    from dutiful.service.settings import Settings

_LOGINS_PER_MINUTE = 5


def middleware_settings(settings: Settings, clock: Clock) -> MiddlewareSettings:
    """Return the settings of the request middleware; reads the files of keys and clients.

    Raises KeyFileError, RevokedFileError or ClientsFileError.
    """
    limited = settings.has_auth or not settings.is_loopback
    rates = Rates(settings.rate_per_s, settings.rate_burst, clock) if limited else None
    pages = PageAddress(settings.public_url, settings.is_loopback)
    return MiddlewareSettings(settings.host, _auth(settings, clock), rates=rates, pages=pages)


def login_rates(clock: Clock) -> Rates:
    """Return the rate limit of logins per address."""
    return Rates(_LOGINS_PER_MINUTE / 60, _LOGINS_PER_MINUTE, clock)


def connection_limits(settings: Settings) -> Limits:
    """Return the limits of every connection."""
    # At most half of the open files: the store, the log and the requests themselves need some too.
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Limits(connections=settings.connections_per_peer, connections_in_all=max(1, soft // 2))


def tls_files(settings: Settings) -> TlsFiles | None:
    """Return the TLS files, None without TLS; where tokens are accepted, client certificates are optional."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    required = settings.jwt_keys is None
    return TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_client_ca, clients_required=required)


def _revoked(settings: Settings) -> ReloadingFile[frozenset[str]] | None:
    path = settings.jwt_revoked
    return None if path is None else ReloadingFile((path,), lambda: read_revoked(path))


def _auth(settings: Settings, clock: Clock) -> Auth:
    tokens = clients = None
    if (keys := settings.jwt_keys) is not None:
        watched = ReloadingFile((keys,), lambda: read_keys(keys))
        issuer, audience = settings.jwt_issuer or "", settings.jwt_audience or ""
        tokens = TokenCheck(watched, issuer, audience, clock, _revoked(settings))
    if (path := settings.tls_clients) is not None:
        clients = ReloadingFile((path,), lambda: read_clients(path))
    return Auth(tokens, clients, None if tokens is None else Sessions(settings.session_key))
