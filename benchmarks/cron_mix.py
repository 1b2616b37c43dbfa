"""What the cron section asks: the mix of expressions, the instants, and texts never seen before."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from zoneinfo import ZoneInfo

# Strictly POSIX, so that every library reads them.
MIX = {
    "every minute": "* * * * *",
    "every 5 minutes": "3,8,13,18,23,28,33,38,43,48,53,58 * * * *",
    "half hours": "0,30 * * * *",
    "hourly": "42 * * * *",
    "every 3 hours": "0 0,3,6,9,12,15,18,21 * * *",
    "office quarters": "0,15,30,45 8-18 * * 1-5",
    "office edges": "50 7,11,16 * * 1-5",
    "weekday mornings": "15 9 * * 1-5",
    "nightly": "10 0 * * *",
    "02:30, a gap": "30 2 * * *",
    "01:30, a fold": "30 1 * * *",
    "Mondays": "0 7 * * 1",
    "weekends": "20 10 * * 0,6",
    "first of month": "5 0 1 * *",
    "31st": "0 18 31 * *",
    "10th and 25th": "0 9 10,25 * *",
    "5, 20 or Wednesday": "30 6 5,20 * 3",
    "13 or Friday": "0 12 13 * 5",
    "quarterly": "0 3 1 1,4,7,10 *",
    "yearly": "0 0 1 1 *",
    "leap day": "15 4 29 2 *",
}
IMPOSSIBLE = "0 0 30 2 *"
NEW_YORK = ZoneInfo("America/New_York")
START = datetime(2026, 1, 1, tzinfo=UTC)
# The second and third start lie days before New York's clocks change.
CHECK_STARTS = (START, datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 10, 30, tzinfo=UTC))
STEPS = 24

_random = Random(2026)
INSTANTS = sorted(_random.sample(range(1_704_067_200, 2_019_686_400), STEPS), reverse=True)


def fresh_texts(count: int) -> list[str]:
    """Return texts whose times and days are most likely new in this process."""
    return [_fresh_text() for _ in range(count)]


def _fresh_text() -> str:
    minutes = ",".join(map(str, sorted(_random.sample(range(60), 3))))
    hours = f"{_random.randrange(12)}-{_random.randrange(12, 24)}"
    days = f"{_random.randrange(1, 15)}-{_random.randrange(15, 29)}"
    return f"{minutes} {hours} {days} * {_random.randrange(3)},{_random.randrange(3, 7)}"
