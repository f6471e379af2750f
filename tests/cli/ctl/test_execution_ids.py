"""Ids of executions: the beginning is enough where it is unique, and shells complete them."""

import os
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_server import SECRET, Served, serving

PROGRAM = Path(sys.executable).with_name("chronosctl")


def unique_part(id_: str, others: list[str]) -> str:
    """Return the shortest beginning of an id that no other id has."""
    length = next(n for n in range(4, 37) if not any(other.startswith(id_[:n]) for other in others))
    return id_[:length]


def common_beginning(first: str, *others: str) -> str:
    """Return the longest beginning that all ids have."""
    return next(first[:n] for n in range(36, 0, -1) if all(other.startswith(first[:n]) for other in others))


def test_a_unique_beginning_is_enough(served: Served) -> None:
    served.create()
    first, second = served.run(), served.run()
    part = unique_part(first, [second])
    for text in (part, part.upper(), part.replace("-", ""), first[:-1]):
        assert served.json("executions", "get", text) == served.rest(f"/executions/{first}")
    assert served.ctl("executions", "logs", part).stdout == "hi\n"
    assert served.ctl("executions", "why", part, "-o", "json").stdout
    assert f"id         {first}" in served.ctl("executions", "watch", part).stdout
    assert "would run" in served.ctl("executions", "replay", part, "--dry-run").stderr
    assert "succeeded" in served.ctl("executions", "cancel", part, code=4).stderr


def test_several_matches_are_listed(served: Served) -> None:
    served.create()
    runs = [served.run() for _ in range(7)]
    unclear = served.ctl("executions", "get", runs[0][:4], code=2)
    assert f'several executions start with "{runs[0][:4]}"; type more of the id:' in unclear.stderr
    assert [line.split()[0] for line in unclear.stderr.splitlines()[1:6]] == runs[:1:-1]
    assert "hello  succeeded" in unclear.stderr
    assert unclear.stdout == ""


def test_a_job_comes_before_an_id(served: Served) -> None:
    served.create()
    run = served.run()
    name = run[:4] if run[:4].isalnum() else "0000"
    served.create(name)
    assert "runs only when it is triggered" in served.ctl("executions", "why", name).stdout


@pytest.mark.parametrize("text", ["ffffffff", "0", "ghost", "f" * 31, "zzzz"])
def test_an_unknown_beginning_is_not_found(shared: Served, text: str) -> None:
    assert f'execution "{text}" not found' in shared.ctl("executions", "get", text, code=3).stderr


def test_the_list_filters_by_the_beginning_of_ids(served: Served) -> None:
    served.create()
    runs = [served.run() for _ in range(3)]
    for run in runs:
        matching = [other for other in reversed(runs) if other.startswith(run[:13])]
        page = served.rest(f"/executions?id_prefix={run[:13]}")
        assert [item["id"] for item in page["items"]] == matching
        assert page["next_cursor"] is None
        assert [item["id"] for item in served.rest(f"/executions?id_prefix={run}")["items"]] == [run]
    common = common_beginning(*runs)
    first = served.rest(f"/executions?id_prefix={common}&limit=2")
    second = served.rest(f"/executions?id_prefix={common}&limit=2&cursor={first['next_cursor']}")
    assert [item["id"] for item in [*first["items"], *second["items"]]] == runs[::-1]
    for nothing in ("f" * 32, "0" * 32, "0000"):
        assert served.rest(f"/executions?id_prefix={nothing}")["items"] == []
    with pytest.raises(urllib.error.HTTPError, match="400"):
        served.rest("/executions?id_prefix=xyz")


def test_a_reader_of_one_namespace_finds_no_other_ids() -> None:
    users: dict[str, dict[str, Any]] = {
        "ana": {"password_hash": SECRET, "role": "admin"},
        "eve": {"password_hash": SECRET, "namespaces": {"eu": "viewer"}},
    }
    with serving(users=users) as served:
        url = served.url
        served.url = url.replace("//", "//ana:secret@")
        served.create()
        run = served.run()
        served.url = url.replace("//", "//eve:secret@")
        served.ctl("executions", "get", run[:20], code=3)


def complete(served: Served, words: str) -> list[str]:
    asked = {"_CHRONOSCTL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    env = {**os.environ, **asked, "CHRONOS_SERVER": served.url}
    shown = subprocess.run([PROGRAM], capture_output=True, check=True, text=True, env=env).stdout
    return [line.partition(",")[2] for line in shown.splitlines() if line]


def test_shells_complete_ids(served: Served) -> None:
    served.create()
    served.create("bad", "false")
    done, failed = served.run(), served.run("bad")
    common = common_beginning(done, failed)
    assert complete(served, f"chronosctl executions get {common}") == [failed, done]
    assert complete(served, f"chronosctl executions logs {failed[:30]}") == [failed]
    assert complete(served, f"chronosctl dlq show {common}") == [failed]
    assert complete(served, f"chronosctl dlq replay {common}") == [failed]
    assert complete(served, "chronosctl executions get zz") == []
