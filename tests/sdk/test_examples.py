"""Every example runs as a program, ends by itself and prints the expected lines."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED_OUTPUT = {
    "basic": ["ticks at ", "digest: sent - next at "],
    "durable_wait": ["asleep: waiting waiting", "release: succeeded", "order 42 paid by bo"],
    "graph": ["succeeded in the order extract load_"],
    "parallel_tasks": ["completed_with_errors", "paris: succeeded 120", "atlantis: failed ConnectionError"],
    "recovery": ["one run for ", r"\b[1-9]\d* recovered, [1-9]"],  # more than 3 on a slow machine
    "web_app_lifespan": ["startup.complete", "202", "sent to ana@example.org", "shutdown.complete"],
    "webhook": ["succeeded", '/sync {"job":"sync"} attempt 1', "attempt 2"],
}

#: The log lines of examples that fail on purpose; a traceback is one line.
EXPECTED_LOG = {
    "parallel_tasks": r"attempt failed job=refresh-shops .*|execution completed with errors job=refresh-shops .*",
    "recovery": r"missed instants job=.*",
    "webhook": r"attempt failed job=sync .* error=\"the server answered 503\"",
}


def test_every_example_has_expectations() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(EXPECTED_OUTPUT)


@pytest.mark.parametrize("name", EXPECTED_OUTPUT)
def test_examples_run(name: str) -> None:
    program = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    result = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    logged = re.sub(r"^Traceback .*\n(?: .*\n)+\w.*\n", "", result.stderr, flags=re.MULTILINE)
    assert [line for line in logged.splitlines() if not re.fullmatch(EXPECTED_LOG.get(name, ""), line)] == []
    for text in EXPECTED_OUTPUT[name]:
        assert re.search(text, result.stdout)
