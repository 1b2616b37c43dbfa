"""Where a request may not go: every way to write, or to resolve to, an address that is not public."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from dutiful.outbound import Allowed, ForbiddenTargetError, Outbound, parse_target
from dutiful.outbound.guard import check

# Ways to write an address that is not public, or to write one so that readers disagree about it.
CORPUS = """
127.0.0.1 127.0.0.2 127.1 127.0.1 127.255.255.255 2130706433 0x7f000001 0x7f.1 0x7f.0.0.1 0177.0.0.1
017700000001 0177.0.0.01 127.0.0.01 00000127.0.0.1 127.0.0.1. 127.0.0.0x1 0 0.0.0.0 0.1.2.3 0x0 00 1
256.1.1.1 1.2.3 1.2.3.4.5 10.0.0.1 10.1 10.255.255.255 012.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1
192.168.1 192.168.257 3232235521 0xc0a80001 0300.0250.0.1 100.64.0.1 100.127.255.255 100.100.100.200
169.254.169.254 169.254.0.1 169.254.170.2 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.16689662
168.63.129.16 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.9
224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 4294967295 [::1] [::] [0:0:0:0:0:0:0:1] [::0001]
[0000::1] [::127.0.0.1] [::7f00:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::ffff:10.0.0.1]
[::ffff:169.254.169.254] [::ffff:8.8.8.8] [0:0:0:0:0:ffff:7f00:0001] [::ffff:0:127.0.0.1]
[64:ff9b::7f00:1] [64:ff9b::127.0.0.1] [64:ff9b::a9fe:a9fe] [64:ff9b::8.8.8.8] [64:ff9b:1::1]
[64:ff9b:1::7f00:1] [2002:7f00:1::] [2002:7f00:1::1] [2002:a9fe:a9fe::] [2002:c0a8:1::1] [2001::1]
[2001:0:7f00:1::1] [2001:0:4136:e378:8000:63bf:3fff:fdd2] [2001:db8::1] [2001:10::1] [2001:20::1]
[3fff::1] [5f00::1] [100::1] [fc00::1] [fd00::1] [fd00:ec2::254] [fdff:ffff::1] [fe80::1] [febf::1]
[fec0::1] [feff::1] [ff02::1] [ff0e::1] [4000::1] [2400::5efe:7f00:1] [2400::200:5efe:10.0.0.1]
[::8.8.8.8] [1::1] [fe80::1%25eth0] [fe80::1%eth0] [::1%25lo] ::1 [127.0.0.1] [::1 ::1] [] [::] [v1.x]
[::ffff:0177.0.0.1] １２７.0.0.1 127。0。0。1 ①②⑦.0.0.1 localhost% %6c%6f%63alhost 127.0.0.1%2f 127.0.0.1\\x
-a.example a-.example a..example .example example.. ex_ample! 0x7f.example.0x1 x.1 x.0x7f
"""
LITERALS = CORPUS.split()
# Names, and what they resolve to: one bad address among good ones is enough.
NAMES = {
    "localhost": ["127.0.0.1"],
    "localhost6.example": ["::1"],
    "loopback.example": ["93.184.215.14", "127.0.0.1"],
    "private.example": ["10.1.2.3"],
    "private-second.example": ["2606:4700::6810:84e5", "192.168.3.4"],
    "shared.example": ["100.64.9.9"],
    "metadata.google.internal": ["169.254.169.254"],
    "metadata-6.example": ["fd00:ec2::254"],
    "wire.example": ["168.63.129.16"],
    "mapped.example": ["::ffff:169.254.169.254"],
    "nat64.example": ["64:ff9b::a00:1"],
    "six-to-four.example": ["2002:a00:1::1"],
    "teredo.example": ["2001:0:a00:1::1"],
    "site-local.example": ["fec0::1"],
    "link-local.example": ["fe80::1"],
    "nowhere.example": ["0.0.0.0"],
    "everybody.example": ["255.255.255.255"],
    "many.example": ["224.0.0.251"],
    "compatible.example": ["::a00:1"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
}
FORMS = [
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "data:text/plain,x",
    "//example.com/",
    "example.com",
    "http:example.com",
    "http:/example.com",
    "http:///example.com",
    "http://",
    "http://user@example.com/",
    "http://user:word@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1\\@example.com/",
    "http://example.com\r\nHost: 127.0.0.1/",
    "http://example.com/\r\nX: y",
    "http://example.com/ x",
    "http://example.com/\x00",
    "http://example.com/é",
    "http://example.com/#part",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:-1/",
    "http://example.com:8o80/",
    "http://example.com:22/",
    "http://example.com:6379/",
    "https://example.com:8443/",
    " http://example.com/",
    "http://example.com/" + "x" * 3000,
]
PUBLIC = {"example.com": ["93.184.215.14", "2606:4700::6810:84e5"]}


async def resolve(host: str, _port: int) -> list[str]:
    return {**NAMES, **PUBLIC}[host]


def target_of(url: str) -> str:
    """Return where a request would be sent, or raise ForbiddenTargetError; nothing is sent."""
    target = parse_target(url)
    found = [str(target.address)] if target.address else asyncio.run(resolve(target.host, target.port))
    check(target.host, target.port, map(ipaddress.ip_address, found), Allowed())
    return target.url_at(ipaddress.ip_address(found[0]))


def test_the_corpus_is_large():
    assert len({*LITERALS}) + len(NAMES) + len(FORMS) > 180


@pytest.mark.parametrize("host", sorted({*LITERALS}))
def test_a_literal_that_is_not_public_or_not_plain_is_refused(host):
    with pytest.raises(ForbiddenTargetError):
        target_of(f"http://{host}/")


@pytest.mark.parametrize("host", NAMES)
def test_a_name_with_an_address_that_is_not_public_is_refused(host):
    outbound = Outbound(resolver=resolve)
    with pytest.raises(ForbiddenTargetError):
        asyncio.run(outbound.send("GET", f"https://{host}/"))


@pytest.mark.parametrize("url", FORMS, ids=ascii)
def test_a_url_that_is_not_plain_is_refused(url):
    with pytest.raises(ForbiddenTargetError):
        target_of(url)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://example.com", "http://93.184.215.14:80/"),
        ("HTTPS://Example.COM./a?b=c", "https://93.184.215.14:443/a?b=c"),
        ("http://8.8.8.8:443/", "http://8.8.8.8:443/"),
        ("https://[2606:4700::6810:84e5]/x", "https://[2606:4700::6810:84e5]:443/x"),
        ("http://example.com?q=1", "http://93.184.215.14:80/?q=1"),
    ],
)
def test_a_public_host_is_connected_to_by_its_address(url, target):
    assert target_of(url) == target


def refused(host: str, port: int, address: str, *allow: str) -> bool:
    try:
        check(host, port, [ipaddress.ip_address(address)], Allowed.parse(allow))
    except ForbiddenTargetError:
        return True
    return False


@pytest.mark.parametrize(
    ("host", "port", "address", "allow", "expected"),
    [
        ("build.internal", 80, "10.0.0.5", [], True),
        ("build.internal", 80, "10.0.0.5", ["build.internal"], False),
        ("build.internal", 80, "10.0.0.5", ["Build.Internal"], False),
        ("build.internal", 8080, "10.0.0.5", ["build.internal"], False),
        ("build.internal", 8080, "10.0.0.5", ["10.0.0.0/8"], False),
        ("build.internal", 80, "10.0.0.5", ["10.0.0.6"], True),
        ("build.internal", 80, "10.0.0.5", ["other.internal"], True),
        ("sub.build.internal", 80, "10.0.0.5", ["build.internal"], True),
        # A name is trusted with the inside, not with the metadata service.
        ("build.internal", 80, "169.254.169.254", ["build.internal"], True),
        ("169.254.169.254", 80, "169.254.169.254", ["169.254.169.254/32"], False),
        ("build.internal", 80, "::ffff:10.0.0.5", ["10.0.0.0/8", "build.internal"], True),
        ("example.com", 8443, "93.184.215.14", [], True),
        ("example.com", 8443, "93.184.215.14", ["example.com"], False),
        ("127.0.0.1", 8080, "127.0.0.1", ["127.0.0.1"], False),
        ("::1", 8080, "::1", ["::1"], False),
    ],
)
def test_a_host_that_the_operator_names_is_open(host, port, address, allow, expected):
    assert refused(host, port, address, *allow) is expected


@pytest.mark.parametrize(
    "entry", ["http://x", "10.0.0.1/8", "1.2.3", "*.example", "a b", "0x7f.1", "host:80"]
)
def test_an_entry_that_opens_nothing_is_refused(entry):
    with pytest.raises(ValueError, match="neither a host name nor a network"):
        Allowed.parse([entry])


def test_a_refusal_never_shows_the_url():
    for url in ("http://ada:canary-81@example.com/", "http://example.com/?canary-81" + "x" * 3000):
        with pytest.raises(ForbiddenTargetError) as caught:
            parse_target(url)
        assert "canary-81" not in f"{caught.value} {caught.value.details}"
