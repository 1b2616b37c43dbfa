"""A claim in the documentation is an executed example, or it goes."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args, get_type_hints

import click
import pytest
from click.testing import CliRunner

import dutiful
import dutiful.errors
from dutiful.cli.main import cli
from dutiful.cli.schedule_files import read_schedules
from dutiful.core.cron import cron, dialect, lint
from dutiful.fleet import load_fleet
from dutiful.service.settings import settings_from
from dutiful.simulate.schedule_file import read_schedule_file

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTICES = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
# `text` is for diagrams and grammars, which nothing can run; `sh` for set-up and make targets, checked here;
# `toml` for schedule files and `yaml` for fleet files, which are read and, if they begin with `# NAME.toml`
# or `# NAME.yaml`, there for the commands and the Python examples.
# `shell-session` for commands that need a running service, which tests/test_docs_http.py runs.
# `shell` for what a reader types in order, which tests/test_docs_start.py follows from the top of a page.
LANGUAGES = {"python", "console", "sh", "shell", "shell-session", "text", "toml", "yaml", "{toctree}"}
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>.*)\n(?P<text>(?:.*\n)*?)(?P=indent)```$", re.MULTILINE)
# What lets a terminal find the commands of a checkout.
ON_PATH = 'export PATH="$PWD/.venv/bin:$PATH"'
# A python block that begins so is run by pytest, not as a script.
TEST_FILE = re.compile(r"# (test_\w+\.py)\n")
# A block that begins so is the whole of that file, which tests/test_examples.py runs.
EXAMPLE_FILE = re.compile(r"# (examples/\w+\.(?:py|yaml))\n")
DATA_FILE = re.compile(r"# ([\w-]+\.(?:toml|yaml))\n")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
REFUSAL = re.compile(r"^\| `(.*?)` \| `(\w+)` \| `(\w+)` \| (.+) \|$", re.MULTILINE)
CRON_PAGE = (ROOT / "docs/reference/cron.md").read_text(encoding="utf-8")

page_by_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: Path, language: str | None = None) -> Iterator[Block]:
    source = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        block = Block(match["language"], textwrap.dedent(match["text"]), line)
        if language in {None, block.language}:
            yield block


@page_by_page
def test_every_code_block_is_in_a_language_that_is_checked(page):
    unknown = [(block.line, block.language) for block in blocks(page) if block.language not in LANGUAGES]
    assert not unknown, f"(line, language) {unknown}: use one of {sorted(LANGUAGES)}"
    fences = re.findall(r"^ *```", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(list(blocks(page))), "a code block is not closed"


def put_data_files(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.language in {"toml", "yaml"} and (name := DATA_FILE.match(block.text)):
            (folder / name[1]).write_text(block.text, encoding="utf-8")


@page_by_page
def test_the_python_examples_are_true(page, tmp_path, monkeypatch):
    put_data_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    run_python(page)


def run_python(page: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        if TEST_FILE.match(block.text) or EXAMPLE_FILE.match(block.text):
            continue
        told = re.search(r"(?<!clock\.)\b(now|today|utcnow)\(", block.text)
        assert not told, f"line {block.line}: use a fixed time"
        if ">>>" in block.text:
            assert_doctest(page, block, names)
        else:
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)


@page_by_page
def test_the_examples_that_are_test_files_pass(page, tmp_path):
    for block in blocks(page, "python"):
        if name := TEST_FILE.match(block.text):
            (tmp_path / name[1]).write_text(block.text, encoding="utf-8")
            options = ["-q", "-p", "no:dutiful", "-p", "dutiful.pytest_plugin", "-p", "no:cacheprovider"]
            command = [sys.executable, "-m", "pytest", *options, name[1]]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout


class LastLineChecker(doctest.OutputChecker):
    """Accepts the last line of an exception with a note: all that doctest of Python 3.11.2 knows of it."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        is_last_line = want.startswith("dutiful.core.errors.") and want.splitlines()[1:] == got.splitlines()
        return super().check_output(want, got, optionflags) or is_last_line


