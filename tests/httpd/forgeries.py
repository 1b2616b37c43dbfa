"""Tokens that must be refused, each with the code of why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.httpd.mint import (
    CLAIMS,
    ED,
    HEADER,
    NOW,
    RSA,
    SHARED,
    STRANGER,
    b64,
    claims,
    es256,
    header,
    hs256,
    pem,
    rs256,
    token,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Forgery = tuple[str, str, str]
GOOD = token()
HEAD, PAYLOAD, SIGNATURE = GOOD.split(".")


def forgeries() -> list[Forgery]:
    """Return (what it is, the code, the token)."""
    found = [
        *misshapen(),
        *other_algorithms(),
        *confused_keys(),
        *unknown_keys(),
        *persuasive_headers(),
        *broken_signatures(),
        *wrong_times(),
        *wrong_claims(),
    ]
    assert len({name for name, *_ in found}) == len(found), "give every forgery a name of its own"
    return found


def misshapen() -> Iterator[Forgery]:
    shapes = {
        "nothing": "",
        "a dot": ".",
        "two dots": "..",
        "one part": HEAD,
        "two parts": f"{HEAD}.{PAYLOAD}",
        "four parts": f"{GOOD}.{SIGNATURE}",
        "five parts, as if encrypted": f"{GOOD}.a.b",
        "no signature": f"{HEAD}.{PAYLOAD}.",
        "no header": f".{PAYLOAD}.{SIGNATURE}",
        "no payload": f"{HEAD}..{SIGNATURE}",
        "a blank inside": f"{HEAD}. {PAYLOAD}.{SIGNATURE}",
        "a line end behind": f"{GOOD}\n",
        "padding": f"{HEAD}==.{PAYLOAD}.{SIGNATURE}",
        "plain base64": GOOD.replace(".", "+."),
        "a NUL": f"{GOOD}\0",
        "full-width dots": GOOD.replace(".", "．"),
        "JSON serialisation": json.dumps({"payload": PAYLOAD, "protected": HEAD, "signature": SIGNATURE}),
        "a header that is no JSON": token(b"{alg: EdDSA}"),
        "a header that is a list": token(b"[]"),
        "a header that is null": token(b"null"),
        "a header that is a number": token(b"1"),
        "a header with a key twice": token(b'{"alg":"EdDSA","kid":"ed","kid":"ed"}'),
        "a header with NaN": token(b'{"alg":"EdDSA","kid":NaN}'),
        "a header in UTF-16": token(json.dumps(HEADER).encode("utf-16")),
        "a header with a BOM": token(b"\xef\xbb\xbf" + json.dumps(HEADER).encode()),
        "a header nested deep": token(b'{"kid":' + b"[" * 2000 + b"]" * 2000 + b"}"),
        "unused bits in the header": f"{HEAD[:-1]}{chr(ord(HEAD[-1]) + 1)}.{PAYLOAD}.{SIGNATURE}",
        "a payload that is no JSON": token(claims=b"sub=ada"),
        "a payload that is a list": token(claims=b"[]"),
        "a payload that is a text": token(claims=b'"ada"'),
        "a payload with sub twice": token(claims=json.dumps(CLAIMS).encode()[:-1] + b',"sub":"root"}'),
        "a payload with infinity": token(claims=json.dumps(CLAIMS).encode()[:-1] + b',"x":1e999}'),
        "a payload nested deep": token(
            claims=json.dumps(CLAIMS).encode()[:-1] + b',"x":' + b"[" * 40 + b"]" * 40 + b"}"
        ),
        "a payload with half a character": token(claims=claims(x="\ud800")),
        "a token in a token": token(claims=b64(GOOD.encode()).encode()),
    }
    for name, text in shapes.items():
        yield name, "token_malformed", text
    yield "a huge payload", "token_too_large", token(claims=claims(x="x" * 9000))
    yield "a huge header", "token_too_large", token(header(x="x" * 9000))
    yield "a megabyte of dots", "token_too_large", "." * 1_000_000
    yield "one byte too many", "token_too_large", GOOD + "A" * (8193 - len(GOOD))


def other_algorithms() -> Iterator[Forgery]:
    for name in ("none", "None", "NONE", "nOnE", "none ", ""):
        yield f"alg {name!r} unsigned", "token_algorithm", token(header(alg=name), sign=lambda _: b"\0")
    for name in ("HS256", "HS384", "HS512", "RS256", "RS384", "PS256", "ES256", "ES384", "ES256K", "ES512"):
        yield f"alg {name} for an EdDSA key", "token_algorithm", token(header(alg=name))
    for name in ("eddsa", "EDDSA", "Ed25519", "EdDSA\0", "dir", "A128KW", "RSA1_5"):
        yield f"alg {name!r}", "token_algorithm", token(header(alg=name))
    for name, value in {
        "no alg": ...,
        "alg null": None,
        "alg a list": ["EdDSA"],
        "alg 0": 0,
        "alg an object": {},
    }.items():
        yield name, "token_algorithm", token(header(alg=value))
    for value in ("JWE", "at+jwt", "jwt", "", None, ["JWT"]):
        yield f"typ {value!r}", "token_algorithm", token(header(typ=value))


def confused_keys() -> Iterator[Forgery]:
    """The public key is known to everybody: it must not pass for a shared one."""
    for kid, key in (("ed", ED), ("rsa", RSA)):
        for shape, secret in {"PEM": pem(key), "PEM without its end": pem(key).strip()}.items():
            forged = token(
                header(alg="HS256", kid=kid),
                sign=lambda message, secret=secret: hs256(message, secret.encode()),
            )
            yield f"HS256 with the public {kid} key as {shape}", "token_algorithm", forged
    yield "RS256 for the shared key", "token_algorithm", token(header(alg="RS256", kid="hmac"), sign=rs256)
    yield (
        "an RSA signature under the shared key",
        "token_signature",
        token(header(alg="HS256", kid="hmac"), sign=rs256),
    )
    yield "an HMAC under the RSA key", "token_signature", token(header(alg="RS256", kid="rsa"), sign=hs256)
    yield "an HMAC under the EdDSA key", "token_signature", token(sign=hs256)
    yield "an ES256 signature under the EdDSA key", "token_signature", token(sign=es256)
    empty = token(header(alg="HS256", kid="hmac"), sign=lambda message: hs256(message, b""))
    yield "an HMAC with the empty key", "token_signature", empty
    text = token(header(alg="HS256", kid="hmac"), sign=lambda message: hs256(message, b64(SHARED).encode()))
    yield "an HMAC with the text of the key", "token_signature", text


def unknown_keys() -> Iterator[Forgery]:
    names = [
        "", "ED", " ed", "ed ", "ed\0", "ed\n", "other", "ed,rsa", "*", "%", "ed%00", "../ed",
        "../../etc/passwd",
        "/dev/null", "/proc/self/environ", "..\\..\\keys", "file:///dev/null", "https://evil.example/key",
        "' OR '1'='1", "ed' --", "x' UNION SELECT 'aa", "ed'; DROP TABLE keys; --", "$(id)", "`id`", "| cat",
        "{{7*7}}",
        "${jndi:ldap://x/a}", "__proto__", "__class__", "constructor", "key" * 40, "ｅｄ", "0", "null",
    ]  # fmt: skip
    for kid in names:
        yield f"kid {kid!r}", "token_key_unknown", token(header(kid=kid))
    others = {
        "a list": ["ed"],
        "an object": {"ed": 1},
        "true": True,
        "a number": 1,
        "null": None,
        "absent": ...,
    }
    for name, value in others.items():
        yield f"kid that is {name}", "token_key_unknown", token(header(kid=value))


def persuasive_headers() -> Iterator[Forgery]:
    own = b64(STRANGER.public_key().public_bytes_raw())
    extras = {
        "jku": "https://evil.example/jwks.json",
        "x5u": "https://evil.example/cert.pem",
        "jwk": {"kty": "OKP", "crv": "Ed25519", "x": own},
        "x5c": [own],
        "x5t": own,
        "crit": ["exp"],
        "b64": False,
        "zip": "DEF",
        "cty": "JWT",
        "enc": "A128GCM",
        "kids": ["ed"],
        "": "",
    }
    for name, value in extras.items():
        yield f"header {name!r}", "token_header_refused", token(header(**{name: value}), sign=STRANGER.sign)
        yield f"header {name!r}, signed by us", "token_header_refused", token(header(**{name: value}))
    both = header(crit=["b64"], b64=False)
    yield "crit that names b64", "token_header_refused", token(both)


def broken_signatures() -> Iterator[Forgery]:
    stranger = token(sign=STRANGER.sign)
    yield "signed by a stranger", "token_signature", stranger
    yield (
        "a payload of another token",
        "token_signature",
        f"{HEAD}.{token(claims=claims(sub='root')).split('.')[1]}.{SIGNATURE}",
    )
    yield "a header of another key", "token_signature", token(header(kid="rsa", alg="RS256"), sign=ED.sign)
    for name, sign in {
        "zeros": lambda _: bytes(64),
        "one byte": lambda _: b"\0",
        "a flipped bit": lambda message: bytes([ED.sign(message)[0] ^ 1]) + ED.sign(message)[1:],
        "cut": lambda message: ED.sign(message)[:-1],
        "doubled": lambda message: ED.sign(message) * 2,
    }.items():
        yield f"signature: {name}", "token_signature", token(sign=sign)
    for size in (0, 64):
        yield (
            f"ES256 with {size} zero bytes",
            "token_signature",
            token(header(alg="ES256", kid="ec"), sign=lambda _, n=size: bytes(n) or b"\0"),
        )


def wrong_times() -> Iterator[Forgery]:
    yield "expired", "token_expired", token(claims=claims(iat=NOW - 700, nbf=NOW - 700, exp=NOW - 100))
    yield "expired at the edge of the leeway", "token_expired", token(claims=claims(exp=NOW - 30))
    yield "expired in 1970", "token_expired", token(claims=claims(iat=0, nbf=0, exp=0))
    yield "not before later", "token_not_yet_valid", token(claims=claims(nbf=NOW + 31))
    yield "issued in the future", "token_not_yet_valid", token(claims=claims(iat=NOW + 60))
    yield "a life of two hours", "token_lifetime", token(claims=claims(exp=NOW - 10 + 7200))
    yield "one second too long", "token_lifetime", token(claims=claims(exp=NOW - 10 + 3601))
    yield "a life of centuries", "token_lifetime", token(claims=claims(exp=2**39))
    yield "issued long ago", "token_lifetime", token(claims=claims(iat=0))
    yield "expires before it was issued", "token_lifetime", token(claims=claims(iat=NOW + 20, exp=NOW + 10))
    for name in ("exp", "nbf", "iat"):
        for value in ("soon", str(NOW + 60), True, None, [NOW + 60], -1, 2**40, 1e300, {}):
            yield f"{name} that is {value!r}", "token_malformed", token(claims=claims(**{name: value}))


def wrong_claims() -> Iterator[Forgery]:
    for name in ("iss", "aud", "sub", "exp", "nbf", "iat"):
        yield f"without {name}", "token_claim_missing", token(claims=claims(**{name: ...}))
    yield "without anything", "token_claim_missing", token(claims={})
    for value in ("https://evil.example", "https://issuer.example/", "", None, ["https://issuer.example"], 1):
        yield f"iss {value!r}", "token_issuer", token(claims=claims(iss=value))
    for value in ("other", "dutiful2", "Dutiful", "", None, [], ["other"], [["dutiful"]], {"dutiful": 1}, 0):
        yield f"aud {value!r}", "token_audience", token(claims=claims(aud=value))
    for value in ("", "ada\n", "a\u2028b", "x" * 256, None, 7, ["ada"]):
        yield f"sub {str(value)[:8]!r} {len(str(value))}", "token_malformed", token(claims=claims(sub=value))
