"""The rules for tracked files of every kind: finished, no registry or machine path."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.test_tidy import ROOT, report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADVICE = {
    r"\b(T[O]DO|F[I]XME|X{3})\b": "finish it, or write it down as an issue",
    r"pypi\.(org|python)|pythonhosted\.|npmjs\.|-index-[u]rl|find-[l]inks": "name no registry",
    r"(?<![\w.}-])/(home|Users|root|work|workspace|mnt)/\w|[A-Z]:\\+Users": "write a path inside the project",
}
GENERATED = re.compile(r"build|dist|\.git|\.venv.*|\.\w+_cache|\.hypothesis|__pycache__|.*\.(egg-info|db.*)")


def unfit_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a tracked file that name a place outside the project, or are not finished."""
    for pattern, advice in ADVICE.items():
        for match in re.finditer(pattern, text):
            yield text.count("\n", 0, match.start()) + 1, f"{match[0]!r}: {advice}"


def tracked_files() -> list[Path]:
    """Return what is, or is about to be, under version control; without git, what looks like it."""
    if shutil.which("git"):
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]
    files = [path for path in sorted(ROOT.rglob("*")) if path.is_file()]
    return [path for path in files if not any(map(GENERATED.fullmatch, path.relative_to(ROOT).parts))]


def test_tracked_files_are_finished_and_name_no_registry_or_machine():
    violations = []
    for path in tracked_files():
        content = path.read_bytes()
        # The bytes of a picture may spell anything.
        text = "" if b"\0" in content else content.decode("utf-8", errors="replace")
        violations += [f"{path.relative_to(ROOT)}:{line}: {advice}" for line, advice in unfit_lines(text)]
    assert not violations, report(violations)


def test_a_checkout_without_git_is_walked_instead(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    names = {path.relative_to(ROOT).as_posix() for path in tracked_files()}
    assert {"Makefile", ".ci/run", "src/dutiful/__init__.py"} <= names
    assert not [name for name in names if name.startswith((".git/", ".venv/", "build/"))]


def test_every_decision_record_has_the_four_headings_and_its_own_number():
    records = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
    wanted = ["Status", "Context", "Decision", "Consequences"]
    for record in records:
        headings = re.findall(r"^## (.+)$", record.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == wanted, f"{record.name}: use the headings {wanted}"
    numbers = [int(record.name[:4]) for record in records]
    assert numbers == list(range(1, len(records) + 1)), "number the records one by one"


def test_the_changelog_has_a_place_for_the_next_release():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "\n## [Unreleased]\n" in text, 'add a "## [Unreleased]" section at the top'


@pytest.mark.parametrize("line", ["# FIX" + "ME", "https://pypi" + ".org/x", "cd /" + "home/ada/dutiful"])
def test_an_unfit_line_is_noticed(line):
    assert list(unfit_lines(line))
