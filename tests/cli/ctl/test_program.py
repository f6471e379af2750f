"""``chronosctl`` as a shell sees it: quick help, completion with live names, proxies that answer instead."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from chronos.cli.ctl import errors
from chronos.cli.main import chronosctl
from tests.support.cli_server import Served

PROGRAM = Path(sys.executable).with_name("chronosctl")
HEAVY = ("aiohttp", "asyncio", "chronos.core", "chronos.service", "http.client", "msgspec", "ssl", "yaml")


#: What a command that reads needs: its own module, the modules that all commands share, and the client.
SHARED = {
    *(
        "chronos",
        "chronos.errors",
        "chronos.cli",
        "chronos.cli.main",
        "chronos.cli.output",
        "chronos.cli.lazy_commands",
    ),
    *("chronos.cli.ctl", "chronos.cli.ctl.client", "chronos.cli.ctl.contexts", "chronos.cli.ctl.errors"),
    *("chronos.cli.ctl.execution_ids", "chronos.cli.ctl.options", "chronos.cli.ctl.tables", "chronos.cli.ctl.watch"),
    *("chronos.cli.ctl.commands", "chronos.cli.ctl.commands.jobs", "chronos.cli.ctl.commands.job_selection"),
}
RUNS = {
    *("chronos.cli.ctl.commands.executions", "chronos.cli.ctl.commands.jobs_actions"),
    *("chronos.core", "chronos.core.calendar", "chronos.core.schedule", "chronos.core.schedule.durations"),
}


def loaded_modules(*command: str) -> set[str]:
    """Run a command in a process of its own, and return the modules that it imported."""
    source = (
        "import sys\n"
        "from chronos.cli.main import chronosctl\n"
        f"sys.argv[1:] = {list(command)}\n"
        "try: chronosctl()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True, text=True)
    return set(result.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("command", [[], ["jobs"], ["jobs", "create"], ["executions", "watch"], ["context", "set"]])
def test_help_loads_nothing_heavy(command: list[str]) -> None:
    assert not set(HEAVY) & loaded_modules(*command, "--help")


@pytest.mark.parametrize(
    ("command", "more", "unneeded"),
    [
        (["jobs", "list"], set[str](), {"asyncio", "msgspec", "yaml", "aiohttp", "difflib"}),
        (["jobs", "get", "hello"], set[str](), {"asyncio", "msgspec", "aiohttp", "difflib"}),
        (["executions", "list"], RUNS, {"asyncio", "msgspec", "yaml", "aiohttp", "difflib"}),
        (["executions", "get"], RUNS, {"asyncio", "msgspec", "yaml", "aiohttp", "difflib"}),
    ],
)
def test_reading_loads_only_what_it_needs(
    served: Served, command: list[str], more: set[str], unneeded: set[str]
) -> None:
    served.create()
    run = served.run()
    arguments = [*command, run] if command == ["executions", "get"] else command
    loaded = loaded_modules("--server", served.url, *arguments)
    assert {module for module in loaded if module.split(".")[0] == "chronos"} <= SHARED | more
    assert not loaded & unneeded


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("chronosctl jobs get nightly-", ["nightly-etl", "nightly-report"]),
        ("chronosctl executions list --job he", ["hello"]),
        ("chronosctl executions watch he", ["hello"]),
        ("chronosctl jobs cre", ["create"]),
        ("chronosctl jobs list --state pa", ["paused"]),
        ("chronosctl jobs create x --timezone Europe/Par", ["Europe/Paris"]),
    ],
)
def test_completion_knows_the_jobs(served: Served, words: str, expected: list[str]) -> None:
    for name in ("hello", "nightly-etl", "nightly-report"):
        served.create(name)
    asked = {"_CHRONOSCTL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = subprocess.run(
        [PROGRAM],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, **asked, "CHRONOS_SERVER": served.url},
    )
    assert [line.partition(",")[2] for line in result.stdout.splitlines()] == expected


def test_completion_without_a_server_is_silent() -> None:
    words = {"COMP_WORDS": "chronosctl jobs get x", "COMP_CWORD": "3", "_CHRONOSCTL_COMPLETE": "bash_complete"}
    env = {**os.environ, **words, "CHRONOS_SERVER": "http://127.0.0.1:9"}
    result = subprocess.run([PROGRAM], capture_output=True, check=False, text=True, env=env)
    assert (result.stdout.strip(), result.stderr) == ("", "")


def test_runs_is_executions() -> None:
    shown = CliRunner().invoke(chronosctl, ["runs", "--help"]).stdout
    assert "why" in shown
    assert " runs " not in CliRunner().invoke(chronosctl, ["--help"]).stdout


# --- replies of other servers

ANSWERS = {
    "/teapot": (418, b"<html>I am a teapot</html>", "text/html"),
    "/gateway": (502, b"bad gateway", "text/plain"),
    "/words": (200, b"hello", "application/json"),
    "/page": (200, b"<html>hello</html>", "text/html"),
    "/empty": (200, b"{}", "application/json"),
    "/list": (200, b"[1]", "application/json"),
    "/items": (200, b'{"items": 5, "next_cursor": null}', "application/json"),
    "/missing": (404, b"<html>File not found</html>", "text/html"),
    "/moved": (301, b"", "text/html"),
    "/broken": (500, json.dumps({"detail": "It was logged", "request_id": "r-1"}).encode(), "application/problem+json"),
}


class Other(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body, kind = next(answer for path, answer in ANSWERS.items() if self.path.startswith(path))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def other() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/teapot", 1, "I am a teapot"),
        ("/gateway", 5, "bad gateway"),
        ("/words", 1, "is it Chronos?"),
        ("/page", 1, "is it Chronos?"),
        ("/moved", 1, "the server answered 301"),
        ("/broken", 1, "It was logged (request r-1)"),
        ("/missing", 1, "does not answer like a Chronos server (status 404); name one with --server URL"),
    ],
)
def test_replies_of_other_servers_are_reported(other: str, path: str, code: int, message: str) -> None:
    result = CliRunner().invoke(chronosctl, ["--server", other + path, "nodes"])
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr


@pytest.mark.parametrize("path", ["/empty", "/list", "/items"])
@pytest.mark.parametrize("command", ["jobs list", "jobs get x", "nodes", "status", "executions list", "dlq list"])
def test_replies_of_another_json_server_are_reported(other: str, path: str, command: str) -> None:
    result = CliRunner().invoke(chronosctl, ["--server", other + path, *command.split()])
    assert isinstance(result.exception, SystemExit)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "does not answer like a Chronos server; name one with --server" in result.stderr


def test_completion_with_another_json_server_is_silent(other: str) -> None:
    words = {"COMP_WORDS": "chronosctl jobs get x", "COMP_CWORD": "3", "_CHRONOSCTL_COMPLETE": "bash_complete"}
    env = {**os.environ, **words, "CHRONOS_SERVER": f"{other}/items"}
    result = subprocess.run([PROGRAM], capture_output=True, check=False, text=True, env=env)
    assert (result.stdout.strip(), result.stderr) == ("", "")


@pytest.mark.parametrize(
    "arguments", [["get", "\udcff"], ["run", "x", "--key", "a\nb"], ["run", "x", "--payload", "NaN"]]
)
def test_invalid_requests_are_not_sent(shared: Served, arguments: list[str]) -> None:
    assert "the request cannot be sent: " in shared.ctl("jobs", *arguments, code=1).stderr


@pytest.mark.parametrize(
    ("status", "problem", "message"),
    [
        (500, {}, "the server answered 500"),
        (422, {"errors": [{"pointer": "/tasks/0/http/url", "message": "is missing"}]}, "tasks.0.http.url: is missing"),
        (422, {"errors": [{"pointer": "", "message": "is not a job"}]}, "is not a job"),
        (
            412,
            {"detail": "etl changed since you read it (you have v6, it is v7, by ana)"},
            "etl changed since you read it (you have v6, it is v7, by ana)\n  chronosctl jobs diff etl 6 7",
        ),
        (412, {"detail": "it no longer exists"}, "it no longer exists"),
    ],
)
def test_problems_are_formatted_for_people(status: int, problem: dict[str, object], message: str) -> None:
    assert errors.format_problem(status, problem) == message


def test_ignored_credentials_are_noticed_once(served: Served) -> None:
    served.create()
    result = served.ctl("jobs", "pause", "hello", env={"CHRONOS_TOKEN": "nothing"})  # reads the job, then changes it
    assert result.stderr.count("! credentials are ignored") == 1
    assert "ignored" not in served.ctl("jobs", "resume", "hello").stderr