# The doctest of 3.11.7 has whole exceptions; some release between the two was the first.
CHECKER = LastLineChecker if sys.version_info < (3, 11, 7) else doctest.OutputChecker


def assert_doctest(page: Path, block: Block, names: dict[str, object]) -> None:
    example = doctest.DocTestParser().get_doctest(block.text, {}, page.name, str(page), block.line)
    example.globs = names
    report: list[str] = []
    runner = doctest.DocTestRunner(CHECKER(), verbose=False)
    failed, _ = runner.run(example, out=report.append, clear_globs=False)
    assert not failed, "".join(report)


@page_by_page
def test_the_schedule_files_and_settings_files_are_read(page, tmp_path):
    for block in blocks(page, "toml"):
        path = tmp_path / f"line-{block.line}.toml"
        path.write_text(block.text, encoding="utf-8")
        if page.name == "service-settings.md":
            assert settings_from({"DUTIFUL_CONFIG": str(path)}).config == str(path)
        elif page.name == "schedules-as-files.md":
            assert read_schedules([str(path)])
        else:
            assert read_schedule_file(path).schedules, f"line {block.line}: show at least one schedule"


@page_by_page
def test_the_fleet_files_are_read(page, tmp_path):
    put_data_files(page, tmp_path)
    for block in blocks(page, "yaml"):
        path = tmp_path / f"line-{block.line}.yaml"
        # What is no fleet is the file of one agent.
        fleet = f"version: 1\nagents: [{{path: {path.name}}}]\n"
        path.write_text(block.text, encoding="utf-8")
        (tmp_path / "fleet-of-one.yaml").write_text(fleet, encoding="utf-8")
        is_fleet = re.search("^version:", block.text, re.MULTILINE)
        fleet_file = path if is_fleet else tmp_path / "fleet-of-one.yaml"
        assert load_fleet(fleet_file, environ={}).agents, f"line {block.line}: show at least one agent"


