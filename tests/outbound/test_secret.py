"""A secret leaves no trace, however it is shown."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from dataclasses import asdict, dataclass

import pytest

from dutiful.outbound.secret import Secret

CANARY = "canary-4711"
SECRET = Secret(CANARY)


@pytest.mark.parametrize(
    "shown",
    [
        str(SECRET),
        repr(SECRET),
        f"{SECRET}",
        f"{SECRET!r:>10}".strip(),
        "%s" % SECRET,  # noqa: UP031 - loggers do it so
        "".join([SECRET]),
        SECRET + "",
        json.loads(json.dumps(SECRET)),
        SECRET.encode().decode(),
        str(copy.deepcopy(SECRET)),
        str([SECRET])[1:-1],
    ],
)
def test_a_secret_reads_as_stars(shown):
    assert shown == "***"


def test_a_secret_is_not_shown_by_its_containers(caplog):
    @dataclass
    class Holder:
        secret: Secret

    logging.getLogger("dutiful").warning("%s %r", SECRET, SECRET)
    seen = [repr(Holder(SECRET)), json.dumps(asdict(Holder(SECRET))), caplog.text, str(vars(Holder(SECRET)))]
    assert [text for text in seen if CANARY in text] == []


def test_a_secret_can_be_revealed():
    assert SECRET.reveal() == CANARY


def test_secrets_are_equal_if_their_texts_are():
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("***") != "***"
    assert SECRET != CANARY
    assert {Secret("a"), Secret("a"), Secret("b")} == {Secret("a"), Secret("b")}
    assert copy.copy(SECRET) == SECRET


def test_a_secret_is_not_pickled():
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(SECRET)
