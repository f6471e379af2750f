"""Limits of commands, with real servers, users and processes."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_server import SECRET
from tests.support.e2e_server import ADMIN, V1, Client
from tests.support.server_process import PATIENCE_S, Process, environment, run

Start = Callable[..., Process]
AUTH = {"type": "basic", "users": {"ana": {"password_hash": SECRET, "role": "admin"}}}
linux = pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
#: Starts a program without capabilities: root is a user as any other there.
UNPRIVILEGED = (
    sys.executable,
    "-c",
    "import ctypes, os, sys; libc = ctypes.CDLL(None); [libc.prctl(24, one, 0, 0, 0) for one in range(64)]; "
    "os.execvp(sys.argv[1], sys.argv[1:])",
)


def written(folder: Path, **config: Any) -> None:
    path = folder / "chronos.yaml"
    path.write_text(json.dumps(config))
    path.chmod(0o600)


def output_of(api: Client, script: str, name: str = "x", **options: Any) -> str:
    """Run a shell command as a job and return its output."""
    api.create(name, command={"shell": True, "command": script, **options})
    return printed(api, name)


def printed(api: Client, name: str) -> str:
    ran = api.trigger(name)
    ended = api.ended(ran)
    assert ended["status"] == "succeeded", ended
    return api.call("GET", f"{V1}/executions/{ran}/log").body.decode()


def test_the_admin_of_a_namespace_cannot_reach_the_store(start: Start, tmp_path: Path) -> None:
    written(tmp_path, auth=AUTH)
    server = start().ready()
    ana = Client(server, ADMIN)
    made = ana.post("/tokens", {"name": "ben", "role": "admin", "namespaces": ["b"]}, 201)
    ben = Client(server, f"Bearer {made['token']}")
    attack = {"argv": ["cp", "chronos-data/chronos.db", "copied.db"]}
    reply = ben.call("PUT", f"{V1}/jobs/db?namespace=b", {"schedule": "now", "command": attack})
    assert (reply.status, reply.code) == (403, "forbidden")
    assert "saving a job that runs commands in b needs the admin role in all namespaces" in reply.json["detail"]
    assert "token:ben has admin in b" in reply.json["detail"]
    assert ben.call("PUT", f"{V1}/jobs/db?namespace=b", {"schedule": "manual", "wait": {"for": "1s"}}).status == 201
    hook = {"on_start": {"command": attack}}
    assert ben.call("PATCH", f"{V1}/jobs/db?namespace=b", hook).status == 403
    assert ana.call("PATCH", f"{V1}/jobs/db?namespace=b", hook).status == 200
    assert ben.call("PATCH", f"{V1}/jobs/db?namespace=b", {"schedule": "now"}).status == 403
    assert not (tmp_path / "copied.db").exists()


def test_targets_that_are_not_allowed_are_rejected(start: Start, tmp_path: Path) -> None:
    before = start().ready()
    api = Client(before, None)
    api.create("old", command={"argv": ["true"]})
    assert api.call("PATCH", f"{V1}/jobs/old", {"wait": {"for": "1s"}}).status == 200
    api.create("kept", command={"argv": ["true"]})
    before.send(signal.SIGTERM)
    assert before.wait() == 0
    written(tmp_path, dispatcher={"targets": ["http", "wait"]})
    server = start().ready()
    api = Client(server, None)
    told = '"command" targets are not allowed on this server; use one of http, wait'
    runs, waits = {"command": {"argv": ["true"]}}, {"schedule": "manual", "wait": {"for": "1s"}}
    for field, job in (("/command", runs), ("/on_start/command", {**waits, "on_start": runs})):
        reply = api.call("PUT", f"{V1}/jobs/new", job)
        assert (reply.status, reply.code) == (422, "invalid_job")
        [error] = reply.json["errors"]
        assert error["pointer"] == field
        assert told in error["message"]
    back = api.call("POST", f"{V1}/jobs/old/rollback", {"version": 1})
    assert (back.status, [error["pointer"] for error in back.json["errors"]]) == (422, ["/tasks/0/command"])
    ended = api.ended(api.trigger("kept"))
    assert (ended["status"], ended["attempts"]) == ("failed", 1)
    assert told in ended["tasks"][0]["error"]


def test_limits_are_a_default_and_a_maximum(start: Start, tmp_path: Path) -> None:
    shows = "ulimit -n; ulimit -f; ulimit -t; ulimit -v"
    before = start().ready()
    Client(before, None).create("old", command={"shell": True, "command": shows, "limits": {"files": 512}})
    before.send(signal.SIGTERM)
    assert before.wait() == 0
    limits = {"files": 64, "file_size": "1MiB", "cpu_s": 5, "memory": "512MiB", "processes": 50}
    written(tmp_path, dispatcher={"command": {"limits": limits}})
    api = Client(start().ready(), None)
    blocks = str((1 << 20) // 512)
    assert printed(api, "old").split() == ["64", blocks, "5", "524288"]
    assert output_of(api, shows, "default").split() == ["64", blocks, "5", "524288"]
    assert output_of(api, shows, "lower", limits={"files": 32, "cpu_s": 2}).split() == ["32", blocks, "2", "524288"]
    more = {"files": 65, "file_size": "2MiB", "cpu_s": 6, "memory": "1GiB", "processes": 51}
    reply = api.call("PUT", f"{V1}/jobs/more", {"schedule": "manual", "command": {"argv": ["true"], "limits": more}})
    assert reply.status == 422
    assert {error["pointer"] for error in reply.json["errors"]} == {f"/command/limits/{name}" for name in more}
    assert "command.limits.files is 65; this server allows at most 64" in reply.json["detail"]
    api.create(
        "large", command={"shell": True, "command": "head -c 2000000 /dev/zero > zeros"}, retry={"max_attempts": 1}
    )
    ended = api.ended(api.trigger("large"))
    assert ended["status"] == "failed"
    assert (tmp_path / "zeros").stat().st_size == 1 << 20


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; those of pytest are private."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@linux
@root
def test_commands_of_another_user_cannot_read_the_store(open_folder: Path) -> None:
    written(open_folder, auth=AUTH, dispatcher={"command": {"user": "nobody"}})
    with Process(open_folder, (), {}) as server:
        api = Client(server.ready(), ADMIN)
        tried = "; ".join(
            f"cat {open_folder}/{name} > /dev/null && echo {name}"
            for name in ("chronos.yaml", "chronos-data/chronos.db", "chronos-data/chronos.db-wal", "chronos-data")
        )
        lines = output_of(api, f"id -un; pwd; {tried}; ls {open_folder}/chronos-data; ls {open_folder}").splitlines()
        assert lines[0:2] == ["nobody", "/"]
        denied = [line for line in lines if "Permission denied" in line]
        assert len(denied) == 5, lines  # three files, and the folder twice
        assert "chronos-data" in lines[2:]  # what is outside of it can be seen
        assert not [line for line in lines if line in ("chronos.yaml/", "chronos.db")]
        reply = api.call("PUT", f"{V1}/jobs/y", {"schedule": "manual", "command": {"argv": ["id"], "user": "root"}})
        assert reply.status == 422
        assert 'this server runs every command as "nobody"' in reply.json["detail"]


@linux
@root
@pytest.mark.parametrize(
    ("user", "mode", "told"),
    [
        ("root", 0o600, "which is root"),
        ("nobody", 0o644, 'chronos.db can be read by "nobody" (dispatcher.command.user); chmod 600'),
        ("no-such-user", 0o600, "this machine has no such user"),
    ],
)
def test_a_command_user_without_protection_prevents_the_start(
    open_folder: Path, user: str, mode: int, told: str
) -> None:
    with Process(open_folder, ("--store", "sqlite:///chronos.db"), {}) as server:
        server.ready().send(signal.SIGTERM)
        assert server.wait() == 0
    (open_folder / "chronos.db").chmod(mode)
    written(open_folder, dispatcher={"command": {"user": user}})
    result = run(open_folder, "server", "--store", "sqlite:///chronos.db", "--listen", "127.0.0.1:0")
    assert (result.returncode, result.stdout) == (1, "")
    assert told in result.stderr
    assert "Traceback" not in result.stderr


@linux
@root
def test_a_configuration_readable_for_the_command_user_gives_a_warning(open_folder: Path) -> None:
    written(open_folder, auth=AUTH, dispatcher={"command": {"user": "nobody"}})
    told = (
        'chronos.yaml holds credentials and can be read by "nobody" (dispatcher.command.user); chmod 600 chronos.yaml'
    )
    assert told not in run(open_folder, "config", "validate").stderr
    (open_folder / "chronos.yaml").chmod(0o644)
    assert told in run(open_folder, "config", "validate").stderr


@linux
def test_the_environment_of_the_server_has_no_credentials(start: Start) -> None:
    """A command could read it, like any process of the same user."""
    secret = "canary-5e57"
    tokens = {secret: {"token_hash": "0" * 64, "role": "viewer"}}
    variables = {
        "CHRONOS_STORE": f"sqlite:///{secret}.db",
        "CHRONOS_AUTH__TYPE": "basic",
        "CHRONOS_AUTH__USERS": json.dumps(AUTH["users"]),
        "CHRONOS_AUTH__TOKENS": json.dumps(tokens),
        "CHRONOS_TOKEN": secret,
        "CHRONOS_NODE__ID": "not-secret",
    }
    server = start(**variables).ready()
    shown = Path(f"/proc/{server.pid}/environ")
    script = f"cat {shown} | tr '\\0' '\\n'; env"
    told = output_of(Client(server, ADMIN), script)
    assert "CHRONOS_JOB=x" in told
    for each in (secret, SECRET, "token_hash"):
        assert each not in told
    if os.access(shown, os.R_OK):
        assert b"not-secret" in shown.read_bytes()


@linux
def test_other_processes_of_the_same_user_cannot_read_its_memory(tmp_path: Path) -> None:
    def can_look(pid: int) -> bool:
        look = [*UNPRIVILEGED, "cat", f"/proc/{pid}/environ"]
        return subprocess.run(look, capture_output=True, check=False).returncode == 0

    with Process(tmp_path, (), {}, launcher=UNPRIVILEGED) as server:
        assert not can_look(server.ready().pid)
    echo = [*UNPRIVILEGED, "sh", "-c", "echo; read line"]  # any other process, so that looking is known to work
    with subprocess.Popen(echo, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert can_look(other.pid)
        other.communicate(b"\n")


@linux
def test_the_commands_in_the_banner_work(start: Start, tmp_path: Path) -> None:
    written(tmp_path, auth=AUTH)
    server = start().ready()
    login, create, watch = server.first_job()
    assert login == f"chronosctl login {server.url}"
    assert "secret" not in f"{login}{create}{watch}"
    folder = Path(sys.executable).parent
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        ["sh", "-c", f"{login} && {create}"],
        env=environment(HOME=str(tmp_path), PATH=f"{folder}:{os.environ['PATH']}"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - passwords are asked for there
    )
    os.close(theirs)
    told = b""
    answers = {b"User": b"ana\n", b"Password": b"secret\n"}
    try:
        while chunk := _read(ours):
            told += chunk
            for asked in [one for one in answers if one in told]:
                os.write(ours, answers.pop(asked))
        assert process.wait(PATIENCE_S) == 0, told
    finally:
        process.kill()
        os.close(ours)
    assert b"secret" not in told
    assert Client(server, ADMIN).get("/jobs/hello")["tasks"][0]["command"] == {"argv": ["echo", "hi"]}


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""
