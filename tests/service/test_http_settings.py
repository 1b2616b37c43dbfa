"""From the settings to the parts of httpd."""

from __future__ import annotations

import json

import pytest
from tests.httpd.mint import KEYS

from dutiful.httpd.auth import Auth, ClientsFileError
from dutiful.httpd.middleware import MiddlewareSettings
from dutiful.httpd.tls import TlsFiles
from dutiful.httpd.token_keys import KeyFileError
from dutiful.service.http_settings import middleware_settings, tls_files
from dutiful.service.settings import settings_from
from dutiful.testing import VirtualClock

CLOCK = VirtualClock("2026-03-01T00:00:00")


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "keys.json").write_text(json.dumps({"keys": KEYS}), encoding="utf-8")
    clients = {"DNS:a": {"user_id": "a", "scope": "read"}}
    (tmp_path / "clients.json").write_text(json.dumps({"clients": clients}), encoding="utf-8")
    return {
        "DUTIFUL_JWT_KEYS": str(tmp_path / "keys.json"),
        "DUTIFUL_JWT_ISSUER": "https://issuer",
        "DUTIFUL_JWT_AUDIENCE": "dutiful",
        "DUTIFUL_TLS_CERT": "c.pem",
        "DUTIFUL_TLS_KEY": "k.pem",
        "DUTIFUL_TLS_CLIENT_CA": "ca.pem",
        "DUTIFUL_TLS_CLIENTS": str(tmp_path / "clients.json"),
    }


def test_on_the_loopback_without_auth_nobody_is_limited():
    settings = settings_from({})
    assert middleware_settings(settings, CLOCK) == MiddlewareSettings("127.0.0.1", Auth())
    assert tls_files(settings) is None


def test_tokens_and_clients_are_read_and_everybody_is_limited(environ):
    found = middleware_settings(settings_from(environ), CLOCK)
    assert found.rates is not None
    tokens, clients, sessions = found.auth
    assert sessions is not None
    assert (tokens.issuer, tokens.audience, [*tokens.keys.current()]) == (
        "https://issuer",
        "dutiful",
        [*KEYS],
    )
    assert [*clients.current()] == ["DNS:a"]


def test_with_tokens_a_client_may_come_without_certificate(environ):
    assert tls_files(settings_from(environ)) == TlsFiles("c.pem", "k.pem", "ca.pem", clients_required=False)
    certificates = {name: value for name, value in environ.items() if "JWT" not in name}
    assert tls_files(settings_from(certificates)) == TlsFiles(
        "c.pem", "k.pem", "ca.pem", clients_required=True
    )
    server = {name: environ[name] for name in ("DUTIFUL_TLS_CERT", "DUTIFUL_TLS_KEY")}
    assert tls_files(settings_from(server)) == TlsFiles("c.pem", "k.pem", None)


def test_files_that_cannot_be_read_stop_the_start(environ):
    with pytest.raises(KeyFileError):
        middleware_settings(settings_from({**environ, "DUTIFUL_JWT_KEYS": "absent.json"}), CLOCK)
    with pytest.raises(ClientsFileError):
        middleware_settings(settings_from({**environ, "DUTIFUL_TLS_CLIENTS": "absent.json"}), CLOCK)
