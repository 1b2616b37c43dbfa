"""Refused requests: each error has a status, a stable code, and a message, and all have one JSON shape.

DutifulError
└── RequestRefusedError            any refused request; has `status` and `code`
    ├── InvalidJsonError           400  the body is not strict JSON
    ├── UnauthenticatedError       401  the caller is not known; the code says why
    ├── ScopeMissingError          403  the caller lacks a scope
    ├── ForeignOriginError         403, 421  a foreign Origin, or a foreign Host
    ├── TooLargeError              413, 414, 431  body, URL or headers
    ├── TooSlowError               408  the body did not come in time
    ├── TooManyRequestsError       429  with `retry_after` in seconds
    ├── UnforeseenError            500  a bug; the log says more
    └── AuditUnavailableError      503  the audit log cannot be written, so nothing was changed
"""

from __future__ import annotations

from typing import Any

from dutiful.core.errors import DutifulError


class RequestRefusedError(DutifulError):
    """A request is refused. `headers` go with the answer."""

    status = 400
    code = "bad_request"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.headers: dict[str, str] = {}

    def body(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return error_body(self.code, str(self), self.details)


def error_body(code: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the JSON shape of every error of the service."""
    return {"error": {"code": code, "message": message, "details": details or {}}}


class InvalidJsonError(RequestRefusedError):
    """A body is not UTF-8, not JSON, or JSON that two readers could read differently."""

    code = "invalid_json"

    def __init__(self, reason: str, **details: Any) -> None:
        super().__init__(f"The body cannot be read: {reason}", reason=reason, **details)


class UnauthenticatedError(RequestRefusedError):
    """The caller is not known. The token is never part of this error."""

    status = 401

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.code = code
        self.headers = {"www-authenticate": "Bearer"}


class ScopeMissingError(RequestRefusedError):
    """The caller is known and lacks a scope."""

    status = 403
    code = "scope_missing"

    def __init__(self, scope: str) -> None:
        super().__init__(f"This needs the scope {scope!r}", scope=scope)


class ForeignOriginError(RequestRefusedError):
    """The request names a host that is not this one, or comes from a page of another."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = 421 if code == "foreign_host" else 403


class TooLargeError(RequestRefusedError):
    """A part of the request is longer than its limit."""

    def __init__(self, status: int, part: str, limit: int) -> None:
        super().__init__(f"The {part} may have at most {limit} bytes", limit=limit)
        self.status = status
        self.code = f"{part.lower()}_too_large"
        # The rest of this request is not read, so the connection cannot be used again.
        self.headers = {"connection": "close"}


class TooSlowError(RequestRefusedError):
    """The body did not come in time."""

    status = 408
    code = "body_too_slow"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The body did not arrive within {seconds:g} s", seconds=seconds)
        self.headers = {"connection": "close"}


class TooManyRequestsError(RequestRefusedError):
    """A caller or an address sends more requests than its rate allows."""

    status = 429
    code = "too_many_requests"

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"Too many requests; try again in {retry_after} s", retry_after=retry_after)
        self.headers = {"retry-after": str(retry_after)}


class AuditUnavailableError(RequestRefusedError):
    """The audit log cannot be written, so the change was not made. The log of the service has the cause."""

    status = 503
    code = "audit_unavailable"

    def __init__(self) -> None:
        super().__init__("The audit log cannot be written; nothing was changed. Try again later.")


class UnforeseenError(RequestRefusedError):
    """A bug. The log has the cause; the answer does not."""

    status = 500
    code = "internal_error"

    def __init__(self) -> None:
        super().__init__("This should not have happened; the log of the service says more")
