"""The pages about the service are complete: every variable, every limit, every code of an error."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from dutiful.core.plan import outcome
from dutiful.httpd import auth, errors, limits, middleware, token_keys, tokens
from dutiful.httpd.auth import SCOPES
from dutiful.launchers.executor import Meta
from dutiful.service.environment import VARIABLES

DOCS = Path(__file__).resolve().parents[1] / "docs"
SETTINGS = (DOCS / "reference/service-settings.md").read_text(encoding="utf-8")
AUTH = (DOCS / "guides/service-auth.md").read_text(encoding="utf-8")
EXECUTORS = (DOCS / "guides/executors.md").read_text(encoding="utf-8")


def test_every_unit_of_systemd_stops_the_main_process_and_leaves_its_commands_alone():
    pages = [page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))]
    units = [
        unit for page in pages for unit in re.findall(r"^\[Unit\]$.*?^```$", page, re.MULTILINE | re.DOTALL)
    ]
    assert [re.findall("^Kill.*$", unit, re.MULTILINE) for unit in units] == [["KillMode=mixed"]] * 2


def test_every_variable_is_documented_in_order_with_its_default():
    documented = re.findall(r"^\| `([A-Z_]+)` \| (.+?) \|", SETTINGS, re.MULTILINE)
    assert documented == [
        (variable.name, f"`{variable.default}`" if variable.default else "-") for variable in VARIABLES
    ]


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_the_values_that_are_documented_are_those_that_are_taken(variable):
    (values,) = re.findall(rf"^\| `{variable.name}` \| .+? \| (.+?) \|", SETTINGS, re.MULTILINE)
    if span := re.fullmatch(r"([0-9.,]+) to ([0-9,]+)", values):
        low, high = (text.replace(",", "") for text in span.groups())
        assert [float(variable.read(text)) for text in (low, high)] == [float(low), float(high)]
        for beyond in (str(int(high) + 1), "-1"):
            with pytest.raises(ValueError, match="write a "):
                variable.read(beyond)
    for word in re.findall(r"`(\w+)`", values):
        assert variable.read(word) == word


@pytest.mark.parametrize("prefix", ["body_too_large", "body_too_slow", "url_too_large", "headers_too_large"])
def test_every_limit_is_documented(prefix):
    assert f"`{prefix}`" in SETTINGS
    most = limits.Limits()
    facts = [f"{most.body // 1024} KiB", f"{most.url // 1024} KiB", f"{most.headers // 1024} KiB"]
    facts += [f"{most.body_seconds:g} s", f"{most.head_seconds:g} s"]
    for path, size in most.bodies.items():
        shown = f"{size // 1024 // 1024} MiB" if size >= 1024 * 1024 else f"{size // 1024} KiB"
        facts.append(f"`{path}{'…' * path.endswith('/')}` {shown}")
    assert [fact for fact in facts if fact not in SETTINGS] == []


def codes() -> set[str]:
    """Return the codes with which the source says 401."""
    found = set()
    for module in (auth, token_keys, tokens, middleware, errors):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Constant) and re.fullmatch(
                r"(token|certificate)_[a-z_]+", str(node.value)
            ):
                found.add(node.value)
    return found


def test_every_code_of_a_401_is_documented_and_no_other():
    documented = re.findall(r"^\| `((?:token|certificate)_\w+)` \|", AUTH, re.MULTILINE)
    assert {*documented} == codes()
    assert len(documented) == len({*documented})


def test_every_scope_and_algorithm_is_documented():
    words = {*re.findall(r"^\| `(\w+)` \|", AUTH, re.MULTILINE)}
    assert {*SCOPES, *token_keys.ALGORITHMS} <= words


def test_every_part_of_the_meta_is_documented():
    assert [name for name in Meta._fields if f"`{name}`" not in EXECUTORS] == []


def test_every_outcome_an_executor_may_have_is_documented():
    kinds = [kind.__name__ for kind in outcome.Outcome.__args__ if kind is not outcome.NoWork]
    assert [name for name in kinds if f"| `{name}(" not in EXECUTORS] == []
