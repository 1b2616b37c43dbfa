"""Mistakes that can be made and unmade.

A mutant is a context manager: inside it the mistake is made, outside everything is as it was.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dutiful.core.plan import clock_rollback, draft, planner
from dutiful.core.plan.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Mutant = Callable[[], Any]

MUTANTS: dict[str, Mutant] = {}


@contextmanager
def patched(target: Any, name: str, value: Any) -> Iterator[None]:
    # As it stands in the class: getattr would unwrap a static method.
    original = vars(target).get(name, getattr(target, name))
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, original)


def mutant(target: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a mistake: it is called with the original, and what it returns takes its place."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        MUTANTS[make.__name__] = lambda: mistaken(target, name, make(getattr(target, name)))
        return make

    return register


@contextmanager
def mistaken(target: Any, name: str, value: Any) -> Iterator[None]:
    in_a_step = target in (planner, draft, clock_rollback, Draft)
    with (
        patched(target, name, value),
        patched(planner, "single_tick_move", (lambda *_: None) if in_a_step else planner.single_tick_move),
    ):
        yield
