"""Clients that a certificate vouches for: exact names of certificates, and what they may do.

{"clients": {"DNS:deployer.internal": {"user_id": "deployer", "scope": "read write"},
             "URI:spiffe://prod/executor": {"user_id": "executor", "scope": "trigger"}}}
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import DutifulError, quoted
from dutiful.httpd.caller import SCOPES, Caller, granted
from dutiful.httpd.errors import InvalidJsonError, UnauthenticatedError
from dutiful.httpd.strict_json import decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAME = re.compile(r"(DNS|URI):[!-~]{1,512}")
_USER = re.compile(r"[!-~]{1,128}")
_FILE_MAX = 1_048_576


class ClientsFileError(DutifulError):
    """A file of clients cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{quoted(path, 4096)} cannot be used: {reason}", path=path, reason=reason)


def read_clients(path: str) -> Mapping[str, Caller]:
    """Return the callers by the names of their certificates, or raise ClientsFileError."""
    try:
        with open(path, "rb") as file:
            content = decode(file.read(_FILE_MAX))
    except OSError as error:
        raise ClientsFileError(path, str(error.strerror)) from None
    except InvalidJsonError as error:
        raise ClientsFileError(path, error.details["reason"]) from None
    clients = content.get("clients") if isinstance(content, dict) and len(content) == 1 else None
    if not isinstance(clients, dict) or not clients:
        raise ClientsFileError(path, 'write {"clients": {"DNS:NAME": {"user_id": …, "scope": …}}}')
    return {name: _client(path, name, entry) for name, entry in clients.items()}


def _client(path: str, name: str, entry: Any) -> Caller:
    place = f"client {quoted(name)!r}"
    if not _NAME.fullmatch(name) or "*" in name:
        raise ClientsFileError(path, f"{place}: write DNS:NAME or URI:NAME, exactly as in the certificate")
    if not isinstance(entry, dict) or {*entry} != {"user_id", "scope"}:
        raise ClientsFileError(path, f'{place}: write {{"user_id": …, "scope": …}} and nothing else')
    if not isinstance(entry["user_id"], str) or not _USER.fullmatch(entry["user_id"]):
        raise ClientsFileError(path, f"{place}: user_id has 1 to 128 visible ASCII characters")
    words = entry["scope"].split() if isinstance(entry["scope"], str) else [""]
    if not {*words} <= {*SCOPES}:
        raise ClientsFileError(path, f"{place}: scope is words of {', '.join(SCOPES)}")
    return Caller(entry["user_id"], granted(entry["scope"]), "certificate")


def caller_of(names: Sequence[str], clients: Mapping[str, Caller]) -> Caller:
    """Return whom a certificate with these names stands for, or raise UnauthenticatedError."""
    found = {clients[name] for name in names if name in clients}
    if len(found) != 1:
        code = "certificate_ambiguous" if found else "certificate_unknown"
        message = (
            "The certificate has names of several clients" if found else "No client has this certificate"
        )
        raise UnauthenticatedError(code, message)
    return found.pop()
