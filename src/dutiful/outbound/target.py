"""The target of a request, parsed strictly, so that no other parser finds a different host in the URL."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from dutiful.outbound.guard import ForbiddenTargetError, is_host_name

if TYPE_CHECKING:
    from dutiful.outbound.guard import Address

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?(?P<path>[/?][!-~]*)?",
    re.IGNORECASE,
)
_LENGTH_MAX = 2048
_PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """Scheme, host, port and path of a URL; `address` is set if the host is an IP address."""

    scheme: str
    host: str
    port: int
    path: str
    address: Address | None

    @property
    def origin(self) -> str:
        """Return scheme, host and port, and nothing that could hold a secret."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def url_at(self, address: Address) -> str:
        """Return the URL with the address in place of the host."""
        literal = f"[{address}]" if address.version == 6 else str(address)
        return f"{self.scheme}://{literal}:{self.port}{self.path}"


# Cached: an executor sends every run to the same URL, and parsing took a tenth of a launch.
@lru_cache(maxsize=256)
def parse_target(url: str) -> Target:
    """Return the target of this URL, or raise ForbiddenTargetError."""
    if len(url) > _LENGTH_MAX:
        raise ForbiddenTargetError("the URL", f"it is longer than {_LENGTH_MAX} characters")
    # Errors do not quote the URL: a password or a token may be part of it.
    match = _URL.fullmatch(url)
    if match is None:
        advice = "write http://HOST/PATH or https://HOST/PATH in ASCII, without user, password or spaces"
        raise ForbiddenTargetError("the URL", advice)
    if "#" in (match["path"] or ""):
        raise ForbiddenTargetError("the URL", "a fragment is never sent; leave out what follows `#`")
    scheme, host = match["scheme"].lower(), match["host"].lower()
    port = int(match["port"] or _PORTS[scheme])
    if not 0 < port < 65536:
        raise ForbiddenTargetError(f"{host}:{port}", "a port is a number from 1 to 65535")
    path = match["path"] or "/"
    path = path if path.startswith("/") else f"/{path}"
    name = host.strip("[]").removesuffix(".")
    return Target(scheme, name, port, path, _address(host))


def _address(host: str) -> Address | None:
    text = host.strip("[]")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        if not is_host_name(text.removesuffix(".")):
            reason = "the host is neither a plain name nor a plainly written address"
            raise ForbiddenTargetError(host, reason) from None
        return None
    if (address.version == 6) != host.startswith("["):
        raise ForbiddenTargetError(host, "brackets are for IPv6 addresses, and IPv6 addresses need them")
    return address
