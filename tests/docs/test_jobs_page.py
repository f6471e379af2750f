"""The page about jobs lists exactly the accepted fields, with their words, bounds and defaults.

A table under a heading with names describes an object of a job (``### `retry` ``); every other table describes the job.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import pytest

from chronos.core.config import DEFAULTS
from chronos.service.serializers import read_job
from chronos.service.serializers.settings import FIELDS
from tests.api.openapi.test_job_schema import VALID
from tests.docs.test_examples import ROOT, blocks
from tests.support.accepted_fields import CHECKS, ITEM, Path, objects
from tests.support.api_server import V1, World, in_world
from tests.support.cli_server import serving

PAGE = ROOT / "docs" / "reference" / "jobs.md"
NAME = re.compile(r"`([A-Za-z0-9_]+)`")
ONLY = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: the fields it describes, and its cells by column."""

    fields: list[str]
    cells: Mapping[str, str]


def tables() -> Iterator[tuple[tuple[str, ...], Row]]:
    """Yield every row with the names of the objects that it describes; an empty tuple is the job."""
    objects_described: tuple[str, ...] = ()
    heads: list[str] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            objects_described, heads = tuple(NAME.findall(line)), []
        if not line.startswith("|"):
            heads = []
        elif not heads:
            heads = [cell.strip() for cell in line.strip("|").split("|")]
        elif not line.startswith("|--"):
            cells = dict(zip(heads, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
            yield objects_described, Row(NAME.findall(cells["field"]), cells)


ROWS = list(tables())


def rows(name: str | None) -> list[Row]:
    """Return the rows about an object, by its name; None is the job."""
    return [row for described, row in ROWS if (name in described if name else not described)]


def object_name(path: Path) -> str | None:
    return next((part for part in reversed(path) if part != ITEM), None)


def rows_at(path: Path) -> list[Row]:
    """Return the rows about the object at a path; objects with the same fields share their rows."""
    alike = [other for other, fields in objects().items() if fields.keys() == objects()[path].keys()]
    return next((rows_of for other in [path, *alike] if (rows_of := rows(object_name(other)))), [])


# The fields of "limits" are in one cell of another table.
OBJECTS = [path for path in objects() if object_name(path) != "limits"]


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: ".".join(path) or "job")
def test_the_page_has_the_fields_that_are_accepted(path: Path) -> None:
    assert {field for row in rows_at(path) for field in row.fields} == set(objects()[path])


def test_limits_are_listed_with_their_targets() -> None:
    for kind in ("command", "python"):
        [row] = [row for row in rows(kind) if row.fields == ["limits"]]
        assert set(NAME.findall(row.cells["meaning"])) == set(objects()[kind, "limits"])


EACH = [(path, name) for path in OBJECTS for name in objects()[path]]


@pytest.mark.parametrize(("path", "name"), [each for each in EACH if objects()[each[0]][each[1]].words])
def test_the_page_has_the_words_that_are_accepted(path: Path, name: str) -> None:
    cells = [cell for row in rows_at(path) if name in row.fields for cell in row.cells.values()]
    if "as for a job" in cells or "as above" in cells:
        cells = [cell for row in rows(None) if name in row.fields for cell in row.cells.values()]
    words = set(objects()[path][name].words)
    if name in ("overlap", "concurrency"):  # the alias has its own sentence
        cells += [line for line in PAGE.read_text().splitlines() if "`forbid`" in line]
    assert words <= set(NAME.findall(" ".join(cells)))


@pytest.mark.parametrize(("path", "name"), [each for each in EACH if objects()[each[0]][each[1]].bounds])
def test_the_page_has_the_bounds_that_are_enforced(path: Path, name: str) -> None:
    low, high = objects()[path][name].bounds or ("", "")
    texts = [" ".join(row.cells.values()) for row in [*rows_at(path), *rows(None)] if name in row.fields]
    shown = f"{int(low):,}–{int(high):,}" if low.isdigit() else "above 0"
    assert name == "redirects" or any(shown in text for text in texts)


def test_the_page_has_the_defaults_that_apply() -> None:
    """Combined as one job, they equal the defaults of the core."""

    def defaults(table: list[Row]) -> dict[str, Any]:
        cells = [(row.fields[0], ONLY.fullmatch(row.cells.get("default", ""))) for row in table]
        return {field: value(match[1]) for field, match in cells if match}

    def value(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return text

    flat = {name: default for name, default in defaults(rows(None)).items() if name in FIELDS}
    nested = {name: defaults(rows(name)) for name in FIELDS - {"retry_policy"} if rows(name)}
    assert len(nested) == 6
    job = {"name": "a", "command": {"argv": ["true"]}, **flat, **nested}
    assert read_job(job, checks=CHECKS).spec.settings == DEFAULTS


def test_example_jobs_can_be_created() -> None:
    """In order, on one server."""
    jobs = [json.loads(text) for text in blocks(PAGE, "json")]
    assert len(jobs) >= 3

    async def case(world: World) -> None:
        for job in jobs:
            VALID.validate(job)
            answer = await world.post("/jobs", job, status=201)
            assert (await world.call("PUT", f"{V1}/jobs/{job['name']}", answer)).json["version"] == 1

    in_world(case)


def test_example_files_can_be_applied(tmp_path: File) -> None:
    texts = blocks(PAGE, "yaml")
    assert texts
    with serving() as served:
        for text in texts:
            (tmp_path / "jobs.yaml").write_text(text)
            assert "created" in served.ctl("jobs", "apply", "-f", str(tmp_path / "jobs.yaml"), "--prune").output
