"""The rules of the house, checked by walking syntax trees, so that nobody has to remember them.

A rule takes one module and yields (line, what is wrong and what to do). Every rule is also shown a
snippet that breaks it, because a rule that cannot fail checks nothing.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    Violations = Iterator[tuple[int, str]]

ROOT = Path(__file__).resolve().parents[1]
# Files are split by noun, not by size: 400 lines ask whether there are two nouns, 500 are refused.
FILE_LINES_MAX, FUNCTION_LINES_MAX = 500, 60
# A file with one user is part of it below these lengths: with a user anywhere, and with a neighbour as user.
FRAGMENT_LINES, NEIGHBOUR_FRAGMENT_LINES = 60, 100
FRAGMENTS_WITH_A_REASON = {
    "dutiful.core.plan.fast_path": "a second way to a result of the planner; a property test compares both",
    "dutiful.declarative.stored_task": "the errors of damaged rows; its user has 380 lines of another noun",
    "dutiful.receivers.postgres": "a record of finished runs as the other records, each with its own client",
    "dutiful.service.backfill_progress": "a question to the ledger; its user only puts parts together",
    "dutiful.service.expectations": "a periodic check with a life of its own; its user only starts it",
    "dutiful.cli.stream_encoding": "imported only on terminals without UTF-8, before anything is printed",
    "dutiful.launchers.callback": "a launcher as the other launchers, which the library chooses",
    "dutiful.runtime.loop_thread": "a thread with an event loop, which knows nothing of the service",
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_DOORS = {"declarative", "fleet", "service"}
_TOOLS = {"importers", "simulate", "testing"}
_RING = {"stores", "launchers", "monitor"}
_REACH = {"outbound", "process"}  # by which other hosts and programs are reached
_WIRED = {"core", "runtime"} | _RING | _REACH
# Part of the package -> the parts it may import; "" is its own __init__.
MAY_IMPORT = {
    **{part: {"core", part} for part in ("core", "importers")},
    "errors": {"core"},
    **{part: {"core", "runtime", part} for part in ("runtime", *_RING, "testing", *_REACH)},
    "launchers": {"core", "runtime", "launchers"} | _REACH,
    # The consumers' side of a queue: installed where the service is not.
    "receivers": {"core", "runtime", "launchers", "receivers"},
    "httpd": {"core", "runtime", "outbound", "httpd"},
    **{part: _WIRED | {part} for part in _DOORS},
    **{part: _WIRED | {"httpd", part} for part in ("fleet", "service")},
    "web": {"core", "runtime", "httpd", "service", "web"},
    # The simulation wires the real engine to the clock that is shipped for tests.
    "simulate": _WIRED | {"testing", "simulate"},
    "pytest_plugin": {"testing"},
    "": _WIRED | _DOORS | {"errors"},
    "cli": _WIRED | _DOORS | _TOOLS | {"", "errors", "httpd", "web", "receivers", "cli"},
    "__main__": {"cli"},
}
STANDARD_LIBRARY_ONLY = {"core", "errors", "runtime"}
# What the members of a ring may share; beyond these they are strangers to each other.
SHARED = {
    f"dutiful.stores.{name}" for name in ("codec", "integrity", "rows", "schema", "task_record", "transfer")
}
SHARED |= {"dutiful.launchers.broker", "dutiful.launchers.executor"}
# The tables of URLs know every member of their ring.
URL_TABLES = {"dutiful.stores.url", "dutiful.launchers.url"}
IMPURE = re.compile(
    r"(asyncio|concurrent|glob|http|io|logging|multiprocessing|os|pathlib|queue|random|secrets|select|selectors"
    r"|shutil|signal|socket|sqlite3|ssl|subprocess|sys|tempfile|threading|time|urllib|uuid)\b"
)
CLOCK_READS = re.compile(
    r"datetime\.(datetime\.(now|utcnow|today)|date\.today)|asyncio\.sleep"
    r"|time\.(time|monotonic|perf_counter|process_time)(_ns)?|time\.(sleep|localtime|gmtime)"
)
BANNED_NAMES = re.compile("managers?|helpers?|utils?|common|base|abstract|impl|factory|misc")
# Given by the fleet's specification; programs written against it import them.
GIVEN_NAMES = {"FleetManagerError", "WorkSourceManager"}


@dataclass(frozen=True)
class Module:
    """One file: `name` is dotted in the source (`dutiful.core.cron.zone`) and a path in the tests."""

    name: str
    source: str
    is_package: bool = False

    @property
    def part(self) -> str:
        return (*self.name.split("."), "")[1]

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in walked(self.source) if isinstance(node, kinds))

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of these builtins."""
        return (node for node in self.nodes(ast.Call) if getattr(node.func, "id", "") in names)


