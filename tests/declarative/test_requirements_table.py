"""The table of requirements in the documentation: every row names tests, and every named test exists."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "declarative.md"
ROW = re.compile(
    r"^\| (?P<part>[^|]+) \| (?P<requirement>[^|]+) \| (?P<level>MUST[^|]*|SHOULD|event|error) \| (?P<tests>.*) \|$"
)
TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


def read_rows() -> list[re.Match[str]]:
    section = PAGE.read_text().split("## What the specification says")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    matches = [ROW.match(line) for line in lines]
    assert all(matches), [line for line, match in zip(lines, matches, strict=True) if match is None]
    return [match for match in matches if match is not None]


def test_every_requirement_has_a_test_that_exists() -> None:
    known = {path.name: list_functions(path) for path in HERE.glob("test_*.py")}
    for row in read_rows():
        tests = TEST.findall(row["tests"])
        assert tests, row["requirement"]
        assert row["tests"] == "<br>".join(f"`{file}::{name}`" for file, name in tests)
        for file, name in tests:
            assert name in known.get(file, set()), f"{row['requirement']}: there is no {file}::{name}"


def test_the_table_has_every_part_of_the_specification() -> None:
    parts = {row["part"] for row in read_rows()}
    assert parts >= {"interface", "time", "make-up", "first start", "restart", "scheduler states", "task states"}
    assert parts >= {"timestamps", "polling", "cron", "errors", "overrides", "concurrency", "reentrancy", "resources"}
    assert parts >= {"determinism", "idempotency", "persistence", "bounds"}


def list_functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
