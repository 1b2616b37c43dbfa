"""Python read without being run: literal values, and calls whose arguments are written out."""

from __future__ import annotations

import ast
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dutiful.importers.imported import NotImportableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ZONES = ("ZoneInfo", "timezone", "gettz")


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module; raises NotImportableError."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NotImportableError(f"is not Python: {error}") from None


def name_of(node: ast.expr) -> str:
    """Return the last name of a dotted one: crontab for celery.schedules.crontab; else nothing."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def source(node: ast.AST) -> str:
    """Return a part of the source, for a message."""
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:59]}…"


def value(node: ast.expr) -> Any:
    """Return the value of a literal, of sums and products of numbers, of `timedelta(…)` and of a named zone.

    Raises NotImportableError for anything that would have to be run.
    """
    match node:
        case ast.BinOp(left, ast.Mult() | ast.Add() as operator, right):
            return _calculated(node, operator, value(left), value(right))
        case ast.Call(func) if name_of(func) == "timedelta":
            return _called(node, timedelta)
        case ast.Call(func, [ast.Constant(str() as named)]) if name_of(func) in _ZONES:
            return named
        case ast.Attribute(attr="utc") | ast.Name("UTC") | ast.Attribute(attr="UTC"):
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