# One tree at a time: hundreds of them keep the collector busier than the rules do.
@lru_cache(maxsize=1)
def walked(source: str) -> list[ast.AST]:
    return [*ast.walk(ast.parse(source))]


def load(path: Path) -> Module:
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[1:]).removesuffix(".__init__") if parts[0] == "src" else "/".join(parts)
    return Module(name, path.read_text(encoding="utf-8"), path.name == "__init__.py")


SOURCE = [load(path) for path in sorted((ROOT / "src/dutiful").rglob("*.py"))]
TESTS = [load(path) for path in sorted((ROOT / "tests").rglob("*.py"))]


@cache
def imports(module: Module) -> list[tuple[int, str]]:
    """Return (line, dotted name) of all that is imported, also inside functions and for types only."""
    found, package = [], module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    for node in module.nodes(ast.Import, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if getattr(node, "level", 0) else []
        origin = [*above, *filter(None, [getattr(node, "module", "")])]
        found += [(node.lineno, ".".join([*origin, alias.name])) for alias in node.names]
    return found


def imports_point_inwards(module: Module) -> Violations:
    if module.part not in MAY_IMPORT:
        yield 1, f"give {module.part!r} its place in MAY_IMPORT, in the ring that the dependency rule names"
        return
    allowed = MAY_IMPORT[module.part]
    for line, target in imports(module):
        root, part, *_ = (*target.split("."), "")
        if root == "dutiful" and (part not in allowed or _is_sibling(module, target)):
            yield line, f"{module.name} may not import {target}; its ring may import {sorted(allowed)}"
        elif root not in sys.stdlib_module_names | {"dutiful"} and module.part in STANDARD_LIBRARY_ONLY:
            yield line, f"{module.part} needs the standard library only; move the use of {root} outwards"


def _is_sibling(module: Module, target: str) -> bool:
    own, other = (".".join(name.split(".")[:3]) for name in (module.name, target))
    same_ring = module.part in {"stores", "launchers"} and other.startswith(f"dutiful.{module.part}.")
    knows_all = module.is_package or module.name in URL_TABLES
    return same_ring and not knows_all and other not in SHARED | {own}


def core_is_pure(module: Module) -> Violations:
    if module.part == "core":
        for line, target in imports(module):
            if IMPURE.match(target):
                yield line, f"core imports {target}; take the value as an argument, fetched by an outer ring"
        for call in module.calls("open"):
            yield call.lineno, "core does I/O; take the text as an argument"


def only_the_clock_reads_time(module: Module) -> Violations:
    bound = {}
    for node in module.nodes(ast.Import, ast.ImportFrom):
        origin = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        bound |= {alias.asname or alias.name: origin + alias.name for alias in node.names}
    # Sleeping for no time gives way to others and waits for nothing.
    yields = {call.lineno for call in module.nodes(ast.Call) if ast.unparse(call) == "asyncio.sleep(0)"}
    for node in module.nodes(ast.Attribute, ast.Name):
        name, exempt = _dotted(node, bound), module.name == "dutiful.runtime.clock" or node.lineno in yields
        if CLOCK_READS.fullmatch(name) and not exempt:
            yield node.lineno, f"{name} outside clock.py; take a Clock as an argument"


def _dotted(node: ast.AST, bound: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, bound)}.{node.attr}"
    return bound.get(getattr(node, "id", ""), "")


def core_never_shows_hash_order(module: Module) -> Violations:
    if module.part != "core":
        return
    methods = [node for node in module.nodes(ast.FunctionDef) if node.name == "__hash__"]
    for call in module.calls("hash"):
        if not any(method.lineno <= call.lineno <= method.end_lineno for method in methods):
            yield call.lineno, "hash() differs between processes; use hashlib, or compare the values"
    walked = [node.iter for node in module.nodes(ast.For, ast.comprehension)]
    walked += [arg for call in module.calls("list", "tuple", "enumerate", "iter", "map") for arg in call.args]
    sets = [*module.nodes(ast.Set, ast.SetComp), *module.calls("set", "frozenset")]
    places = {(node.lineno, node.col_offset) for node in sets}
    for node in walked:
        if (node.lineno, node.col_offset) in places:
            yield node.lineno, "a set is walked in no stable order; walk sorted(...) of it"


