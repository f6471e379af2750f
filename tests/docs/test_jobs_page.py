"""The page about jobs is true: it has every field that is accepted and no other, their words, bounds and defaults.

A table under a heading with names in it is about an object of a job (``### `retry` ``); every other is about the job.
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
NAME = re.compile(r"`([a-z0-9_]+)`")
ONLY = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: the fields it is about, and its cells by their headings."""

    fields: list[str]
    cells: Mapping[str, str]


def tables() -> Iterator[tuple[tuple[str, ...], Row]]:
    """Every row, with the objects that it is about; none: the job."""
    about: tuple[str, ...] = ()
    heads: list[str] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            about, heads = tuple(NAME.findall(line)), []
        if not line.startswith("|"):
            heads = []
        elif not heads:
            heads = [cell.strip() for cell in line.strip("|").split("|")]
        elif not line.startswith("|--"):
            cells = dict(zip(heads, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
            yield about, Row(NAME.findall(cells["field"]), cells)


ROWS = list(tables())


def rows(name: str | None) -> list[Row]:
    """What the page says of an object, by its name; None: of the job."""
    return [row for about, row in ROWS if (name in about if name else not about)]


def named(path: Path) -> str | None:
    return next((part for part in reversed(path) if part != ITEM), None)


def told(path: Path) -> list[Row]:
    """What the page says of an object; one that takes the same as another is told with that."""
    alike = [other for other, fields in objects().items() if fields.keys() == objects()[path].keys()]
    found = [said for other in [path, *alike] if (said := rows(named(other)))]
    return found[0] if found else []


OBJECTS = [path for path in objects() if named(path) != "limits"]  # which stand in one row, as the others' options do


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: ".".join(path) or "job")
def test_the_page_has_the_fields_that_are_accepted(path: Path) -> None:
    assert {field for row in told(path) for field in row.fields} == set(objects()[path])


def test_limits_are_told_where_they_stand() -> None:
    for kind in ("command", "python"):
        [row] = [row for row in rows(kind) if row.fields == ["limits"]]
        assert set(NAME.findall(row.cells["meaning"])) == set(objects()[kind, "limits"])


EACH = [(path, name) for path in OBJECTS for name in objects()[path]]


@pytest.mark.parametrize(("path", "name"), [each for each in EACH if objects()[each[0]][each[1]].words])
def test_the_page_has_the_words_that_are_accepted(path: Path, name: str) -> None:
    said = [cell for row in told(path) if name in row.fields for cell in row.cells.values()]
    if "as for a job" in said or "as above" in said:
        said = [cell for row in rows(None) if name in row.fields for cell in row.cells.values()]
    words = set(objects()[path][name].words)
    if name in ("overlap", "concurrency"):  # the alias has a sentence of its own
        said += [line for line in PAGE.read_text().splitlines() if "`forbid`" in line]
    assert words <= set(NAME.findall(" ".join(said)))


@pytest.mark.parametrize(("path", "name"), [each for each in EACH if objects()[each[0]][each[1]].bounds])
def test_the_page_has_the_bounds_that_are_kept(path: Path, name: str) -> None:
    low, high = objects()[path][name].bounds or ("", "")
    said = [" ".join(row.cells.values()) for row in [*told(path), *rows(None)] if name in row.fields]
    shown = f"{int(low):,}–{int(high):,}" if low.isdigit() else "above 0"
    assert name == "redirects" or any(shown in text for text in said)


def test_the_page_has_the_defaults_that_hold() -> None:
    """Put together as a job, they say just what every job starts from."""

    def defaults(found: list[Row]) -> dict[str, Any]:
        given = [(row.fields[0], ONLY.fullmatch(row.cells.get("default", ""))) for row in found]
        return {field: value(match[1]) for field, match in given if match}

    def value(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return text

    said = {name: said for name, said in defaults(rows(None)).items() if name in FIELDS}
    nested = {name: defaults(rows(name)) for name in FIELDS - {"retry_policy"} if rows(name)}
    assert len(nested) == 6
    job = {"name": "a", "command": {"argv": ["true"]}, **said, **nested}
    assert read_job(job, checks=CHECKS).spec.settings == DEFAULTS


def test_its_jobs_can_be_created() -> None:
    """In order, at one server."""
    jobs = [json.loads(text) for text in blocks(PAGE, "json")]
    assert len(jobs) >= 3

    async def case(world: World) -> None:
        for job in jobs:
            VALID.validate(job)
            answer = await world.post("/jobs", job, status=201)
            assert (await world.call("PUT", f"{V1}/jobs/{job['name']}", answer)).json["version"] == 1

    in_world(case)


def test_its_files_can_be_applied(tmp_path: File) -> None:
    texts = blocks(PAGE, "yaml")
    assert texts
    with serving() as served:
        for text in texts:
            (tmp_path / "jobs.yaml").write_text(text)
            assert "created" in served.ctl("jobs", "apply", "-f", str(tmp_path / "jobs.yaml"), "--prune").output
