"""The examples that need a running service: every `shell-session` block is run, in order, as printed.

A page has a service of its own, on a clock that begins at 09:00 UTC on Monday 2 March 2026 and moves where
the page has a comment such as `<!-- clock: +31 min -->`. In what is printed, … stands for anything.
"""

from __future__ import annotations

import ast
import inspect
import re

import pytest
from tests.shell import Shell
from tests.test_docs import FENCE, PAGES, ROOT, Block, commands, put_data_files
from tests.web.running import running

from dutiful.httpd import errors, problems
from dutiful.web import requests, responses
from dutiful.web.app import openapi_document

STEP = re.compile(rf"{FENCE.pattern}|^<!-- clock: \+(?P<minutes>\d+) min -->$", re.MULTILINE)
SESSIONS = [page for page in PAGES if "```shell-session\n" in page.read_text(encoding="utf-8")]


def is_as_printed(expected: str, output: str) -> bool:
    pattern = ".*?".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, output + "\n" * (output[-1:] not in {"", "\n"}), re.DOTALL) is not None


@pytest.mark.parametrize("page", SESSIONS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_sessions_print_what_the_page_says(page, tmp_path):
    source = page.read_text(encoding="utf-8")
    put_data_files(page, tmp_path)
    with running(tmp_path) as service:
        shell = Shell(tmp_path, service.url)
        for step in STEP.finditer(source):
            if step["minutes"]:
                service.advance(60 * int(step["minutes"]))
            elif step["language"] == "shell-session":
                line = source.count("\n", 0, step.start()) + 1
                for command, expected in commands(Block("shell-session", step["text"], line)):
                    _, output = shell.run(command)
                    assert is_as_printed(expected, output), (
                        f"{page.name}, after line {line}: {command}\n{output}"
                    )


def test_an_output_that_differs_is_noticed():
    assert is_as_printed("a … c\n", "a b c\n")
    assert not is_as_printed("a … c\n", "a b d\n")
    assert not is_as_printed("a\n", "a\nb\n")


API = (ROOT / "docs/reference/http-api.md").read_text(encoding="utf-8")


def test_every_request_is_documented_with_its_scope():
    documented = re.findall(r"`(GET|POST|PUT|DELETE) (/\S*)`", API.partition("\n## ")[0])
    paths = openapi_document()["paths"]
    assert sorted(documented) == sorted((method.upper(), path) for path in paths for method in paths[path])


def test_every_key_of_a_schedule_and_every_column_of_a_run_is_documented():
    keys = {*re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|(.+?)\|", API, re.MULTILINE)))}
    assert {*requests.ScheduleRequest.model_fields, *responses.RunAnswer.model_fields} - keys == set()


def test_every_code_of_an_error_is_documented():
    modules = (problems, errors)
    codes = {
        node.value.value
        for module in modules
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "code"
    }
    assert {f"`{code}`" for code in codes - {"bad_request"}} - {*re.findall(r"`\w+`", API)} == set()
