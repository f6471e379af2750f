"""The page of problems and the code agree on codes, statuses, titles, causes and fixes, also on the server."""

import re
from pathlib import Path

import pytest

from chronos.api.openapi.docs_page import problems_page
from chronos.api.problems import INTERNAL, KINDS, PROBLEMS_PATH, ProblemKind, type_of
from tests.support.api_server import World, in_world

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "problems.md"
ENTRY = re.compile(
    r"^## `(\w+)`\n\n(\d{3}) · (.+?)\n\n\*\*Cause\.\*\* (.+?)\n\n\*\*Fix\.\*\* (.+?)\n(?=\n## |\Z)", re.M | re.S
)
KIND_BY_CODE = {kind.code: kind for kind in (*KINDS, INTERNAL)}


def documented() -> dict[str, tuple[int, str, str, str]]:
    """Every entry of the page by its code: status, title, cause, fix."""
    found: dict[str, tuple[int, str, str, str]] = {}
    for code, status, *texts in ENTRY.findall(PAGE.read_text()):
        title, cause, fix = (" ".join(text.split()) for text in texts)
        found[code] = int(status), title, cause, fix
    return found


def test_the_page_lists_every_code_and_no_other() -> None:
    assert sorted(documented()) == sorted(KIND_BY_CODE)
    assert PAGE.read_text().count("\n## ") == len(KIND_BY_CODE)


@pytest.mark.parametrize("kind", KIND_BY_CODE.values(), ids=lambda kind: kind.code)
def test_an_entry_equals_its_kind(kind: ProblemKind) -> None:
    assert documented()[kind.code] == (kind.status, kind.title, kind.cause, kind.fix)


def test_kinds_of_one_code_are_documented_alike() -> None:
    for kind in KINDS:
        same = KIND_BY_CODE[kind.code]
        assert (kind.status, kind.title, kind.cause, kind.fix) == (same.status, same.title, same.cause, same.fix)


def test_texts_are_plain_sentences() -> None:
    for kind in KIND_BY_CODE.values():
        assert kind.title[0].isupper()
        assert not kind.title.endswith(".")
        assert kind.cause.endswith(".")
        assert kind.fix.endswith(".")


def test_the_type_of_a_problem_is_an_anchor_of_a_page_of_the_server() -> None:
    async def case(world: World) -> None:
        reply = await world.call("GET", "/nowhere")
        assert reply.json["type"] == "/docs/problems#no_such_path"
        assert "paths of the API start with /api/v1" in reply.json["detail"]
        path, _, anchor = reply.json["type"].partition("#")
        shown = await world.call("GET", path)
        assert (shown.status, shown.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert f'id="{anchor}"' in shown.body.decode()

    in_world(case)


def test_the_page_of_the_server_has_every_entry() -> None:
    shown = problems_page("/ops")
    for kind in KIND_BY_CODE.values():
        assert type_of(kind, "/ops") == f"/ops{PROBLEMS_PATH}#{kind.code}"
        assert f'<h2 id="{kind.code}">' in shown
        assert str(kind.status) in shown
    assert 'href="/ops/docs"' in shown
