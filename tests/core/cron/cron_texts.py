"""Random cron texts, written by the rules of a dialect; the same seed gives the same texts."""

from __future__ import annotations

import random

from dutiful import Cron, InvalidCronExpressionError

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MACROS = ("@yearly", "@monthly", "@weekly", "@daily", "@hourly")
# Field -> lowest and highest value, and the names of the values from the lowest on.
FIELDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, MONTHS), (0, 6, WEEKDAYS))


def legal_texts(seed: int, count: int, dialect: str) -> list[str]:
    """Return texts that `dialect` reads."""
    rng, texts = random.Random(seed), []
    while len(texts) < count:
        text = random_text(rng, dialect)
        try:
            Cron.parse(text, dialect)
        except InvalidCronExpressionError as error:
            # Only a date such as 30 February, or friday-sunday, is written by the rules and refused.
            if "cannot exist" not in error.reason and "backwards" not in error.reason:
                raise
        else:
            texts.append(text)
    return texts


def random_text(rng: random.Random, dialect: str) -> str:
    """Return a text with the field count and the tokens of `dialect`; it may be an impossible date."""
    if dialect != "posix" and rng.random() < 0.02:
        return rng.choice(MACROS)
    fields = FIELDS
    if dialect == "seconds" and rng.random() < 0.7:
        fields = ((0, 59, ()), *FIELDS)
    return " ".join(_field(rng, *each, extended=dialect != "posix") for each in fields)


def _field(rng: random.Random, low: int, high: int, names: tuple[str, ...], *, extended: bool) -> str:
    if rng.random() < 0.4:
        return "*"
    count = rng.choice((1, 1, 1, 2, 3))
    return ",".join(_item(rng, low, high, names, extended=extended) for _ in range(count))


def _item(rng: random.Random, low: int, high: int, names: tuple[str, ...], *, extended: bool) -> str:
    start, end = sorted(rng.randint(low, 7 if extended and high == 6 else high) for _ in range(2))
    shapes = [f"{start}", f"{end:02}", f"{start}-{end}", f"{low}-{high}"]
    if extended:
        step = rng.randint(1, 12)
        shapes += [f"*/{step}", f"{start}/{step}", f"{start}-{end}/{step}"]
    if extended and names:
        first, last = (names[(value - low) % len(names)] for value in (start, end))
        shapes += [first, last.upper(), f"{first}-{last}"]
    return rng.choice(shapes)
