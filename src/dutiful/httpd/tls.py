"""TLS of the server: TLS 1.2 or newer, client certificates of private authorities, files reloaded."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import DutifulError
from dutiful.httpd.reloading_file import ReloadingFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class TlsError(DutifulError):
    """The certificate, the key or the authorities cannot be used."""

    def __init__(self, files: TlsFiles, reason: str) -> None:
        message = f"TLS cannot be set up from {', '.join(files.paths())}: {reason}"
        super().__init__(message, files=[*files.paths()], reason=reason)


class TlsFiles(NamedTuple):
    """Files of the server's certificate, its key, and the authorities of clients, if clients have any.

    `clients_required` refuses the connection of a client without certificate; else it may show a token.
    """

    cert: str
    key: str
    client_ca: str | None = None
    clients_required: bool = True

    def paths(self) -> tuple[str, ...]:
        """Return the files that there are."""
        return tuple(path for path in (self.cert, self.key, self.client_ca) if path is not None)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context whose new connections use the files as they are then; raises TlsError."""
    watched = ReloadingFile(files.paths(), lambda: _context(files))

    def refresh(connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        connection.context = watched.current()

    front = _context(files)
    # OpenSSL calls this for every ClientHello, also for a ClientHello without a server name.
    front.sni_callback = refresh
    return front


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.cert, files.key)
        if files.client_ca is not None:
            # Trust only these: no public authority may issue certificates for our clients.
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED if files.clients_required else ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise TlsError(files, str(error)) from None
    return context


def peer_names(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the DNS and URI names of a verified client certificate, as KIND:NAME."""
    names = (certificate or {}).get("subjectAltName", ())
    return tuple(f"{kind}:{name}" for kind, name in names if kind in {"DNS", "URI"})


def expiries(files: TlsFiles) -> dict[str, datetime]:
    """Return when the first certificate of the server's chain, and of the clients' authorities, expires.

    Raises TlsError for a file that cannot be read.
    """
    named = {"server": files.cert, "client_ca": files.client_ca}
    return {name: _first_expiry(files, path) for name, path in named.items() if path is not None}


def _first_expiry(files: TlsFiles, path: str) -> datetime:
    # Imported late: it is slow to import, and only needed with TLS.
    from cryptography import x509

    try:
        with open(path, "rb") as file:
            certificates = x509.load_pem_x509_certificates(file.read())
    except (OSError, ValueError) as error:
        raise TlsError(files, str(error)) from None
    return min(certificate.not_valid_after_utc for certificate in certificates)
