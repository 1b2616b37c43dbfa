"""TLS of the server: TLS 1.2 or newer, clients vouched for by private authorities, files read again."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import DutifulError
from dutiful.httpd.reloading_file import Watched

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    watched = Watched(files.paths(), lambda: _context(files))

    def refresh(connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        connection.context = watched.current()

    front = _context(files)
    # Called for every client hello, also for one that names no server.
    front.sni_callback = refresh
    return front


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(files.cert, files.key)
        if files.client_ca is not None:
            # Only these: no public authority can make a client of ours.
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED if files.clients_required else ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise TlsError(files, str(error)) from None
    return context


def peer_names(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the DNS and URI names of a client's certificate, which was checked, as KIND:NAME."""
    names = (certificate or {}).get("subjectAltName", ())
    return tuple(f"{kind}:{name}" for kind, name in names if kind in {"DNS", "URI"})
