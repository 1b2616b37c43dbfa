"""How long the certificates of TLS are good for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.httpd.tls import TlsError

if TYPE_CHECKING:
    from datetime import datetime

    from dutiful.httpd.tls import TlsFiles


def expiries(files: TlsFiles) -> dict[str, datetime]:
    """Return when the first certificate of the server's chain, and of the clients' authorities, expires.

    Raises TlsError for a file that cannot be read.
    """
    named = {"server": files.cert, "client_ca": files.client_ca}
    return {name: _first_expiry(files, path) for name, path in named.items() if path is not None}


def _first_expiry(files: TlsFiles, path: str) -> datetime:
    # Heavy, and of no use without TLS.
    from cryptography import x509

    try:
        with open(path, "rb") as file:
            certificates = x509.load_pem_x509_certificates(file.read())
    except (OSError, ValueError) as error:
        raise TlsError(files, str(error)) from None
    return min(certificate.not_valid_after_utc for certificate in certificates)