def only_the_cli_prints(module: Module) -> Violations:
    if module.part != "cli":
        for call in module.calls("print"):
            yield call.lineno, "print() outside cli; return the text, or emit an event"


def everything_public_has_a_docstring(module: Module) -> Violations:
    pending = walked(module.source)[:1]
    while pending:
        node = pending.pop()
        if ast.get_docstring(node) is None:
            name, line = getattr(node, "name", "module"), getattr(node, "lineno", 1)
            yield line, f"{name} lacks a docstring: say what it returns and raises"
        if not isinstance(node, FUNCTIONS):
            members = [child for child in node.body if isinstance(child, (ast.ClassDef, *FUNCTIONS))]
            pending += [child for child in members if child.name[0] != "_"]


def names_say_what_a_thing_is(module: Module) -> Violations:
    classes = [(node.lineno, node.name) for node in module.nodes(ast.ClassDef)]
    for line, name in [(1, re.split(r"[./]", module.name)[-1]), *classes]:
        words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
        if name not in GIVEN_NAMES and any(BANNED_NAMES.fullmatch(word.lower()) for word in words):
            yield line, f"{name!r} says nothing; name it by its noun"


def functions_are_short(module: Module) -> Violations:
    for node in module.nodes(*FUNCTIONS):
        if node.end_lineno - node.lineno >= FUNCTION_LINES_MAX:
            yield node.lineno, f"{node.name} is longer than {FUNCTION_LINES_MAX} lines; split it by purpose"


def files_are_short(module: Module) -> Violations:
    if module.source.count("\n") > FILE_LINES_MAX:
        yield FILE_LINES_MAX, f"is longer than {FILE_LINES_MAX} lines; split it by noun"


# What only these may use: a text in the source -> the modules, and the advice to all others.
SOLE_CALLERS = {
    r"\bEngine\(": ({"dutiful.runtime.host", "dutiful.simulate.simulation"}, "let a Host own the engine"),
    r"_?store\.apply": ({"dutiful.runtime.registrar"}, "write schedules through the Registrar"),
}


def one_home_makes_engines_and_one_writes_schedules(module: Module) -> Violations:
    # A method that is passed on as a value is called somewhere else, so attributes count as calls do.
    used = [(call.lineno, ast.unparse(call.func) + "(") for call in module.nodes(ast.Call)]
    used += [(node.lineno, ast.unparse(node)) for node in module.nodes(ast.Attribute)]
    for line, shown in used:
        for pattern, (allowed, advice) in SOLE_CALLERS.items():
            if re.search(f"(^|[.]){pattern}$", shown) and module.name not in allowed:
                yield line, f"{shown}: {advice}"


RULES_OF_TESTS = [names_say_what_a_thing_is, functions_are_short, files_are_short]
RULES = [
    one_home_makes_engines_and_one_writes_schedules, imports_point_inwards, only_the_clock_reads_time,
    core_is_pure, core_never_shows_hash_order, only_the_cli_prints, everything_public_has_a_docstring,
    *RULES_OF_TESTS,
]  # fmt: skip


@cache
def broken_rules() -> dict[object, list[str]]:
    """Return what breaks each rule, found module by module."""
    found: dict[object, list[str]] = {rule: [] for rule in RULES}
    for modules, rules in [(SOURCE, RULES), (TESTS, RULES_OF_TESTS)]:
        for module, rule in product(modules, rules):
            found[rule] += [f"{module.name}:{line}: {text}" for line, text in rule(module)]
    return found


def import_cycle(modules: list[Module]) -> list[str]:
    """Return modules that import each other by a detour; [] if there are none."""
    known = {module.name for module in modules}
    return _cycle(
        {m.name: {_owner(target, known) for _, target in imports(m)} - {"", m.name} for m in modules}
    )


