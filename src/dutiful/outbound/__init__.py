"""Requests to other hosts, guarded against being led where they should not go."""

from __future__ import annotations

from dutiful.outbound.connections import Connections
from dutiful.outbound.exchange import ANSWER_LIMIT, DEADLINE, Answer, NoAnswerError, Outbound, Resolver
from dutiful.outbound.guard import Allowed, ForbiddenTargetError
from dutiful.outbound.target import Target, parse_target

__all__ = [
    "ANSWER_LIMIT",
    "DEADLINE",
    "Allowed",
    "Answer",
    "Connections",
    "ForbiddenTargetError",
    "NoAnswerError",
    "Outbound",
    "Resolver",
    "Target",
    "parse_target",
]
