"""MODULE:NAME on the command line: the registrations of a module, or an error that says what to write."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutiful.core.errors import DutifulError
from dutiful.declarative.registration import check

if TYPE_CHECKING:
    from datetime import tzinfo
    from types import ModuleType

    from dutiful.declarative.registration import Registered

_FORM = "a list of (name, cron text, callback, retry delay)"


class TargetError(click.UsageError):
    """The module or the name on the command line does not exist, or is not a list."""


def load_registrations(target: str) -> list[Any] | tuple[Any, ...]:
    """Return what `target` names in a module of the current directory or the path, called if it can be."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise TargetError(f"{target!r} names no list: write MODULE:NAME, such as tasks:REGISTRATIONS")
    value = _attribute(_module(module_name), name, target)
    if callable(value):
        value = _called(value, target)
    if not isinstance(value, list | tuple):
        raise TargetError(
            f"{target} is a {type(value).__name__}; write {_FORM}, or a function that returns one"
        )
    return value


def check_registrations(target: str, registrations: Any, timezone: tzinfo, dialect: str) -> Registered:
    """Return what the registrations mean, or raise the first error in them, with its place."""
    try:
        return check(registrations, timezone, dialect)
    except DutifulError as error:
        told = "\n".join([str(error), *getattr(error, "__notes__", [])])
        raise TargetError(f"{target}{_place(registrations, timezone, dialect)}: {told}") from error


def _place(registrations: Any, timezone: tzinfo, dialect: str) -> str:
    """Return the index of the first registration that is refused on its own; a duplicate is not."""
    for index, registration in enumerate(registrations):
        try:
            check([registration], timezone, dialect)
        except DutifulError:
            return f"[{index}]"
    return ""


def _module(name: str) -> ModuleType:
    # As with `python -m`: what lies in the current directory comes first.
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        raise TargetError(f"there is no module {name!r} here{_near(name, _modules_here())}") from None
    except Exception as error:
        raise _broken(name, error) from error


def _modules_here() -> list[str]:
    here = Path.cwd()
    return sorted(path.stem for path in (*here.glob("*.py"), *here.glob("*/__init__.py")))


def _attribute(value: Any, path: str, target: str) -> Any:
    for name in path.split("."):
        if not hasattr(value, name):
            where = getattr(value, "__name__", type(value).__name__)
            known = [known for known in dir(value) if not known.startswith("_")]
            raise TargetError(f"{target}: {where} has no {name!r}{_near(name, known)}")
        value = getattr(value, name)
    return value


def _called(function: Any, target: str) -> Any:
    try:
        answer = function()
    except Exception as error:
        raise _broken(target, error) from error
    if inspect.iscoroutine(answer):
        answer.close()
        raise TargetError(f"{target} is an async function; write a plain one that returns {_FORM}")
    return answer


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _broken(name: str, error: Exception) -> click.ClickException:
    """Return the user's exception with its traceback, without frames of dutiful and importlib."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
    told = "".join(traceback.format_list(own) + traceback.format_exception_only(error))
    return click.ClickException(f"{name} could not be loaded:\n{told.rstrip()}")
