"""Pages that name parts of the code name parts that exist, and all of them."""

from __future__ import annotations

import inspect
import re
import runpy
import tomllib
from datetime import UTC
from importlib.metadata import version
from pathlib import Path

import pytest

import dutiful.service
from dutiful import Scheduler
from dutiful.cli.main import COMMANDS
from dutiful.declarative import registration
from dutiful.fleet import ScheduleState, agent_from, agent_schedules
from dutiful.service import ScheduleInput, declaration

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
INSTALL = (DOCS / "install.md").read_text(encoding="utf-8")
SERVICE = (DOCS / "reference/service-api.md").read_text(encoding="utf-8")
SCHEDULER = (DOCS / "reference/scheduler.md").read_text(encoding="utf-8")
MAPS = [ROOT / "CONTRIBUTING.md", *sorted((DOCS / "internals").glob("*.md"))]
# Where a file that a page names may be; a table may say more: "file in `stores/sqlite/`".
PLACES = [ROOT, ROOT / "src/dutiful", ROOT / "tests/spec"]
TABLE = re.compile(r"^\| file in `([\w/]+)/` \|.*\n(?:\|.*\n)*", re.MULTILINE)
# A name such as `core/` or `stores/codec.py`; one with a capital or a star is a pattern.
FILE = re.compile(r"`([a-z0-9_./-]+(?:\.(?:py|sql|sh|toml|lock)|/))`")


@pytest.mark.parametrize("page", MAPS, ids=lambda path: path.stem)
def test_every_file_that_a_map_of_the_code_names_exists(page):
    text = page.read_text(encoding="utf-8")
    missing = []
    for table in TABLE.finditer(text):
        folder = ROOT / "src/dutiful" / table[1]
        missing += [
            name for name in FILE.findall(table[0].partition("\n")[2]) if not (folder / name).exists()
        ]
    for name in FILE.findall(TABLE.sub("", text)):
        missing += [] if any((place / name).exists() for place in PLACES) else [name]
    assert missing == []


def test_every_folder_of_the_package_is_on_the_map():
    text = MAPS[0].read_text(encoding="utf-8")
    parts = [path.name for path in (ROOT / "src/dutiful").iterdir() if (path / "__init__.py").exists()]
    assert [part for part in parts if f"| `{part}/` |" not in text] == []


def test_every_extra_is_on_the_install_page_with_its_commands():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| .+? \| (.+) \|$", INSTALL, re.MULTILINE)
    rows = {extra: commands for extras, commands in lines for extra in re.findall(r"\w+", extras)}
    assert {*rows} == {*project["optional-dependencies"]}
    for name, command in COMMANDS.items():
        assert f"`{name}`" in rows[command.extra]


@pytest.mark.parametrize("name", [*inspect.signature(Scheduler).parameters])
def test_every_argument_of_the_scheduler_is_documented(name):
    assert f"\n| `{name}` | " in SCHEDULER


def test_both_methods_of_the_scheduler_are_documented():
    methods = [name for name in vars(Scheduler) if name[0] != "_"]
    assert [name for name in methods if f"\n## `{name}`\n" not in SCHEDULER] == []


def test_every_name_of_the_package_has_a_place_in_the_reference():
    pages = SCHEDULER + (DOCS / "reference/cron.md").read_text(encoding="utf-8")
    pages += (DOCS / "reference/errors.md").read_text(encoding="utf-8")
    assert [name for name in dutiful.__all__ if not re.search(rf"`(dutiful\.)?{name}\b", pages)] == []


