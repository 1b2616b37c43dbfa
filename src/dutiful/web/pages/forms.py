"""Forms of the pages: their fields, and the proof that a page of this service sent them.

A browser sends its cookies along with a form that any site posts here. So each form has a field that only a
page of this service can know: a keyed hash of a secret in an HttpOnly cookie and the user, masked anew each
time.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from dutiful.httpd.errors import RequestRefusedError

if TYPE_CHECKING:
    from fastapi import Request, Response

NOTE_MAX = 1000
"""The most characters of the note of a pause."""
FIELD = "csrf"
PROOF_COOKIES = ("dutiful-csrf", "__Host-dutiful-csrf")
"""The cookies of plain HTTP and of TLS that hold the secret of a browser."""
_SECRET_BYTES = 32
_FIELDS_MAX = 100


class ForgedFormError(RequestRefusedError):
    """A form was not sent by a page of this service, or its page is too old."""

    status = 403
    code = "form_refused"

    def __init__(
        self, why: str, way_out: str = "Go back, load the page again, and send it once more."
    ) -> None:
        super().__init__(f"This form was refused: {why}. {way_out}")


def cookie_name(request: Request) -> str:
    """Return the name of the cookie; with TLS its prefix makes browsers bind the cookie to this host."""
    return PROOF_COOKIES[request.url.scheme == "https"]


def secret_of(request: Request) -> str:
    """Return the secret of this browser, or a new one if it has none."""
    known = getattr(request.state, "csrf_secret", None) or request.cookies.get(cookie_name(request), "")
    if len(known) != 2 * _SECRET_BYTES:
        known = secrets.token_hex(_SECRET_BYTES)
    request.state.csrf_secret = known
    return str(known)


def field_value(request: Request) -> str:
    """Return the value of the hidden field, masked anew so that compression leaks nothing about it."""
    mask = secrets.token_bytes(_SECRET_BYTES)
    proof = _proof(secret_of(request), request.state.caller.user_id)
    return (mask + bytes(a ^ b for a, b in zip(mask, proof, strict=True))).hex()


def keep_secret(request: Request, response: Response) -> None:
    """Set the cookie if this request made a new secret."""
    made = getattr(request.state, "csrf_secret", None)
    if made is not None and request.cookies.get(cookie_name(request)) != made:
        secure = request.url.scheme == "https"
        response.set_cookie(
            cookie_name(request), made, httponly=True, secure=secure, samesite="lax", path="/"
        )


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form, or raise ForgedFormError; the last value of a field counts.

    A form of an own page whose proof is wrong, such as one of another login, stays in `request.state.kept`.
    """
    demand_same_origin(request)
    form, proof = fields_of(await request.body())
    if not _is_proof(request, proof):
        request.state.kept = form
        way_out = "Nothing was changed. If it is what you filled in, send it again."
        raise ForgedFormError("its page is too old, or of another login", way_out)
    return form


def fields_of(body: bytes) -> tuple[dict[str, str], str]:
    """Return the fields of a form and the proof of its page; raises ForgedFormError if it has too many."""
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise ForgedFormError("it has too many fields") from None
    form = dict(pairs)
    return form, form.pop(FIELD, "")


def demand_same_origin(request: Request) -> None:
    """Raise ForgedFormError unless a page of this service sent the request."""
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if request.headers.get("origin") != own:
        raise ForgedFormError("it comes from another origin")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise ForgedFormError("it comes from another site")


def _is_proof(request: Request, given: str) -> bool:
    secret = request.cookies.get(cookie_name(request), "")
    try:
        raw = bytes.fromhex(given)
    except ValueError:
        return False
    if len(raw) != 2 * _SECRET_BYTES or len(secret) != 2 * _SECRET_BYTES:
        return False
    proof = bytes(a ^ b for a, b in zip(raw[:_SECRET_BYTES], raw[_SECRET_BYTES:], strict=True))
    return hmac.compare_digest(proof, _proof(secret, request.state.caller.user_id))


def _proof(secret: str, user_id: str) -> bytes:
    return hmac.new(secret.encode(), user_id.encode(), hashlib.sha256).digest()
