"""Launchers: one file for each way to hand a run to its task, and the outcomes that they return."""

from dutiful.core.plan.outcome import (
    Accepted,
    Failed,
    NoWork,
    Outcome,
    Refused,
    Succeeded,
    Unanswered,
    Unreached,
)

__all__ = ["Accepted", "Failed", "NoWork", "Outcome", "Refused", "Succeeded", "Unanswered", "Unreached"]
