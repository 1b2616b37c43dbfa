"""`dutiful token`: tokens for development, signed with a key on this machine."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

import click

from dutiful.core.cron.duration import parse_duration
from dutiful.core.errors import IntervalParseError, InvalidArgumentError
from dutiful.httpd.auth import SCOPES
from dutiful.httpd.token_keys import Key, hmac_bytes, new_key_file, read_keys
from dutiful.httpd.tokens import LIFETIME_MAX
from dutiful.runtime.clock import SystemClock


@click.command()
@click.option("--keys", envvar="DUTIFUL_JWT_KEYS", required=True, metavar="FILE", help="The key file.")
@click.option("--issuer", envvar="DUTIFUL_JWT_ISSUER", default="dutiful-dev", show_default=True)
@click.option("--audience", envvar="DUTIFUL_JWT_AUDIENCE", default="dutiful", show_default=True)
@click.option("--user", default="developer", show_default=True, help="The `sub` of the token.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="May be repeated. [read]")
@click.option("--act-as", metavar="USER", multiple=True, help="May be repeated; * is every user. [nobody]")
@click.option("--expires", default="1h", show_default=True, metavar="DURATION", help="At most 1h.")
@click.option("--kid", metavar="NAME", help="Which key, if the file has several.")
@click.option("--new-key", is_flag=True, help="Make the key file first; it must not exist.")
def token(
    keys: str,
    issuer: str,
    audience: str,
    user: str,
    scopes: tuple[str, ...],
    act_as: tuple[str, ...],
    expires: str,
    kid: str | None,
    new_key: bool,
) -> None:
    """Print a token for development.

    The key file, the issuer and the audience are those of the service, if its variables are set.

    Example: dutiful token --keys dev-keys.json --new-key --user ada --scope read
    """
    lifetime = _lifetime(expires)
    if new_key:
        new_key_file(keys, kid or "dev")
    now = int(SystemClock().now().timestamp())
    claims = {
        "iss": issuer,
        "aud": audience,
        "sub": user,
        "scope": " ".join(scopes or ("read",)),
        **({"act_as": [*act_as]} if act_as else {}),
        "iat": now,
        "nbf": now,
        "exp": now + lifetime,
        "jti": secrets.token_hex(16),
    }
    click.echo(_signed(claims, *_signing_key(keys, kid)))


def _lifetime(text: str) -> int:
    try:
        lifetime = parse_duration(text)
    except IntervalParseError as error:
        raise InvalidArgumentError("expires", text, f"{error}; write e.g. 15m") from None
    if not timedelta(seconds=1) <= lifetime <= timedelta(seconds=LIFETIME_MAX):
        raise InvalidArgumentError("expires", text, "a token lives from 1s to 1h")
    return int(lifetime.total_seconds())


def _signing_key(path: str, kid: str | None) -> tuple[str, Key]:
    shared = {name: key for name, key in read_keys(path).items() if key.alg == "HS256"}
    if kid is None and len(shared) == 1:
        return next(iter(shared.items()))
    if kid not in shared:
        reason = f"choose an HS256 key of the file: {', '.join(sorted(shared)) or 'it has none'}"
        raise InvalidArgumentError("kid", kid, reason)
    return kid, shared[kid]


def _signed(claims: dict[str, Any], kid: str, key: Key) -> str:
    import jwt

    secret = hmac_bytes(key.material.reveal())
    assert secret is not None, "keys are checked when they are read"
    return jwt.encode(claims, secret, algorithm="HS256", headers={"kid": kid})
