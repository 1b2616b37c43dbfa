"""Cron expressions as the fleet speaks of them: in the host's zone, once a day through a clock change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.dialect import MACROS
from dutiful.core.errors import InvalidCronExpressionError, quoted
from dutiful.fleet.errors import CronParseError
from dutiful.runtime.clock import local_zone

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

_FIELDS = {"day": "day-of-month", "weekday": "day-of-week"}
# The message begins with the whole expression, so the repeated part and the layout are cut off.
_REPEATED = re.compile(r", not \S+$| \(write: .*\)$")


def parse_cron_expression(expression: str, timezone: str | tzinfo | None = None) -> Cron:
    """Return the Cron that a 5-field expression or a shorthand means, in the host's zone if none is given.

    Raises CronParseError.
    """
    _refuse_other_than_fields(expression)
    zone = local_zone() if timezone is None else timezone
    try:
        return Cron.parse(expression, dialect="standard", timezone=zone, dst="vixie")
    except InvalidCronExpressionError as refused:
        raise _as_told_here(refused) from refused


def calculate_next_cron_trigger(
    expression: str, after: datetime, timezone: str | tzinfo | None = None
) -> datetime:
    """Return the first instant after `after` that the expression matches, in the host's zone by default.

    Raises CronParseError, and CronCalculationError where the years end before it comes.
    """
    return parse_cron_expression(expression, timezone).next(after)


def is_valid_cron_expression(expression: str) -> bool:
    """Return whether `parse_cron_expression` accepts it."""
    try:
        parse_cron_expression(expression)
    except CronParseError:
        return False
    return True


def _refuse_other_than_fields(expression: object) -> None:
    text = expression.strip() if isinstance(expression, str) else "*"
    if not text:
        raise CronParseError("Cron expression cannot be empty", expression)
    if text.startswith("@") and text.lower() not in MACROS:
        known = ", ".join(MACROS)
        raise CronParseError(f'Unknown cron shorthand "{quoted(text)}" (known: {known})', expression)


def _as_told_here(refused: InvalidCronExpressionError) -> CronParseError:
    field = None if refused.field == "expression" else _FIELDS.get(refused.field, refused.field)
    reason = _REPEATED.sub("", refused.reason)
    told = reason if field is None else f"{field} {reason}"
    message = f'Invalid cron expression "{quoted(refused.expression)}" - {told}'
    return CronParseError(message, refused.expression, field)
