"""The locks: what `make run` installs is a part of what `make test` installs; how the set-up installs it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
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


# A uv of the locked version that installs nothing; it writes down how it was called.
UV = """#!/bin/sh
[ "$1" = --version ] && echo "uv {version}" && exit
echo "UV_SYSTEM_CERTS=${{UV_SYSTEM_CERTS:-}} $*" >> {calls}
"""
TOOLS = ("awk", "cut", "dirname", "id", "sed", "sh", "touch")


def test_packages_are_installed_with_the_certificate_authorities_of_the_system(tmp_path):
    for folder in ("bin", "scripts", "own/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for tool in TOOLS:
        # Without apt-get, so that no machine is changed by this test.
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    shutil.copy(ROOT / "scripts/bootstrap.sh", tmp_path / "scripts")
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "own/bin/python").symlink_to(sys.executable)
    (version,) = [pin.partition("==")[2] for pin in pins("dev.lock") if pin.startswith("uv==")]
    uv = tmp_path / "own/bin/uv"
    uv.write_text(UV.format(version=version, calls=tmp_path / "calls"))
    uv.chmod(0o755)
    environ = {"PATH": str(tmp_path / "bin"), "PYTHON": sys.executable, "VENV": "own"}
    command = ["sh", "scripts/bootstrap.sh", "run"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    installing = "bootstrap: installing the packages of requirements/run.lock"
    assert (done.returncode, done.stderr) == (0, f"{installing}\nbootstrap: ready\n")
    install = "UV_SYSTEM_CERTS=1 pip install --quiet --python own/bin/python"
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"{install} --require-hashes --compile-bytecode -r requirements/run.lock",
        f"{install} --no-deps --no-build-isolation -e .",
    ]


def test_the_locked_uv_knows_the_setting_for_the_authorities_of_the_system():
    uv = Path(sys.executable).with_name("uv")
    shown = subprocess.run([uv, "pip", "install", "--help"], capture_output=True, text=True, check=True)
    assert "[env: UV_SYSTEM_CERTS=]" in " ".join(shown.stdout.split())