@page_by_page
def test_the_console_examples_print_exactly_this(page, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    put_data_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    # Tables of a fleet have the zone of the machine in their heads, and are as wide as it says.
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("COLUMNS", raising=False)
    status = 0
    for block in blocks(page, "console"):
        for command, expected in commands(block):
            if command == "echo $?":
                output = f"{status}\n"
            else:
                output, status = run(command)
                assert is_timeless(command, status), (
                    f"{command}: add --from, or it prints something else tomorrow"
                )
            assert f"$ {command}\n{output}" == f"$ {command}\n{expected}"


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield (command, expected output) of a console block."""
    assert block.text.startswith("$ "), f"line {block.line}: start with a command"
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def run(command: str) -> tuple[str, int]:
    program, *arguments = shlex.split(command)
    assert program == "dutiful", f"{command}: only dutiful and `echo $?` can be run here"
    # What click leaves for text on a terminal of 80 columns; its runner would use all 80.
    result = CliRunner().invoke(cli, arguments, prog_name="dutiful", terminal_width=78)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output, int(result.exit_code)


def is_timeless(command: str, status: int) -> bool:
    # A fleet that never ran, and an empty store, are the same every day.
    same = ("dutiful config", "dutiful doctor", "dutiful fleet ", "dutiful store ")
    timeless = command.startswith(same) or command.endswith(("--help", "--version"))
    return timeless or "--from" in command or status == 2


def test_the_tour_of_make_tour_reaches_its_end():
    tour = [sys.executable, "examples/tour.py"]
    done = subprocess.run(tour, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "Try next:" in done.stdout.splitlines()


@pytest.mark.parametrize("page", [*PAGES, *NOTICES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_shell_examples_set_up_or_are_make_targets_that_exist(page):
    lines = [line for block in blocks(page, "sh") for line in block.text.splitlines()]
    assert [line for line in lines if line.partition(" #")[0].strip() not in make_targets() + set_ups()] == []


def set_ups() -> list[str]:
    script = (ROOT / "scripts/bootstrap.sh").read_text(encoding="utf-8")
    bootstraps = re.findall(r"^#   (sh scripts/bootstrap\.sh(?: run)?)  ", script, re.MULTILINE)
    return [*bootstraps, ON_PATH]


def make_targets() -> list[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return [f"make {target}" for target in re.findall(r"^([a-z]+):", makefile, re.MULTILINE)]


def test_every_make_target_is_explained_to_contributors():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [target for target in make_targets() if f"`{target}`" not in text] == []


@pytest.mark.parametrize("page", [*PAGES, *NOTICES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_internal_links_lead_somewhere(page):
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    inside = [link for link in LINK.findall(prose) if not re.match(r"https?:|mailto:", link)]
    assert [link for link in inside if not leads_somewhere(page, link)] == []


@page_by_page
def test_the_pictures_of_html_are_there(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r'(?:src|srcset)="([^"]+)"', FENCE.sub("", text))
    assert [name for name in named if not (page.parent / name).exists()] == []


def leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name) if name else page
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(page: Path) -> set[str]:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_paths(command: click.Command, path: str) -> Iterator[str]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from command_paths(command.get_command(context, name), f"{path} {name}")


@pytest.mark.parametrize("path", [*command_paths(cli, "dutiful")])
def test_every_command_is_documented_with_its_help_and_an_example(path):
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    assert f"$ {path} --help\n" in page
    assert re.search(rf"^\$ {path}( (?!--help)|$)", page, re.MULTILINE)


@pytest.mark.parametrize("name", dutiful.errors.__all__)
def test_every_error_is_documented(name):
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    assert f"\n## `{name}`\n" in page


@pytest.mark.parametrize("name", [*dialect.DIALECTS, *dialect.MACROS])
def test_every_dialect_and_macro_is_documented(name):
    assert f"| `{name}` |" in CRON_PAGE


@pytest.mark.parametrize("name", [name for name in vars(dutiful.Cron) if name[0] != "_"])
def test_every_part_of_a_cron_is_documented(name):
    assert re.search(rf"`(Cron|cron)\.{name}\b", CRON_PAGE)


@pytest.mark.parametrize("name", inspect.signature(dutiful.Cron.parse).parameters)
def test_every_setting_is_documented_with_its_values(name):
    assert f"| `{name}` |" in CRON_PAGE
    values = [value for value in cron._CHOICES.get(name, ()) if value]
    assert [value for value in values if f'`"{value}"`' not in CRON_PAGE] == []


def lint_codes() -> Iterator[str]:
    kinds = get_args(get_type_hints(lint.DstEffect)["kind"])
    for node in ast.walk(ast.parse(inspect.getsource(lint))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
            code = node.args[0]
            yield from (
                [code.value] if isinstance(code, ast.Constant) else (code.values[0].value + k for k in kinds)
            )
    yield "invalid"


@pytest.mark.parametrize("code", sorted(set(lint_codes())))
def test_every_lint_code_is_explained_and_shown(code):
    assert f"| `{code}` |" in CRON_PAGE
    assert any(f"[{code}]" in block.text for block in blocks(ROOT / "docs/reference/cron.md", "console"))


@pytest.mark.parametrize(("text", "name", "field", "reason"), REFUSAL.findall(CRON_PAGE))
def test_what_the_reference_says_is_refused_is_refused(text, name, field, reason):
    with pytest.raises(dutiful.InvalidCronExpressionError) as caught:
        dutiful.Cron.parse(text, dialect=name)
    assert (caught.value.field, caught.value.reason) == (field, reason)


def reasons() -> Iterator[str]:
    """Yield the longest literal piece of every sentence with which the grammar refuses a text."""
    functions = [n for n in ast.parse(inspect.getsource(dialect)).body if isinstance(n, ast.FunctionDef)]
    for function in functions:
        body = function.body[1:] if ast.get_docstring(function) else function.body
        for node in (node for statement in body for node in ast.walk(statement)):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            pieces = [part.value for part in parts if isinstance(part, ast.Constant)]
            yield max((piece for piece in pieces if isinstance(piece, str)), key=len, default="")


@pytest.mark.parametrize("reason", sorted({piece for piece in reasons() if piece.count(" ") > 1}))
def test_every_reason_for_refusal_is_in_the_reference(reason):
    assert reason in CRON_PAGE
