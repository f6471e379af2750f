"""The source tree stays tidy: a pure core, small modules that say what they do, no leftovers."""

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "chronos"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MODULES = SOURCES + sorted((ROOT / "tests").rglob("*.py")) + sorted((ROOT / "bench").rglob("*.py"))

MAX_LINES = 500
MAX_MODULES = 25
# Nouns of the domain that end like gerunds.
GERUNDS = {"routing", "scheduling", "testing", "tuning", "wiring"}
# Users write `Job` and `Task`; the core has definitions of the same names.
SHARED_CLASS_NAMES = {"Job", "Task"}
# Phrases that hide the actor, or read like another language; see "plain English" in CONTRIBUTING.md.
RIDDLES = re.compile(
    r"\b(whoever|somebody|nobody|those\s+who|any\s+more|anew|(is|are)\s+no\b(?!\s+longer\b))", re.IGNORECASE
)
MIN_CLASS_WORDS = 4
MAX_SUBJECT = 72
RECENT_COMMITS = 50
CLOCKS_AND_DICE = (
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "os.getrandom",
    "os.urandom",
    "random",
    "secrets",
    "time",
    "uuid.uuid1",
    "uuid.uuid4",
)


def test_the_core_reads_no_clock_and_throws_no_dice() -> None:
    found = {_shown(path): impure(path.read_text()) for path in SOURCES if PACKAGE / "core" in path.parents}
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from datetime import datetime as dt\nx = dt.now(None)", ["datetime.datetime.now"]),
        ("import datetime\nf(default=datetime.datetime.utcnow)", ["datetime.datetime.utcnow"]),
        ("def f():\n    from time import monotonic", ["time.monotonic"]),
        ("import uuid\nuuid.uuid4()", ["uuid.uuid4"]),
        ("import os.path, random", ["random"]),
        ("from os import *", ["os.*"]),
        ("from datetime import time\nfrom uuid import UUID\nplan(now=state.now, at=time(9))", []),
    ],
)
def test_clocks_and_dice_are_found_under_any_name(source: str, names: list[str]) -> None:
    assert impure(source) == names


def test_modules_are_small() -> None:
    lines = {_shown(path): len(path.read_text().splitlines()) for path in MODULES}
    assert not {path: count for path, count in lines.items() if count > MAX_LINES}


def test_folders_are_small() -> None:
    counts = Counter(_shown(path.parent) for path in SOURCES)
    assert not {folder: count for folder, count in counts.items() if count > MAX_MODULES}


def test_modules_and_packages_are_named_by_nouns() -> None:
    names = {path.stem for path in SOURCES} | {path.parent.name for path in SOURCES}
    assert not {name for name in names if name.endswith("ing")} - GERUNDS


def test_a_class_name_is_used_once() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(_shown(path))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert not {name: paths for name, paths in shared.items() if name not in SHARED_CLASS_NAMES}


def test_packages_say_what_belongs_in_them_and_what_does_not() -> None:
    docs = {_shown(path): ast.get_docstring(ast.parse(path.read_text())) for path in SOURCES if path.stem == "__init__"}
    assert not [path for path, doc in docs.items() if path != "src/chronos/__init__.py" and "belong" not in (doc or "")]


def test_tests_mirror_the_source() -> None:
    """Every folder of tests is a package of the source, or one of the few that test the product as a whole."""
    whole = {"chaos", "clients", "data", "docs", "e2e", "guarantees", "ports", "simulation", "support"}
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    strays = {folder for folder in folders if folder.parts and folder.parts[0] not in whole}
    assert not [str(folder) for folder in strays if not (PACKAGE / folder).is_dir()]


def test_only_conftest_imports_fixtures() -> None:
    """A session fixture that a second module imports is set up twice, and torn down while others still use it."""
    fixtures = {name for path in (ROOT / "tests" / "support").glob("*.py") for name in _fixtures(path)}
    imports = {
        _shown(path): {full.rpartition(".")[2] for _, full in _imports(ast.parse(path.read_text()))} & fixtures
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "conftest.py"
    }
    assert fixtures
    assert not {path: names for path, names in imports.items() if names}


