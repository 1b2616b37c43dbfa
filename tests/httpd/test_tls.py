"""Client certificates: real handshakes with made-up authorities."""

from __future__ import annotations

import json
import socket
import ssl
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
import trustme
from tests.httpd.middleware_server import LOOPBACK, middleware_server, request
from tests.httpd.mint import CLAIMS, KEYS, NOW, token

from dutiful.httpd.auth import Auth, read_clients
from dutiful.httpd.limits import Limits
from dutiful.httpd.reloading_file import ReloadingFile
from dutiful.httpd.tls import TlsError, TlsFiles, peer_names, server_context
from dutiful.httpd.token_keys import read_keys
from dutiful.httpd.tokens import TokenCheck
from dutiful.testing import VirtualClock


class Folder(NamedTuple):
    """A server's files, with the authorities of its own and of its clients."""

    files: TlsFiles
    server_ca: trustme.CA
    client_ca: trustme.CA
    auth: Auth


def write_server(folder, ca: trustme.CA) -> None:
    certificate = ca.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")


@pytest.fixture
def folder(tmp_path):
    server_ca, client_ca = trustme.CA(), trustme.CA()
    write_server(tmp_path, server_ca)
    client_ca.cert_pem.write_to_path(tmp_path / "clients.pem")
    names = {"DNS:deployer.internal": {"user_id": "deployer", "scope": "read write"}}
    clients = tmp_path / "clients.json"
    clients.write_text(json.dumps({"clients": names}), encoding="utf-8")
    paths = (str(tmp_path / name) for name in ("cert.pem", "key.pem", "clients.pem"))
    watched = ReloadingFile((str(clients),), lambda: read_clients(str(clients)))
    return Folder(TlsFiles(*paths), server_ca, client_ca, Auth(clients=watched))


