"""The recipes work: each is followed with a sample, on a copy of the source."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "contributing" / "recipes.md").read_text()
RECIPES = dict(re.findall(r"^## ([^\n]+)\n\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
MAX_LINES = 15


@dataclass(frozen=True, slots=True)
class NewFile:
    """A module that a sample creates; the recipe calls it NAME or NOUN."""

    path: str
    text: str
    placeholder: str = ""  # how the recipe writes the path, where it differs

    def write(self, root: Path) -> None:
        (root / self.path).write_text(dedent(self.text).lstrip())


@dataclass(frozen=True, slots=True)
class Addition:
    """Lines that a sample adds to a module: below or above the only line that contains the anchor, or at the end."""

    path: str
    anchor: str
    text: str
    above: bool = False
    placeholder: str = ""

    def write(self, root: Path) -> None:
        lines = (root / self.path).read_text().split("\n")
        if not self.anchor:
            lines.append(dedent(self.text))
            (root / self.path).write_text("\n".join(lines))
            return
        [index] = [number for number, line in enumerate(lines) if self.anchor in line]
        lines.insert(index if self.above else index + 1, self.text.rstrip("\n"))
        (root / self.path).write_text("\n".join(lines))


@dataclass(frozen=True, slots=True)
class Sample:
    """A recipe, the changes of a sample in the order of the recipe, and a program that shows that it works."""

    recipe: str
    changes: tuple[NewFile | Addition, ...]
    program: str


TARGET = Sample(
    "Add a target",
    (
        NewFile(
            "src/chronos/runners/echo.py",
            '''
            """The ``echo`` target: succeeds with its own text."""

            from collections.abc import Mapping
            from typing import Any

            from chronos.core.outcome import Outcome, Succeeded
            from chronos.errors import Invalid
            from chronos.runners.contract import AttemptCall


            class EchoRunner:
                """Returns the option ``text`` as the result."""

                def check(self, options: Mapping[str, Any]) -> None:
                    if not isinstance(options.get("text"), str):
                        raise Invalid("echo.text is missing; give it some text")

                async def run(self, call: AttemptCall) -> Outcome:
                    return Succeeded(result=call.options["text"])

                async def close(self) -> None:
                    pass
            ''',
            placeholder="src/chronos/runners/NAME.py",
        ),
        Addition(
            "src/chronos/runners/target_kinds.py",
            '("command", "http", "python", "wait")',
            'BUILT_IN_KINDS += ("echo",)',
        ),
        Addition("src/chronos/assembly.py", '"wait": WaitRunner(),', '        "echo": EchoRunner(),'),
        Addition(
            "src/chronos/assembly.py",
            "import WaitRunner",
            "    from chronos.runners.echo import EchoRunner",
        ),
        Addition(
            "src/chronos/api/openapi/target_schema.py",
            '"WaitTarget": _WAIT,',
            '    "EchoTarget": closed("returns a text", {"text": {"type": "string"}}, {"text": "hi"}),',
        ),
        Addition(
            "src/chronos/api/openapi/target_schema.py",
            'ref("WaitTarget")),',
            '    "echo": any_of("returns its own text", ref("EchoTarget")),',
        ),
    ),
    """
    import asyncio, subprocess, sys, time, urllib.request
    from chronos.api.openapi.target_schema import TARGET_SCHEMAS, TARGETS
    from chronos.assembly import list_target_kinds, make_runners
    from chronos.clock import SystemClock
    from chronos.core.outcome import Succeeded
    from chronos.runners.python.function_registry import FunctionRegistry
    from chronos.service.serializers.job import read_job
    from chronos.service.serializers import InvalidJob

    assert "echo" in list_target_kinds() and "echo" in TARGETS and "EchoTarget" in TARGET_SCHEMAS
    runners = make_runners(FunctionRegistry(), clock=SystemClock())
    checks = {kind: runner.check for kind, runner in runners.items()}
    job = read_job({"name": "a", "schedule": "manual", "echo": {"text": "hi"}}, checks=checks)
    assert job.spec.tasks[0].target.kind == "echo"
    try:
        read_job({"name": "a", "schedule": "manual", "echo": {}}, checks=checks)
    except InvalidJob as error:
        print(error)
    """,
)

COMMAND = Sample(
    "Add a store command",
    (
        Addition(
            "src/chronos/store/commands/tokens.py",
            "",
            '''
            @dataclass(frozen=True, slots=True, kw_only=True)
            class DropExpiredTokens(Command[int]):
                """Delete the tokens that have expired. Atomic. Returns their number."""

                now_us: int
                note: str = ""
            ''',
            placeholder="src/chronos/store/commands/NOUN.py",
        ),
        Addition(
            "src/chronos/store/commands/__init__.py",
            "from chronos.store.commands.tokens import",
            "from chronos.store.commands.tokens import DropExpiredTokens as DropExpiredTokens",
        ),
        Addition(
            "src/chronos/store/commands/validation.py",
            "from chronos.store.commands.tokens import",
            "from chronos.store.commands.tokens import DropExpiredTokens",
        ),
        Addition(
            "src/chronos/store/commands/validation.py",
            "CreateToken: _read_create_token,",
            '    DropExpiredTokens: _field_reader("note"),',
        ),
        Addition(
            "src/chronos/store/sql/tokens.py",
            "    def revoke(self",
            '''\
    def drop_expired(self, command: Any) -> Steps[int]:
        """See ``DropExpiredTokens``."""
        rows = yield Query("delete from token where expires_us <= $1 returning name", (command.now_us,))
        return len(rows)
''',
            above=True,
            placeholder="src/chronos/store/sql/NOUN.py",
        ),
        Addition(
            "src/chronos/store/sql/command_handlers.py",
            "from chronos.store.sql.tokens import",
            "from chronos.store.commands import DropExpiredTokens",
        ),
        Addition(
            "src/chronos/store/sql/command_handlers.py",
            "CreateToken: tokens.create,",
            "            DropExpiredTokens: tokens.drop_expired,",
        ),
    ),
    """
    import asyncio
    from chronos.assembly import make_store
    from chronos.core.token import ApiToken
    from chronos.errors import Invalid
    from chronos.store.commands import CreateToken, DropExpiredTokens

    async def main():
        store = make_store("sqlite://")
        await store.open()
        for name, expires_us in (("old", 10), ("new", 30), ("forever", None)):
            token = ApiToken(name=name, token_hash=name.encode().hex(), expires_us=expires_us)
            await store.apply(CreateToken(token=token, now_us=1))
        assert await store.apply(DropExpiredTokens(now_us=20)) == 1
        assert [token.name for token in await store.tokens()] == ["forever", "new"]
        try:
            await store.apply(DropExpiredTokens(now_us=20, note="\\0"))
        except Invalid as error:
            print(error)
        await store.close()

    asyncio.run(main())
    """,
)

ROUTE = Sample(
    "Add a REST route",
    (
        NewFile(
            "src/chronos/api/handlers/moon.py",
            '''
            """The phase of the moon."""

            from aiohttp import web

            from chronos.api.auth.permissions import Permission
            from chronos.api.request import RequestContext
            from chronos.api.responses import json_response
            from chronos.api.routing import ResponseDoc, RouteTable, ref

            route = RouteTable("Server")


            @route.get(
                "/moon",
                permission=Permission.VIEW,
                summary="The phase of the moon",
                returns={200: ResponseDoc("the phase", ref("Anything"), {"phase": "full"})},
            )
            async def moon(call: RequestContext) -> web.StreamResponse:
                return json_response({"phase": "full"})
            ''',
            placeholder="src/chronos/api/handlers/NOUN.py",
        ),
        Addition(
            "src/chronos/api/handlers/__init__.py",
            "from chronos.api.routing import",
            "from chronos.api.handlers import moon",
        ),
        Addition("src/chronos/api/handlers/__init__.py", "tokens.route,", "    moon.route,"),
    ),
    """
    import json
    from chronos.api.handlers import ROUTES
    from server import get

    assert "/api/v1/moon" in [route.path for route in ROUTES]
    assert json.loads(get("/api/v1/moon")) == {"phase": "full"}
    assert "/api/v1/moon" in json.loads(get("/openapi.json"))["paths"]
    """,
)

CLI_COMMAND = Sample(
    "Add a CLI command",
    (
        NewFile(
            "src/chronos/cli/ctl/commands/hour.py",
            '''
            """``chronosctl hour``: the hour on the server's clock."""

            from typing import Any

            import click

            from chronos.cli.ctl.options import output_option, with_client
            from chronos.cli.output import emit


            @click.command(short_help="Show the server's hour.")
            @output_option
            @with_client
            def hour(client: Any, output: str) -> None:
                """Show the hour on the server's clock.

                \\b
                Example:
                  chronosctl hour
                """
                emit(client.get("status")["now"][11:13])
            ''',
            placeholder="src/chronos/cli/ctl/commands/NOUN.py",
        ),
        Addition("src/chronos/cli/main.py", "NOUNS = {", '    "hour": f"{_COMMANDS}.hour:hour",'),
    ),
    """
    import subprocess, sys
    from pathlib import Path
    from server import URL

    chronosctl = Path(sys.executable).with_name("chronosctl")
    shown = subprocess.run([chronosctl, "--server", URL, "hour"], capture_output=True, text=True)
    assert shown.returncode == 0 and 0 <= int(shown.stdout) < 24, shown
    """,
)
SAMPLES = (TARGET, COMMAND, ROUTE, CLI_COMMAND)

#: A server from the copy, for programs that need one.
SERVER = """
import atexit, socket, subprocess, sys, time, urllib.error, urllib.request
from pathlib import Path

with socket.create_server(("127.0.0.1", 0)) as listener:
    PORT = listener.getsockname()[1]
URL = f"http://127.0.0.1:{PORT}"
chronos = Path(sys.executable).with_name("chronos")
process = subprocess.Popen([chronos, "server", "--store", "sqlite://", "--listen", f"127.0.0.1:{PORT}"])
atexit.register(process.wait)
atexit.register(process.terminate)


def get(path):
    with urllib.request.urlopen(URL + path, timeout=30) as response:
        return response.read()


while process.poll() is None:
    try:
        get("/readyz")
        break
    except (urllib.error.URLError, ConnectionError):
        time.sleep(0.05)
"""


def test_every_recipe_has_a_sample() -> None:
    assert list(RECIPES) == [sample.recipe for sample in SAMPLES]


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_is_short(name: str) -> None:
    assert len(RECIPES[name].strip().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.recipe)
def test_sample_changes_the_files_that_its_recipe_names(sample: Sample) -> None:
    named = re.findall(r"^\d\. `(src/[^`]+)`", RECIPES[sample.recipe], re.MULTILINE)
    assert list(dict.fromkeys(change.placeholder or change.path for change in sample.changes)) == named


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.recipe)
def test_sample_works(sample: Sample, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for change in sample.changes:
        change.write(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "program.py").write_text(dedent(sample.program))
    result = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
