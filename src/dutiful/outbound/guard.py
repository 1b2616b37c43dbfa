"""The guard against server-side request forgery: which addresses a request may go to.

Public addresses are open, and those that the operator lists.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dutiful.core.errors import DutifulError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable


Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"

_HOST_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
PORTS = (80, 443)


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(map(ipaddress.ip_network, text.split()))


# Loopback, private and shared networks: listing a host name opens them, if the name resolves there.
_INSIDE = _networks("127.0.0.0/8 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 ::1/128 fc00::/7")
# Link-local, metadata services, documentation, benchmarks, multicast, reserved: listing the address itself
# opens them, listing a name does not.
_NOWHERE_4 = _networks(
    "0.0.0.0/8 100.100.100.200/32 168.63.129.16/32 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24"
    " 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
)
# Of IPv6 only global unicast is public, without documentation, Teredo, 6to4 and other ways to wrap IPv4.
_GLOBAL_6 = ipaddress.ip_network("2000::/3")
_NOWHERE_6 = _networks("2001::/23 2001:db8::/32 2002::/16 3fff::/20 fd00:ec2::254/128")
# An interface identifier of this form also wraps an IPv4 address (ISATAP).
_ISATAP = re.compile(r"0[02]00:?5efe")


class ForbiddenTargetError(DutifulError):
    """The guard refuses the target of a request; nothing was sent."""

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(f"{quoted(target)} is refused: {reason}", target=target, reason=reason)


class Allowed(NamedTuple):
    """Hosts and networks that the operator has opened beyond the public internet."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    # The name of the setting that lists them, for errors.
    setting: str = "`allow`"

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Allowed:
        """Return the hosts and networks in these entries; raises ValueError that quotes a bad entry."""
        hosts, networks = set[str](), list[Network]()
        for entry in entries:
            try:
                networks.append(ipaddress.ip_network(entry))
            except ValueError:
                if not is_host_name(entry.lower()):
                    raise ValueError(f"{quoted(entry)!r} is neither a host name nor a network") from None
                hosts.add(entry.lower())
        return cls(frozenset(hosts), tuple(networks))

    def names(self, address: Address) -> bool:
        """Return whether one of the networks contains the address."""
        return any(address in network for network in self.networks)


def is_host_name(text: str) -> bool:
    """Return whether this is a plain host name: ASCII, lower case, and no spelling of an IPv4 number."""
    last = text.rpartition(".")[2]
    is_number = last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last) is not None
    return _HOST_NAME.fullmatch(text) is not None and not is_number


def check(host: str, port: int, addresses: Iterable[Address], allowed: Allowed) -> None:
    """Raise ForbiddenTargetError unless every address may be connected to at this port."""
    for address in addresses:
        opened = allowed.names(address)
        if not opened and (reason := _why_not(host, address, allowed)):
            raise ForbiddenTargetError(host, f"{reason}; list it under {allowed.setting} if that is meant")
        if port not in PORTS and not opened and host not in allowed.hosts:
            advice = f"only ports 80 and 443 are open; list the host under {allowed.setting}"
            raise ForbiddenTargetError(f"{host}:{port}", advice)


def _why_not(host: str, address: Address, allowed: Allowed) -> str | None:
    if _is_nowhere(address):
        return f"{address} is not a public address, and only naming that address opens it"
    if any(address in network for network in _INSIDE) and host not in allowed.hosts:
        return f"{address} is not a public address"
    return None


def _is_nowhere(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return any(address in network for network in _NOWHERE_4)
    if any(address in network for network in _NOWHERE_6):
        return True
    if any(address in network for network in _INSIDE):
        return False
    return address not in _GLOBAL_6 or _ISATAP.match(address.exploded[20:]) is not None


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
