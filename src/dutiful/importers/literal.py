"""Python read without being run: literal values, and calls whose arguments are written out."""

from __future__ import annotations

import ast
from collections import Counter
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dutiful.importers.imported import NotImportableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ZONES = ("ZoneInfo", "timezone", "gettz")
_MADE = {"timedelta": timedelta, "datetime": datetime, "date": date, "dict": dict}


class _Constants(ast.NodeTransformer):
    """Puts the values of constants in the places of their names.

    A constant is assigned once in the module, at its top, and is used by its name alone: nothing changes it.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._top, self._known = {*tree.body}, dict[str, ast.expr]()
        self._changes = Counter[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._changes[node.id] += 1
            elif isinstance(node, ast.Attribute | ast.Subscript):
                self._changes[name_of(node.value)] += 1
            elif isinstance(node, ast.arg):
                self._changes[node.arg] += 1

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        for target in node.targets:
            self._learn(node, target, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        self._learn(node, node.target, node.value)
        return node

    def _learn(self, node: ast.stmt, target: ast.expr, assigned: ast.expr | None) -> None:
        if assigned is None or node not in self._top or not isinstance(target, ast.Name):
            return
        if self._changes[target.id] == 1 and (isinstance(assigned, ast.Dict) or is_written_out(assigned)):
            self._known[target.id] = assigned

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._known.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module, with constants in place of their names.

    Raises NotImportableError for a text that is not Python.
    """
    try:
        tree = ast.parse(text)
        _Constants(tree).visit(tree)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NotImportableError(f"is not Python: {error}") from None
    return tree


def name_of(node: ast.expr) -> str:
    """Return the last name of a dotted one: crontab for celery.schedules.crontab; else nothing."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def source(node: ast.AST) -> str:
    """Return a part of the source, for a message."""
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:59]}…"


def value(node: ast.expr) -> Any:
    """Return the value of a literal, of sums and products of numbers, and of a named zone.

    Calls of `timedelta`, `datetime`, `date` and `dict` have values too. Raises NotImportableError for
    anything that would have to be run.
    """
    match node:
        case ast.BinOp(left, ast.Mult() | ast.Add() as operator, right):
            return _calculated(node, operator, value(left), value(right))
        case ast.Call(func) if name_of(func) in _MADE:
            return _called(node, _MADE[name_of(func)])
        case ast.Call(func, [ast.Constant(str() as named)]) if name_of(func) in _ZONES:
            return named
        case ast.Attribute(attr="utc" | "UTC") | ast.Name("utc" | "UTC"):
            return "UTC"
        case ast.Dict(keys, values) if None not in keys:
            return {value(key): value(each) for key, each in zip(keys, values, strict=True) if key}
        case ast.List(items) | ast.Tuple(items):
            return [value(each) for each in items]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        raise NotImportableError(
            f"`{source(node)}` is not written out, and code is not run; write its value"
        ) from None


def is_written_out(node: ast.expr) -> bool:
    """Return whether an expression has a value."""
    try:
        value(node)
    except NotImportableError:
        return False
    return True


def value_of_setting(node: ast.expr) -> Any:
    """Return the value of a setting of the whole module; raises NotImportableError with its line."""
    try:
        return value(node)
    except NotImportableError as error:
        raise NotImportableError(f"line {node.lineno}: {error}") from None


def _calculated(node: ast.expr, operator: ast.operator, left: Any, right: Any) -> Any:
    if not all(isinstance(each, int | float) for each in (left, right)):
        raise NotImportableError(f"`{source(node)}` is not a product or a sum of numbers; write its value")
    return left * right if isinstance(operator, ast.Mult) else left + right


def _called(node: ast.Call, made: Callable[..., Any]) -> Any:
    try:
        return made(*[value(each) for each in node.args], **keywords(node))
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, NotImportableError):
            raise
        raise NotImportableError(f"`{source(node)}`: {error}") from None


def keywords(node: ast.Call) -> dict[str, Any]:
    """Return the literal keyword arguments of a call; raises NotImportableError."""
    return {name: value(each) for name, each in written_keywords(node).items()}


def written_keywords(node: ast.Call) -> Mapping[str, ast.expr]:
    """Return the keyword arguments of a call as they are written; raises NotImportableError for `**`."""
    if any(each.arg is None for each in node.keywords):
        raise NotImportableError(f"`{source(node)}` has arguments behind **; write them out")
    return {str(each.arg): each.value for each in node.keywords}
