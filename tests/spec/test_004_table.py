"""The page that maps the specification of the service to its tests names every one of them, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs/internals/spec-004.md"


def test_the_table_of_the_specification_names_every_test():
    named = set(re.findall(r"`(test_004_\w+\.py::test_\w+)`", PAGE.read_text(encoding="utf-8")))
    written = {
        f"{path.name}::{node.name}"
        for path in HERE.glob("test_004_*.py")
        if path.name != Path(__file__).name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert named == written
