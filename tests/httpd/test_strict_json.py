"""JSON that is taken, and JSON that two readers could read differently."""

from __future__ import annotations

import json

import pytest

from dutiful.httpd.errors import InvalidJsonError
from dutiful.httpd.strict_json import DEPTH_MAX, decode

TAKEN = [
    b"{}",
    b"[]",
    b'"text"',
    b"-0.5e-3",
    b'{"a": {"b": [1, 2.5, true, false, null, "x"]}}',
    '{"ß": "𝄞"}'.encode(),
    b'"\\ud834\\udd1e"',
    b'{"a": 1, "A": 2}',
    b'{"a": {"x": 1}, "b": {"x": 1}}',
    b"123456789012345678901234567890",
    b"[" * DEPTH_MAX + b"]" * DEPTH_MAX,
    b'{"a":' * DEPTH_MAX + b"1" + b"}" * DEPTH_MAX,
]


@pytest.mark.parametrize("body", TAKEN, ids=lambda body: body[:24])
def test_ordinary_json_is_read_as_everywhere(body):
    assert decode(body) == json.loads(body)


REFUSED = {
    b"": "it is empty",
    b"{": "at character 1 it is no JSON",
    b"[1] 2": "at character 4 it is no JSON",
    b"{'a': 1}": "at character 1 it is no JSON",
    b"NaN": "NaN is not JSON",
    b'{"a": [Infinity]}': "Infinity is not JSON",
    b"-Infinity": "-Infinity is not JSON",
    b"1e999": "the number 1e999 is too large",
    b"-1e999": "the number -1e999 is too large",
    b"9" * 5000: "it has a number that is too long",
    b'{"a": 1, "a": 1}': "the key 'a' is there twice",
    b'{"x": [{"k": 1, "j": 2, "k": 3}]}': "the key 'k' is there twice",
    b'{"a": 1, "\\u0061": 2}': "the key 'a' is there twice",
    b'"\xff"': "it is not UTF-8",
    b"\xff\xfe[\x00]\x00": "it is not UTF-8",
    b"\xed\xa0\x80": "it is not UTF-8",
    b'\xef\xbb\xbf{"a": 1}': "at character 0 it is no JSON",
    b'"\\ud800"': "it has half of a surrogate pair",
    b'{"\\udc00": 1}': "it has half of a surrogate pair",
    b"[" * 33 + b"]" * 33: "it is nested deeper than 32 levels",
    b'{"a":' * 33 + b"1" + b"}" * 33: "it is nested deeper than 32 levels",
    b"[" * 500 + b"]" * 500: "it is nested deeper than 32 levels",
    b"[" * 60_000: "it is nested deeper than 32 levels",
    b"[" * 4_000_000: "it is nested deeper than 32 levels",
    b'{"a":' * 60_000: "it is nested deeper than 32 levels",
    b'"a\nb"': "at character 2 it is no JSON",
}


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: f"{body[:20]}-{len(body)}")
def test_what_is_refused_is_reported(body):
    with pytest.raises(InvalidJsonError) as caught:
        decode(body)
    assert str(caught.value) == f"The body cannot be read: {REFUSED[body]}"
    assert caught.value.body()["error"]["code"] == "invalid_json"


def test_a_wide_document_is_no_deep_one():
    body = json.dumps({f"key {n}": [n, {"n": n}] for n in range(50_000)}).encode()
    assert len(decode(body)) == 50_000


def test_a_duplicate_among_very_many_keys_is_found_at_once():
    names = [f'"{number}":0' for number in range(300_000)]
    with pytest.raises(InvalidJsonError, match="the key '299999' is there twice"):
        decode(f"{{{','.join([*names, names[-1]])}}}".encode())