def client(folder: Folder, *names: str, ca: trustme.CA | None = None) -> ssl.SSLContext:
    """Return the TLS of a client with a certificate for these names, without names for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    folder.server_ca.configure_trust(context)
    if names:
        (ca or folder.client_ca).issue_cert(*names).configure_cert(context)
    return context


DEPLOYER = ["deployer", ["read", "write"], "certificate"]


def test_the_certificate_names_the_caller(folder):
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        status, _, content = request(port, context=client(folder, "deployer.internal"))
    assert (status, content["caller"]) == (200, DEPLOYER)


def test_every_connection_has_its_own_caller(folder):
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        asked = [
            client(folder, name) for name in ("deployer.internal", "other.internal", "deployer.internal")
        ]
        assert [request(port, context=context)[0] for context in asked] == [200, 401, 200]


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def is_closed(peer: socket.socket) -> bool:
    """Return whether the server has closed a connection on which it never says anything."""
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_handshake_that_never_begins_is_given_up(folder):
    with (
        middleware_server(LOOPBACK, folder.files, Limits(head_seconds=0.3)) as port,
        connected(port) as silent,
        connected(port) as slow,
    ):
        # The first byte of a handshake, and no more.
        slow.sendall(b"\x16")
        assert [is_closed(silent), is_closed(slow)] == [True, True]


def test_handshakes_count_among_the_connections_of_an_address(folder):
    context = client(folder, "deployer.internal")
    with middleware_server(LOOPBACK, folder.files, Limits(connections=2)) as port, connected(port) as first:
        with connected(port) as second, connected(port) as third:
            assert is_closed(third)
            second.setblocking(False)
            with pytest.raises(BlockingIOError):
                second.recv(1)
        # The place of the second is free again; that of the first is not.
        assert free_again(port, context) == 200
        first.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_closed(first)


def free_again(port: int, context: ssl.SSLContext) -> int:
    """Return the status of a request, sent again until the server has noticed that a peer is gone."""
    while True:
        try:
            return request(port, context=context)[0]
        except (ConnectionResetError, ssl.SSLError):
            continue


def test_a_request_that_comes_along_with_the_end_of_the_handshake_is_answered(folder):
    # Many, because it depends on how the packets fall.
    context = client(folder, "deployer.internal")
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        assert {request(port, context=context)[0] for _ in range(40)} == {200}


@pytest.mark.parametrize(
    "name", ["other.internal", "x.deployer.internal", "*.internal", "deployer.internal.evil.example"]
)
def test_a_certificate_with_another_name_is_not_a_client(folder, name):
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        status, _, content = request(port, context=client(folder, name))
    assert (status, content["error"]["code"]) == (401, "certificate_unknown")


def test_a_common_name_is_no_name(folder):
    context = client(folder)
    folder.client_ca.issue_cert("x.example", common_name="deployer.internal").configure_cert(context)
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        assert request(port, context=context)[0] == 401


def refused(port: int, context: ssl.SSLContext) -> bool:
    """Return whether the handshake fails, at once or, in TLS 1.3, at the first reading."""
    try:
        request(port, context=context)
    except (ssl.SSLError, ConnectionError):
        return True
    return False


def test_a_client_without_a_certificate_of_our_authority_cannot_connect(folder):
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        assert refused(port, client(folder))
        assert refused(port, client(folder, "deployer.internal", ca=trustme.CA()))
        assert refused(port, client(folder, "deployer.internal", ca=folder.server_ca))
        assert not refused(port, client(folder, "deployer.internal"))


def test_old_versions_of_tls_are_refused(folder):
    context = client(folder, "deployer.internal")
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        assert refused(port, context)
    assert server_context(folder.files).minimum_version is ssl.TLSVersion.TLSv1_2


def test_with_tokens_a_certificate_is_optional_and_a_bad_token_never_is(folder, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": KEYS}), encoding="utf-8")
    keys = ReloadingFile((str(path),), lambda: read_keys(str(path)))
    clock = VirtualClock(datetime.fromtimestamp(NOW, UTC))
    auth = folder.auth._replace(tokens=TokenCheck(keys, CLAIMS["iss"], CLAIMS["aud"], clock))
    files = folder.files._replace(clients_required=False)
    good, bad = ({"Authorization": f"Bearer {text}"} for text in (token(), token()[:-4]))
    with middleware_server(LOOPBACK._replace(auth=auth), files) as port:
        deployer, nobody = client(folder, "deployer.internal"), client(folder)
        assert request(port, context=nobody, headers=good)[2]["caller"] == ["ada", ["read", "write"], "token"]
        assert request(port, context=deployer)[2]["caller"] == DEPLOYER
        assert request(port, context=deployer, headers=good)[2]["caller"][0] == "ada"
        assert request(port, context=deployer, headers=bad)[0] == 401
        advice = "send `Authorization: Bearer TOKEN` or connect with a client certificate"
        told = {"code": "token_missing", "message": f"Say who you are: {advice}", "details": {}}
        assert request(port, context=nobody)[2]["error"] == told
        assert refused(port, client(folder, "deployer.internal", ca=trustme.CA()))


def test_a_browser_with_a_certificate_does_not_act_for_foreign_pages(folder):
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        answer = request(
            port,
            "POST",
            context=client(folder, "deployer.internal"),
            headers={"Origin": "https://evil.example"},
        )
    assert (answer[0], answer[2]["error"]["code"]) == (403, "foreign_origin")


def test_certificates_and_authorities_are_replaced_without_a_restart(folder, tmp_path, caplog):
    new_server, new_client = trustme.CA(), trustme.CA()
    old = client(folder, "deployer.internal")
    with middleware_server(LOOPBACK._replace(auth=folder.auth), folder.files) as port:
        assert request(port, context=old)[0] == 200
        (tmp_path / "key.pem").write_text("half", encoding="utf-8")
        assert request(port, context=old)[0] == 200
        write_server(tmp_path, new_server)
        new_client.cert_pem.write_to_path(tmp_path / "clients.pem")
        assert refused(port, old)
        replaced = folder._replace(server_ca=new_server, client_ca=new_client)
        assert request(port, context=client(replaced, "deployer.internal"))[2]["caller"] == DEPLOYER
        assert refused(port, client(replaced, "deployer.internal", ca=folder.client_ca))
    (message,) = [record.getMessage() for record in caplog.records if record.name == "dutiful"]
    assert message.startswith("TLS cannot be set up from ")
    assert message.endswith("what was read before stays in force")


@pytest.mark.parametrize("broken", ["cert.pem", "key.pem", "clients.pem"])
def test_files_that_cannot_be_used_are_refused_at_once(folder, tmp_path, broken):
    (tmp_path / broken).write_text("nothing", encoding="utf-8")
    with pytest.raises(TlsError, match="TLS cannot be set up from "):
        server_context(folder.files)
    (tmp_path / broken).unlink()
    with pytest.raises(TlsError, match="No such file"):
        server_context(folder.files)


def test_only_names_that_an_authority_has_checked_count():
    certificate = {
        "subject": ((("commonName", "deployer.internal"),),),
        "subjectAltName": (
            ("DNS", "a.internal"),
            ("URI", "spiffe://prod/a"),
            ("IP Address", "10.0.0.1"),
            ("email", "a@internal"),
        ),
    }
    assert peer_names(certificate) == ("DNS:a.internal", "URI:spiffe://prod/a")
    assert (peer_names(None), peer_names({})) == ((), ())
