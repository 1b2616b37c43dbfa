"""Strict JSON, which every parser reads alike: UTF-8, no NaN, no duplicate keys, limited depth."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn

from dutiful.core.errors import DutifulError, quoted
from dutiful.httpd.errors import InvalidJsonError

DEPTH_MAX = 32
_FILE_MAX = 1_048_576


class JsonFileError(DutifulError):
    """A file cannot be used; its values, which may be secrets, are never part of this error."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{quoted(path, 4096)} cannot be used: {reason}", path=path, reason=reason)


def decode_file(path: str, refusal: type[JsonFileError], most: int = _FILE_MAX) -> Any:
    """Return the value of a file of at most so many bytes, or raise the `refusal`."""
    try:
        with open(path, "rb") as file:
            return decode(file.read(most))
    except OSError as error:
        raise refusal(path, str(error.strerror)) from None
    except InvalidJsonError as error:
        raise refusal(path, error.details["reason"]) from None


def decode(body: bytes) -> Any:
    """Return the value of one JSON document, or raise InvalidJsonError."""
    try:
        text = body.decode("utf-8")
        value = _DECODER.decode(text)
        # An escaped half of a surrogate pair gives a str that cannot be encoded, stored or sent.
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise InvalidJsonError("it is not UTF-8", at=error.start) from None
    except UnicodeEncodeError:
        raise InvalidJsonError("it has half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        if not text.strip():
            raise InvalidJsonError("it is empty") from None
        raise InvalidJsonError(f"at character {error.pos} it is no JSON", at=error.pos) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        # Python refuses to parse integers of more than 4,300 digits.
        raise InvalidJsonError("it has a number that is too long") from None
    if _is_deeper(value, DEPTH_MAX):
        raise _too_deep()
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidJsonError(f"the key {quoted(twice)!r} is there twice", key=twice[:80])
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidJsonError(f"the number {quoted(text)} is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise InvalidJsonError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for children in inside for child in children if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def _too_deep() -> InvalidJsonError:
    return InvalidJsonError(f"it is nested deeper than {DEPTH_MAX} levels", limit=DEPTH_MAX)
