"""Every key of every job and work source is in the guide, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dutiful.fleet.run import jobs, work_sources

PAGE = (Path(__file__).resolve().parents[1] / "docs/guides/fleet-jobs.md").read_text(encoding="utf-8")
HEADINGS = {
    ("job", "command"): "Commands",
    ("job", "http"): "Requests to a URL",
    ("job", "python"): "Python functions",
    ("work source", "directory"): "A directory",
    ("work source", "http"): "A web service",
    ("work source", "table"): "A table",
}
KINDS = {
    **{("job", kind): keys for kind, keys in jobs.KEYS.items()},
    **{("work source", kind): keys for kind, keys in work_sources._KINDS.items()},
}


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_the_keys_of_the_guide_are_those_there_are(kind):
    _, _, section = PAGE.partition(f"# {HEADINGS[kind]}\n")
    documented = re.findall(
        r"^\| `(\w+)` \| (.*?) \| .*? \|$", re.split(r"^##", section, flags=re.MULTILINE)[0], re.MULTILINE
    )
    assert [name for name, _ in documented] == [*KINDS[kind]]
    required = [name for name, default in documented if default == "required"]
    assert required == [name for name, key in KINDS[kind].items() if key.required]
