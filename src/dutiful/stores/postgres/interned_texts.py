"""The texts of cadences and policies: each is stored once, and declarations refer to it by number.

The number is a hash of the text. It means the same text in every process, so a text that was read once never
needs to be read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import CodecError
from dutiful.stores.codec import Shared, read_shared, text_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from dutiful.stores.postgres.connections import Session

_TEXTS = "SELECT number, text FROM texts WHERE number = ANY($1::bigint[])"
# Repair a text that was changed outside dutiful, and so all declarations that refer to it.
_STORE = (
    "INSERT INTO texts (number, text) SELECT * FROM unnest($1::bigint[], $2::text[])"
    " ON CONFLICT (number) DO UPDATE SET text = excluded.text WHERE texts.text <> excluded.text"
)
# As many as the codec caches; beyond that the cache is cleared.
_KNOWN_MAX = 16_384


class Texts(dict[tuple[int, int], Shared]):
    """Cadence and policy by the numbers of their texts; `learn` pairs before looking them up.

    Looking up unreadable texts raises CodecError.
    """

    def __init__(self) -> None:
        super().__init__()
        # Pairs whose texts were changed outside dutiful or cannot be read; read again each time, as they may
        # be repaired.
        self._doubtful: dict[tuple[int, int], Shared | CodecError] = {}

    async def learn(self, session: Session, pairs: Collection[tuple[int, int]]) -> None:
        """Read the texts of pairs that are not known yet."""
        unknown = {pair for pair in pairs if pair not in self}
        if not unknown:
            return
        if len(self) + len(unknown) > _KNOWN_MAX:
            self.clear()
            unknown = {*pairs}
        texts = dict(await session.rows(_TEXTS, [*{number for pair in unknown for number in pair}]))
        for pair in unknown:
            self._keep(pair, texts.get(pair[0]), texts.get(pair[1]))

    def _keep(self, pair: tuple[int, int], cadence: str | None, policy: str | None) -> None:
        try:
            shared = read_shared(_there("cadence", pair[0], cadence), _there("policy", pair[1], policy))
        except CodecError as error:
            self._doubtful[pair] = error
            return
        whole = pair == (text_number(cadence or ""), text_number(policy or ""))
        (self if whole else self._doubtful)[pair] = shared

    def __missing__(self, pair: tuple[int, int]) -> Shared:
        found = self._doubtful[pair]
        if isinstance(found, CodecError):
            raise found
        return found


def _there(subject: str, number: int, text: str | None) -> str:
    if text is None:
        raise CodecError(subject, f"the table texts has no number {number}, where its text should be")
    return text


async def stored(session: Session, texts: Iterable[str]) -> set[str]:
    """Return the texts among these that are stored unchanged."""
    numbers = {text_number(text): text for text in texts}
    rows = await session.rows(_TEXTS, [*numbers])
    return {text for number, text in rows if numbers[number] == text}


async def store(session: Session, texts: Collection[str]) -> None:
    """Store the texts that are not stored yet."""
    if texts:
        numbered = sorted((text_number(text), text) for text in texts)
        await session.run(_STORE, [number for number, _ in numbered], [text for _, text in numbered])