def test_modules_open_with_their_responsibility() -> None:
    trees = {_shown(path): ast.parse(path.read_text()) for path in SOURCES}
    assert not [path for path, tree in trees.items() if tree.body and not ast.get_docstring(tree)]


def test_prose_is_plain_english() -> None:
    """Docstrings, comments, messages and pages name the actor and say "not a", "no longer", "again"."""
    pages = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [*((path, line) for path in SOURCES for line in _prose(path)), *((path, _text(path)) for path in pages)]
    assert not [
        f"{_shown(path)}: {text[max(0, match.start() - 30) : match.end() + 30]!r}"
        for path, text in texts
        for match in RIDDLES.finditer(text)
    ]


@pytest.mark.parametrize("text", ["Nobody waits", "30x is no duration", "whoever\n    asks", "it begins anew"])
def test_riddles_are_found(text: str) -> None:
    assert RIDDLES.search(text)


@pytest.mark.parametrize("text", ["it is no longer needed", "anyone may read it", "are no longer kept", "basis no one"])
def test_plain_phrases_are_allowed(text: str) -> None:
    assert not RIDDLES.search(text)


def test_classes_say_what_they_are() -> None:
    short = [
        f"{_shown(path)}:{node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and (doc := ast.get_docstring(node)) and len(doc.split()) < MIN_CLASS_WORDS
    ]
    assert not short


def test_commit_subjects_are_short() -> None:
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%s", f"--max-count={RECENT_COMMITS}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if log.returncode:
        pytest.skip("not a git work tree")
    assert not [subject for subject in log.stdout.splitlines() if len(subject) >= MAX_SUBJECT]


def test_only_the_command_line_prints() -> None:
    calls = [
        f"{_shown(path)}:{node.lineno}"
        for path in SOURCES
        if PACKAGE / "cli" not in path.parents
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not calls


def test_what_is_left_to_do_has_an_issue() -> None:
    comments = [(path, token) for path in MODULES for token in _comments(path)]
    assert not [
        f"{_shown(path)}:{token.start[0]}"
        for path, token in comments
        if re.search(r"\b(TODO|FIXME|XXX)\b", token.string) and not re.search(r"#\d+", token.string)
    ]


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    home = re.compile(r"(?<![\w.])/(?:root|home|work)\b")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git work tree")
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    assert not [_shown(path) for path in files if path.is_file() and home.search(_text(path))]


def test_every_command_for_make_is_a_target() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        commands = re.findall(r"(?:^\$? ?|`)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE)
        assert set(commands) <= targets, f"{_shown(page)} names a target that the Makefile does not have"


def impure(source: str) -> list[str]:
    """Every clock or source of randomness that the source names, under whatever alias."""
    tree = ast.parse(source)
    imports = list(_imports(tree))
    bound = dict(imports)
    named = [full for _, full in imports] + [name for node in ast.walk(tree) if (name := _dotted(node, bound))]
    return sorted({name for name in named if _is_impure(name)})


def _is_impure(name: str) -> bool:
    if name.endswith(".*"):
        return any(bad.startswith(name[:-1]) or name.startswith(f"{bad}.") for bad in CLOCKS_AND_DICE)
    return any(name == bad or name.startswith(f"{bad}.") for bad in CLOCKS_AND_DICE)


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Each imported thing: the name it is bound to here, and its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _fixtures(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and any("fixture" in ast.unparse(each) for each in node.decorator_list):
            yield node.name


def _dotted(node: ast.AST, bound: dict[str, str]) -> str | None:
    """The full name of an expression like ``dt.now``, or None where it does not start at an import."""
    if isinstance(node, ast.Name):
        return bound.get(node.id)
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value, bound)):
        return f"{base}.{node.attr}"
    return None


def _prose(path: Path) -> Iterator[str]:
    """Every string and every comment of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    for token in _comments(path):
        yield token.string


def _comments(path: Path) -> Iterator[tokenize.TokenInfo]:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return (token for token in tokens if token.type == tokenize.COMMENT)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="ignore")


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT))
