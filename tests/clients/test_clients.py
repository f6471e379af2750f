"""The OpenAPI document works with client generators and linters of pinned versions.

The tools are installed into temporary folders: those for node from package-lock.json, those for Python from
requirements/clients.txt. This needs a network, so `make check-slow` runs these tests, and `make test` does not.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server_process import Process

HERE = Path(__file__).parent
REQUIREMENTS = HERE.parents[1] / "requirements" / "clients.txt"
UV = Path(sys.executable).with_name("uv")
TIMEOUT_S = 300.0
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "SCARF_ANALYTICS": "false"}
NODE = pytest.mark.needs("node", "npm")
PYTHON = pytest.mark.needs()  # a network, and only tools from `make setup`


def run(folder: Path, *command: str | Path, path: Path | None = None) -> str:
    """Run a program, assert success, and return its output. ``path`` goes first in its search path."""
    search_path = os.environ["PATH"] if path is None else f"{path}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **QUIET, "PATH": search_path},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert result.returncode == 0, f"{command[0]} failed:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Process(tmp_path_factory.mktemp("server"), ("--store", "sqlite://"), {}) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, server: Process) -> Path:
    """A folder with the tools for node, and the document of the server."""
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "package-lock.json", "spectral.yaml", "tsconfig.json", "job.ts"):
        shutil.copy(HERE / name, folder)
    run(folder, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
    return write_document(folder, server)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, server: Process) -> Path:
    """A folder with a virtual environment that has the generator, and the document."""
    folder = tmp_path_factory.mktemp("python")
    run(folder, UV, "venv", "--quiet", "--python", sys.executable, "venv")
    install = (UV, "pip", "install", "--quiet", "--require-hashes", "--python", "venv/bin/python", "-r", REQUIREMENTS)
    run(folder, *install)
    return write_document(folder, server)


def write_document(folder: Path, server: Process) -> Path:
    (folder / "openapi.json").write_text(json.dumps(server.read("/openapi.json"), indent=1))
    return folder


@NODE
def test_redocly_reports_no_problems(node: Path) -> None:
    lint = ("lint", "--extends", "recommended", "--format", "json", "openapi.json")
    report = json.loads(run(node, node / "node_modules/.bin/redocly", *lint))
    assert report["totals"]["errors"] + report["totals"]["warnings"] == 0, report["problems"]


@NODE
def test_spectral_reports_no_problems(node: Path) -> None:
    lint = ("lint", "--ruleset", "spectral.yaml", "--fail-severity", "warn", "openapi.json")
    assert "No results" in run(node, node / "node_modules/.bin/spectral", *lint)


@NODE
def test_a_typescript_program_with_generated_types_compiles(node: Path) -> None:
    programs = node / "node_modules/.bin"
    run(node, programs / "openapi-typescript", "openapi.json", "--output", "api.d.ts")
    run(node, programs / "tsc", "--strict", "--project", "tsconfig.json")


@PYTHON
def test_a_python_program_with_a_generated_client_works(python: Path, server: Process) -> None:
    programs = python / "venv/bin"
    generate = ("generate", "--path", "openapi.json", "--meta", "none", "--output-path", "chronos_client")
    run(python, programs / "openapi-python-client", *generate, "--fail-on-warning", path=programs)
    shutil.copy(HERE / "session.py", python)
    responses = json.loads(run(python, programs / "python", "-W", "error", "session.py", server.url))
    assert responses.pop("modules") > 150
    assert responses == {
        "created": ["report", 1, "active"],
        "listed": ["report"],
        "got": [True, "manual", ["true"]],
        "run": ["succeeded", "manual", "succeeded", ["main"]],
        "runs": [["execution", True]],
        "put": ["other", "@every 1h"],
        "patched": [2, 7],
        "bulk": ["unchanged", "failed"],
        "applied": ["c"],
        "preview": 3,
        "missing": [404, "not_found"],
    }
