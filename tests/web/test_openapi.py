"""The OpenAPI document: committed, and obeyed by every answer of the service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks
from tests.web.running import SCHEDULE, running

from dutiful.web.app import openapi_document

COMMITTED = Path(__file__).resolve().parents[2] / "docs/reference/openapi.json"


def test_the_committed_document_is_the_one_that_is_served():
    expected = json.dumps(openapi_document(), indent=1) + "\n"
    assert COMMITTED.read_text(encoding="utf-8") == expected, "run `make openapi`"


def operations():
    return [
        (path, method, operation)
        for path, methods in openapi_document()["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_is_described_and_has_a_name_of_its_own():
    names = [operation["operationId"] for *_, operation in operations()]
    assert len({*names}) == len(names)
    assert [path for path, _, operation in operations() if not operation.get("description")] == []


def test_every_error_has_the_one_shape():
    shape = {"$ref": "#/components/schemas/ErrorAnswer"}
    for path, _, operation in operations():
        for status, answer in operation["responses"].items():
            if status >= "400" and (path, status) != ("/readyz", "503"):
                assert answer["content"]["application/json"]["schema"] == shape, (path, status)


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    """The document of a running service that has something to be asked about."""
    with running(tmp_path_factory.mktemp("service")) as service:
        service.put("/workflows/0/0", {})
        service.upsert(schedule_id="0", workflow_id="0", version=0)
        service.upsert(**{**SCHEDULE, "schedule_id": "1"})
        yield schemathesis.openapi.from_url(f"{service.url}/openapi.json")


def what_is_too_long_is_refused_too(ctx, response, case):
    """The check of the library knows nothing of URLs and bodies that are too long."""
    return response.status_code in {413, 414} or openapi_checks.negative_data_rejection(ctx, response, case)


lazily = schemathesis.pytest.from_fixture("schema")
CHECKS = [
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    what_is_too_long_is_refused_too,
]


def examples(count):
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
    )


def check(case):
    with requests.Session() as session:
        session.trust_env = False
        case.call_and_validate(session=session, checks=CHECKS)


@lazily.parametrize()
@examples(8)
def test_whatever_is_sent_is_answered_as_documented(case):
    check(case)


@pytest.mark.soak
@lazily.parametrize()
@examples(200)
def test_whatever_is_sent_for_long_is_answered_as_documented(case):
    check(case)
