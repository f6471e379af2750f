"""The table of requirements in the documentation: no row without a test, and no test that does not exist."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "declarative.md"
ROW = re.compile(
    r"^\| (?P<part>[^|]+) \| (?P<what>[^|]+) \| (?P<level>MUST[^|]*|SHOULD|event|error) \| (?P<tests>.*) \|$"
)
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def rows() -> list[re.Match[str]]:
    section = PAGE.read_text().split("## What the specification says")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    found = [ROW.match(line) for line in lines]
    assert all(found), [line for line, row in zip(lines, found, strict=True) if row is None]
    return [row for row in found if row is not None]


def test_every_requirement_has_a_test_that_exists() -> None:
    known = {path.name: functions(path) for path in HERE.glob("test_*.py")}
    for row in rows():
        tests = TEST.findall(row["tests"])
        assert tests, row["what"]
        assert row["tests"] == "<br>".join(f"`{file}::{name}`" for file, name in tests)
        for file, name in tests:
            assert name in known.get(file, set()), f"{row['what']}: there is no {file}::{name}"


def test_the_table_is_whole() -> None:
    """Each part of the specification that requires anything is there."""
    parts = {row["part"] for row in rows()}
    assert parts >= {"interface", "time", "make-up", "first start", "restart", "scheduler states", "task states"}
    assert parts >= {"timestamps", "polling", "cron", "errors", "overrides", "concurrency", "reentrancy", "resources"}
    assert parts >= {"determinism", "idempotency", "persistence", "bounds"}


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
