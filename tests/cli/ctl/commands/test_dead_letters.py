"""``chronosctl dlq`` in bulk: all, by job or by error, at a rate, with a progress bar on a terminal only."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chronos.cli.ctl.client import ApiClient
from chronos.cli.ctl.commands.dead_letter_selection import handle_one, pace
from chronos.cli.ctl.contexts import ServerContext
from tests.support.cli_server import Served, serving

PROGRAM = Path(sys.executable).with_name("chronosctl")


@pytest.fixture
def letters() -> Iterator[Served]:
    """A server with three dead letters: two of the job "exits", one of the job "absent"."""
    with serving() as served:
        served.create("exits", "sh", "-c", "exit 3")
        served.create("absent", "no-such-program")
        for job in ("exits", "absent", "exits"):
            served.run(job)
        yield served


def jobs_of(served: Served) -> list[str]:
    return [letter["job_name"] for letter in served.rest("/dead-letters")["items"]]


def test_the_list_is_filtered(letters: Served) -> None:
    listed = letters.json("dlq", "list", "--job", "exits")["items"]
    assert [letter["job_name"] for letter in listed] == ["exits", "exits"]
    reason = letters.json("dlq", "list", "--job", "absent")["items"][0]["reason"]
    assert "no-such-program" in reason["message"]
    by_error = letters.json("dlq", "list", "--error", "NO-SUCH")["items"]
    assert [letter["job_name"] for letter in by_error] == ["absent"]
    assert letters.ctl("dlq", "list", "--job", "exits", "--error", "no-such").stderr == "no dead letters\n"
    assert len(letters.ctl("dlq", "list", "--job", "exits", "--limit", "1", "-o", "name").stdout.split()) == 1


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--job", "exits"], ["absent"]),
        (["--error", "no-such-program"], ["exits", "exits"]),
        (["--job", "absent", "--error", "no-such"], ["exits", "exits"]),
        (["--all"], []),
        (["--job", "ghost"], ["exits", "absent", "exits"]),
    ],
)
def test_many_are_discarded(letters: Served, options: list[str], left: list[str]) -> None:
    would = letters.ctl("dlq", "discard", *options, "--dry-run")
    count = 3 - len(left)
    words = f"{count} dead letter{'' if count == 1 else 's'}"
    assert would.stderr.splitlines()[-1] == f"{words} would be discarded, 0 unchanged"
    assert len(jobs_of(letters)) == 3
    done = letters.ctl("dlq", "discard", *options)
    assert done.stderr.splitlines()[-1] == f"{words} discarded, 0 unchanged"
    assert jobs_of(letters) == left


def test_many_are_replayed_oldest_first(letters: Served) -> None:
    before = [letter["id"] for letter in letters.rest("/dead-letters")["items"]]
    reply = letters.json("dlq", "replay", "--all", "--rate", "1000", "--reason", "fixed")
    assert (reply["matched"], reply["done"], reply["failed"], reply["action"]) == (3, 3, 0, "replay")
    assert [item["id"] for item in reply["results"]] == before[::-1]
    for item in reply["results"]:
        assert letters.rest(f"/executions/{item['execution_id']}")["replay_of"] == item["id"]


def test_a_letter_that_is_gone_is_unchanged(letters: Served) -> None:
    client = ApiClient(ServerContext(url=letters.url))
    letter = letters.rest("/dead-letters")["items"][0]

    def replay(id_: str) -> Any:
        return client.call("POST", "dead-letters", id_, "replay", body={}).value

    def discard(id_: str) -> Any:
        return client.call("DELETE", "dead-letters", id_).value

    done = handle_one(letter, replay)
    assert done["result"] == "done"
    assert handle_one(letter, replay) == {**done, "result": "unchanged"}
    assert handle_one(letter, discard)["result"] == "unchanged"


def test_the_rate_spreads_requests() -> None:
    spent_s, pauses = [100.0], list[float]()

    def sleep(pause_s: float) -> None:
        spent_s.append(pause_s)
        pauses.append(pause_s)

    for number, _ in enumerate(pace([{}] * 6, 4.0, monotonic_s=lambda: sum(spent_s), sleep=sleep)):
        spent_s.append(1.0 if number == 2 else 0.125)  # the third one is slow
    assert pauses == [0.0, 0.125, 0.125, 0.0, 0.125, 0.125]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay"], "give either the ID of one dead letter, or --job, --error or both, or --all"),
        (["replay", "abcd", "--all"], "give either the ID"),
        (["discard", "--all", "--job", "exits"], "give either the ID"),
        (["replay", "abcd", "--rate", "5"], "--rate needs several dead letters"),
        (["replay", "--all", "--rate", "0"], "--rate"),
        (["replay", "--all", "--wait"], "--payload, --wait and --timeout need the ID of one dead letter"),
        (["replay", "--all", "--payload", "1"], "--payload, --wait and --timeout need the ID"),
    ],
)
def test_invalid_selections_are_refused(shared: Served, arguments: list[str], message: str) -> None:
    assert message in shared.ctl("dlq", *arguments, code=2).stderr


def test_a_terminal_shows_the_progress(letters: Served) -> None:
    main, terminal = pty.openpty()
    command = [str(PROGRAM), "--server", letters.url, "dlq", "replay", "--all", "--yes", "--rate", "100"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, check=True, text=True)
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(main, 4096):
            shown += part
    except OSError:  # the end, on Linux
        pass
    os.close(main)
    assert b"3/3" in shown
    assert "3/3" not in done.stdout
    assert "3/3" not in letters.ctl("dlq", "replay", "--all").stderr
