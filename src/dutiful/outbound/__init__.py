"""HTTP requests to other hosts, through a guard against server-side request forgery."""

from __future__ import annotations

from dutiful.outbound.client import HttpClient
from dutiful.outbound.exchange import ANSWER_LIMIT, DEADLINE, Answer, NoAnswerError, Outbound, Resolver
from dutiful.outbound.guard import Allowed, ForbiddenTargetError, Target, parse_target

__all__ = [
    "ANSWER_LIMIT",
    "DEADLINE",
    "Allowed",
    "Answer",
    "ForbiddenTargetError",
    "HttpClient",
    "NoAnswerError",
    "Outbound",
    "Resolver",
    "Target",
    "parse_target",
]
