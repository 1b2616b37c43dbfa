"""The locks: what `make run` installs is a part of what `make test` installs, in the same versions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(name):
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return {*re.findall(r"^([a-z0-9][a-z0-9.-]*==[^ ;\\]+)", text, re.MULTILINE)}


def test_the_lock_to_run_is_a_small_part_of_the_lock_to_test():
    assert pins("run.lock") < pins("dev.lock")
    assert len(pins("run.lock")) < len(pins("dev.lock")) / 2


def test_the_lock_to_run_has_what_the_doors_need():
    extras = PROJECT["optional-dependencies"]
    needed = {Requirement(text).name for extra in ("cli", "fleet", "service") for text in extras[extra]}
    assert needed - {pin.partition("==")[0] for pin in pins("run.lock")} == set()


def test_every_extra_is_locked_for_the_tests():
    needed = {Requirement(text).name for texts in PROJECT["optional-dependencies"].values() for text in texts}
    assert needed - {pin.partition("==")[0] for pin in pins("dev.lock")} - {"dutiful"} == set()
