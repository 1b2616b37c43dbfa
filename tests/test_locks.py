"""The locks: what `make run` installs is a part of what `make test` installs; how the set-up installs it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.web.browser.conftest import BROWSERS

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


def unsafe_pins(lock):
    """Return the entries of a lock that lack a version or a hash, or that say where to download."""
    pinned = re.compile(r"\S+==.*--hash=sha256:", re.DOTALL)
    entries = re.split(r"\n(?=\S)", lock.strip())
    return [entry for entry in entries if not pinned.match(entry) or "://" in entry]


def test_the_lock_pins_everything_by_hash():
    unsafe = unsafe_pins((ROOT / "requirements/dev.lock").read_text(encoding="utf-8"))
    assert not unsafe, "\n".join(["run `make lock`", *unsafe])


@pytest.mark.parametrize("entry", ["a==1", "a \\\n  --hash=sha256:00", "a==1 @ http://x --hash=sha256:00"])
def test_an_unsafe_pin_is_noticed(entry):
    assert unsafe_pins(entry) == [entry]


# A uv of the locked version that installs nothing; it writes down how it was called.
UV = """[ "$1" = --version ] && echo "uv {version}" && exit
echo "UV_SYSTEM_CERTS=${{UV_SYSTEM_CERTS:-}} $*" >> {calls}"""
TOOLS = ("awk", "cut", "dirname", "mktemp", "rm", "sed", "sh", "touch")
INSTALL = "UV_SYSTEM_CERTS=1 pip install --quiet --python own/bin/python"


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """A machine with a checkout, an interpreter and a uv, whose user is not root and has no apt-get."""
    for folder in ("bin", "scripts", "own/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    program(tmp_path / "bin/id", "echo 1000")
    shutil.copy(ROOT / "scripts/bootstrap.sh", tmp_path / "scripts")
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "own/bin/python").symlink_to(sys.executable)
    (version,) = [pin.partition("==")[2] for pin in pins("dev.lock") if pin.startswith("uv==")]
    program(tmp_path / "own/bin/uv", UV.format(version=version, calls=tmp_path / "calls"))
    return tmp_path


@pytest.fixture
def debian(machine):
    """The same machine under Debian, whose user is root; its apt-get writes down what it should install."""
    program(machine / "bin/id", "echo 0")
    program(machine / "bin/apt-get", f'[ "$1" = update ] || echo "$*" >> {machine}/installed')
    return machine


def set_up(machine, *arguments):
    environ = {"PATH": str(machine / "bin"), "PYTHON": sys.executable, "VENV": "own"}
    command = ["sh", "scripts/bootstrap.sh", *arguments]
    done = subprocess.run(command, cwd=machine, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


def test_packages_are_installed_with_the_certificate_authorities_of_the_system(machine):
    installing = "bootstrap: installing the packages of requirements/run.lock"
    assert set_up(machine, "run") == (0, [installing, "bootstrap: ready"])
    assert (machine / "calls").read_text().splitlines() == [
        f"{INSTALL} --require-hashes --compile-bytecode -r requirements/run.lock",
        f"{INSTALL} --no-deps --no-build-isolation -e .",
    ]


@pytest.mark.parametrize(
    ("has", "installed"),
    [
        ([], "chromium libatomic1 fontconfig fonts-inter fonts-dejavu-core"),
        (["chromium"], "fontconfig fonts-inter fonts-dejavu-core"),
        (["google-chrome"], "fontconfig fonts-inter fonts-dejavu-core"),
        (["fc-list"], "chromium libatomic1"),
        (["chromium-browser", "fc-list"], None),
    ],
)
def test_debian_gets_the_browser_and_the_fonts_of_the_tests_that_it_lacks(debian, has, installed):
    for name in has:
        program(debian / "bin" / name, '[ "$*" = "-q Inter" ]')
    code, said = set_up(debian)
    assert (code, said[-1]) == (0, "bootstrap: ready")
    log = debian / "installed"
    asked = f"install -y -qq --no-install-recommends {installed}\n"
    assert (log.read_text() if log.exists() else None) == (asked if installed else None)


def test_the_machine_of_another_user_is_not_changed_for_want_of_a_browser(machine):
    installing = "bootstrap: installing the packages of requirements/dev.lock"
    assert set_up(machine) == (0, [installing, "bootstrap: ready"])


def test_the_set_up_is_content_with_the_browsers_that_the_tests_can_drive():
    text = (ROOT / "scripts/bootstrap.sh").read_text(encoding="utf-8")
    assert re.search(r"for name in (chromium .+); do", text)[1].split() == list(BROWSERS)


def test_the_locked_uv_knows_the_setting_for_the_authorities_of_the_system():
    uv = Path(sys.executable).with_name("uv")
    shown = subprocess.run([uv, "pip", "install", "--help"], capture_output=True, text=True, check=True)
    assert "[env: UV_SYSTEM_CERTS=]" in " ".join(shown.stdout.split())
