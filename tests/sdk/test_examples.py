"""Every example runs as the program it is, ends by itself and says what it should."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "basic": ["ticks at ", "digest: sent - next at "],
    "durable_wait": ["asleep: waiting waiting", "release: succeeded", "order 42 paid by bo"],
    "graph": ["succeeded in the order extract load_"],
    "parallel_tasks": ["completed_with_errors", "paris: succeeded 120", "atlantis: failed ConnectionError"],
    "recovery": ["one run for ", r"\b[1-9]\d* recovered, [1-9]"],  # more than 3 if the machine stood still
    "web_app_lifespan": ["startup.complete", "202", "sent to ana@example.org", "shutdown.complete"],
    "webhook": ["succeeded", '/sync {"job":"sync"} attempt 1', "attempt 2"],
}

#: What Python's logging shows of examples that fail a little on purpose; each line, or the first of a traceback.
LOGS = {
    "parallel_tasks": r"attempt failed job=refresh-shops .*|execution completed with errors job=refresh-shops .*",
    "recovery": r"missed instants job=.*",
    "webhook": r"attempt failed job=sync .* error=\"the server answered 503\"",
}


def test_every_example_is_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_examples_run(name: str) -> None:
    program = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    result = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    logged = re.sub(r"^Traceback .*\n(?: .*\n)+\w.*\n", "", result.stderr, flags=re.MULTILINE)
    assert [line for line in logged.splitlines() if not re.fullmatch(LOGS.get(name, ""), line)] == []
    for text in SAYS[name]:
        assert re.search(text, result.stdout)