def folder_cycle(modules: list[Module]) -> list[str]:
    """Return folders of one parent that import each other by a detour; [] if there are none."""
    folders = {module.name: _folders(module) for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        for _, target in imports(module):
            both = zip(folders[module.name], folders.get(_owner(target, set(folders)), []), strict=False)
            apart = next(((own, other) for own, other in both if own != other), None)
            if apart is not None:
                graph.setdefault(apart[0], set()).add(apart[1])
    return _cycle(graph)


def _folders(module: Module) -> list[str]:
    """Return the folders that a module is in, from the outermost on, without the package itself."""
    parts = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    return [".".join(parts[:length]) for length in range(2, len(parts) + 1)]


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def _owner(target: str, known: set[str]) -> str:
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target


def lone_fragments(modules: list[Module]) -> list[str]:
    """Return the short modules that only one other module imports; a neighbour in the folder sooner."""
    known, folders = {module.name for module in modules}, {m.name: _folders(m) for m in modules}
    users: dict[str, set[str]] = {}
    for module in modules:
        for _, target in imports(module):
            users.setdefault(_owner(target, known), set()).add(module.name)
    found = []
    for module in (each for each in modules if not each.is_package):
        others = users.get(module.name, set()) - {module.name}
        is_neighbour = [folders[other] for other in others] == [folders[module.name]]
        most = NEIGHBOUR_FRAGMENT_LINES if is_neighbour else FRAGMENT_LINES
        found += [module.name] if len(others) == 1 and module.source.count("\n") < most else []
    return found


def report(violations: list[str]) -> str:
    return "\n".join(["", *violations])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_obeys(rule):
    assert not broken_rules()[rule], report(broken_rules()[rule])


def test_no_module_imports_itself_by_a_detour():
    cycle = import_cycle(SOURCE)
    assert not cycle, f"break the cycle {' -> '.join(cycle)}: move what both need inwards"


def test_no_folder_imports_itself_by_a_detour():
    cycle = folder_cycle(SOURCE)
    assert not cycle, f"break the cycle {' -> '.join(cycle)}: move what both need to the folder above them"


def test_a_fragment_that_one_module_uses_is_part_of_that_module():
    assert set(lone_fragments(SOURCE)) == FRAGMENTS_WITH_A_REASON.keys(), "move the others into their users"


BROKEN = [
    (one_home_makes_engines_and_one_writes_schedules, "dutiful.fleet.x", "engine = Engine(store, launcher)"),
    (one_home_makes_engines_and_one_writes_schedules, "dutiful.service.x", "self._store.apply(changes)"),
    (one_home_makes_engines_and_one_writes_schedules, "dutiful.runtime.x", "end_pauses(store.apply, found)"),
    (imports_point_inwards, "dutiful.core.x", "import dutiful.runtime.clock"),
    (imports_point_inwards, "dutiful.core.x", "import click"),
    (imports_point_inwards, "dutiful.core.x", "from ..runtime.ports import Store"),
    (imports_point_inwards, "dutiful.runtime.engine", "from dutiful.launchers.http import Http"),
    (imports_point_inwards, "dutiful.httpd.auth", "from dutiful.service.settings import settings_from"),
    (imports_point_inwards, "dutiful.runtime.registrar", "def f():\n    from dutiful.stores import sqlite"),
    (imports_point_inwards, "dutiful.stores.sqlite", "from dutiful.stores.postgres import connect"),
    (imports_point_inwards, "dutiful.launchers.http", "from dutiful.launchers import command"),
    (imports_point_inwards, "dutiful.stores.memory", "import dutiful.monitor"),
    (imports_point_inwards, "dutiful.process", "from dutiful.outbound import Outbound"),
    (imports_point_inwards, "dutiful.web.api", "from dutiful.stores.memory import MemoryStore"),
    (imports_point_inwards, "dutiful.declarative", "from dutiful.service import serve"),
    (imports_point_inwards, "dutiful.fleet.runner", "from dutiful.cli.main import cli"),
    (imports_point_inwards, "dutiful.testing", "from dutiful import Cron"),
    (imports_point_inwards, "dutiful.novelty", ""),
    (core_is_pure, "dutiful.core.x", "import uuid"),
    (core_is_pure, "dutiful.core.x", "from os.path import join"),
    (core_is_pure, "dutiful.core.x", "def f(path): return open(path)"),
    (only_the_clock_reads_time, "dutiful.runtime.engine", "from datetime import datetime\ndatetime.now()"),
    (only_the_clock_reads_time, "dutiful.runtime.engine", "import datetime as dt\ndt.datetime.utcnow()"),
    (only_the_clock_reads_time, "dutiful.testing", "from time import sleep as rest\nrest(1)"),
    (only_the_clock_reads_time, "dutiful.stores.memory", "import time\nread = time.monotonic"),
    (only_the_clock_reads_time, "dutiful.runtime.engine", "import asyncio\nasyncio.sleep(5)"),
    (core_never_shows_hash_order, "dutiful.core.x", "shard = hash(name) % 4"),
    (core_never_shows_hash_order, "dutiful.core.x", "for x in {1, 2}: pass"),
    (core_never_shows_hash_order, "dutiful.core.x", "names = [x for x in set(given)]"),
    (core_never_shows_hash_order, "dutiful.core.x", "names = tuple({x for x in given})"),
    (only_the_cli_prints, "dutiful.runtime.engine", "print('started')"),
    (everything_public_has_a_docstring, "dutiful.runtime.engine", "x = 1"),
    (everything_public_has_a_docstring, "dutiful.runtime.ports", "'D.'\nclass A:\n 'D.'\n def f(self): ..."),
    (names_say_what_a_thing_is, "dutiful.fleet.agent_utils", ""),
    (names_say_what_a_thing_is, "dutiful.runtime.engine", "class ScheduleManager: ..."),
    (functions_are_short, "dutiful.runtime.engine", "def f():\n" + "    x = 1\n" * 60),
    (files_are_short, "tests/test_x", "x = 1\n" * 501),
]
LEGAL = [
    (one_home_makes_engines_and_one_writes_schedules, "dutiful.runtime.host", "engine = Engine(store)"),
    (one_home_makes_engines_and_one_writes_schedules, "dutiful.fleet.x", "self.registrar.apply(changes)"),
    (imports_point_inwards, "dutiful.stores.sqlite", "import x\nfrom dutiful.stores.codec import encode"),
    (imports_point_inwards, "dutiful.web.api", "import x\nfrom dutiful.runtime.registrar import Registrar"),
    (only_the_clock_reads_time, "dutiful.runtime.clock", "import time\ntime.sleep(1)"),
    (only_the_clock_reads_time, "dutiful.runtime.engine", "now = self.clock.now()"),
    (only_the_clock_reads_time, "dutiful.runtime.engine", "import asyncio\nasyncio.sleep(0)"),
    (core_never_shows_hash_order, "dutiful.core.x", "def __hash__(self):\n    return hash(self.name)"),
    (core_never_shows_hash_order, "dutiful.core.x", "for x in sorted({1, 2}): pass"),
    (only_the_cli_prints, "dutiful.cli.cron", "print('next')"),
    (names_say_what_a_thing_is, "dutiful.stores.database", "class DatabaseError: ..."),
    (functions_are_short, "dutiful.runtime.engine", "def f():\n" + "    x = 1\n" * 59),
]


def shown(value: object) -> str:
    return (str(getattr(value, "__name__", value)).splitlines() or ["empty"])[-1].strip()


@pytest.mark.parametrize(("rule", "name", "snippet"), BROKEN, ids=shown)
def test_a_broken_rule_is_noticed(rule, name, snippet):
    assert list(rule(Module(name, snippet)))


@pytest.mark.parametrize(("rule", "name", "snippet"), LEGAL, ids=shown)
def test_what_is_legal_is_left_alone(rule, name, snippet):
    assert not list(rule(Module(name, snippet)))


def test_every_rule_has_been_seen_to_fail():
    assert {rule for rule, *_ in BROKEN} == {*RULES}


def test_a_cycle_is_noticed():
    pair = [Module("dutiful.a", "from dutiful.b import x"), Module("dutiful.b", "import dutiful.a")]
    assert {*import_cycle(pair)} == {"dutiful.a", "dutiful.b"}


def test_a_cycle_of_folders_is_noticed():
    into = [
        Module("dutiful.x.a.one", "from dutiful.x.b.two import y"),
        Module("dutiful.x.b.two", "y = 1"),
        Module("dutiful.x.b.three", "import dutiful.x.a.one\nimport dutiful.x.four"),
        Module("dutiful.x.four", "from dutiful.x.a import one"),
    ]
    assert {*folder_cycle(into)} == {"dutiful.x.a", "dutiful.x.b"}
    assert not folder_cycle(into[:2] + into[3:])


def test_a_fragment_with_one_user_is_noticed():
    user, other = Module("dutiful.x", "import dutiful.y"), Module("dutiful.z", "import dutiful.y")
    assert lone_fragments([user, Module("dutiful.y", "y = 1")]) == ["dutiful.y"]
    assert not lone_fragments([user, other, Module("dutiful.y", "y = 1")])


@pytest.mark.parametrize(("user", "lines"), [("dutiful.a.x", 100), ("dutiful.b.x", 60)])
def test_a_fragment_may_be_longer_where_its_user_is_a_neighbour(user, lines):
    for length, found in ((lines - 1, ["dutiful.a.y"]), (lines, [])):
        fragment = Module("dutiful.a.y", "y = 1\n" * length)
        assert lone_fragments([Module(user, "import dutiful.a.y"), fragment]) == found
