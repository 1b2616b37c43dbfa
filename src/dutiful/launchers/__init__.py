"""Ways to carry a run to its task, one file each, and the outcomes that a launcher may answer."""

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