def test_the_names_of_the_service_are_those_there_are():
    parts = SERVICE.partition("\n## The parts")[2]
    methods = parts.partition("## `SchedulerRegistrar`")[2].partition("## Values")[0]
    named = {*re.findall(r"^\| `(\w+)` \|", parts.replace(methods, ""), re.MULTILINE)}
    assert named == {*dutiful.service.__all__}
    told = {*re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|(.+?)\|", methods, re.MULTILINE)))}
    assert told == {name for name in vars(dutiful.service.SchedulerRegistrar) if name[0] != "_"}


DEFAULTS = re.compile(r"^\| \| library \| fleet \| service \|\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
DOORS = {"scheduler": 1, "fleet": 2, "service": 3}


def defaults(page):
    (rows,) = DEFAULTS.findall(page.read_text(encoding="utf-8"))
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def test_the_defaults_of_the_doors_are_the_same_on_every_page():
    table = defaults(README)
    assert defaults(DOCS / "concepts.md") == table
    for guide, column in DOORS.items():
        text = (DOCS / f"guides/{guide}.md").read_text(encoding="utf-8")
        assert [row for row in table if f"\n| {row[0]} | {row[column]} |\n" not in text] == []


async def work():
    """Do nothing."""


DAILY = "0 9 * * *"


def declared_by_the_doors():
    """Return a daily schedule as each door declares it."""
    agent = agent_from({"name": "a", "schedules": {"s": {"type": "cron", "expression": DAILY}}})
    entry = agent_schedules.Entry(agent, "s", agent.schedules["s"], ScheduleState(), None)
    return [
        registration.check([("s", DAILY, work, 1)], UTC).schedules[0],
        agent_schedules._schedule(entry, UTC, 1000),
        declaration.declared(ScheduleInput("w", 1, "ada", DAILY), "s", False, declaration.Defaults()),
    ]


def test_the_defaults_of_the_doors_are_those_of_the_code():
    dialect, _, gap, fold, missed, overlap, orphan = (row[1:] for row in defaults(README))
    for column, schedule in enumerate(declared_by_the_doors()):
        cron, policy = schedule.cadence, schedule.policy
        assert f"`{cron.dialect}`" in dialect[column]
        assert f"`gap={cron.gap}`" in gap[column]
        assert f"`fold={cron.fold}`" in fold[column]
        assert f"`{policy.catch_up}`" in missed[column]
        assert f"`{policy.overlap}`" in overlap[column]
        assert f"`{policy.on_orphan}`" in orphan[column]


def test_every_question_of_the_comparison_says_when_to_take_the_other_tool():
    rows = re.findall(r"^\|(.+)\|$", (DOCS / "comparison.md").read_text(encoding="utf-8"), re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows if not row.startswith("---")]
    heads = [row for row in cells if row[0] in {"tool", "engine"}]
    assert [head[-1] for head in heads] == ["take it when"] * 7
    others = [row for row in cells if row not in heads and not row[0].startswith("dutiful")]
    assert [row[0] for row in others if not all(row)] == []


@pytest.mark.parametrize("page", sorted((DOCS / "guides").glob("from-*.md")), ids=lambda path: path.stem)
def test_a_guide_for_those_who_move_links_to_the_comparison(page):
    assert "(../comparison.md)" in page.read_text(encoding="utf-8")


def test_what_the_comparison_says_of_changing_clocks_is_what_the_script_measures():
    script = runpy.run_path(str(ROOT / "scripts/compare_dst.py"))
    text = (DOCS / "comparison.md").read_text(encoding="utf-8")
    told = {
        name: int(score)
        for name, score in re.findall(r"^\| (\w+) [\d.]+ \| (\d+) of 56 \|", text, re.MULTILINE)
    }
    assert told == {name: script["score"](engine) for name, engine in script["ENGINES"].items()}
    versions = dict(re.findall(r"^\| (\w+) ([\d.]+) \| \d+ of 56 \|", text, re.MULTILINE))
    assert versions == {name: version(name) for name in script["ENGINES"]}


def test_every_page_is_linked_from_the_readme():
    links = {ROOT / link for link in re.findall(r"\]\((docs/[^)#]+)", README.read_text(encoding="utf-8"))}
    # The site's own first page, and records of decisions, which are reached by their index.
    pages = {*DOCS.rglob("*.md")} - {DOCS / "index.md", *(DOCS / "adr").glob("0*.md")}
    assert sorted(page.relative_to(ROOT).as_posix() for page in pages - links) == []
