"""Settings of the whole suite: generated tests use the same examples in every run, unless told to explore.

``HYPOTHESIS_PROFILE=explore make test`` uses other and many more examples. Tests that are marked
``needs("node", "npm")`` are skipped if one of these programs is missing.
"""

import os
import signal

import pytest
from hypothesis import settings

from tests.support.databases import (
    make_database,
    make_prepared,
    own_server,
    postgres_server,
    postgres_url,
    prepared,
    prepared_url,
)
from tests.support.programs import find_program

# Fixtures of the whole suite. They are imported only here: a second import would start the same server twice.
__all__ = [
    "make_database",
    "make_prepared",
    "own_server",
    "postgres_server",
    "postgres_url",
    "prepared",
    "prepared_url",
]

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deterministic"))

# A shell that starts the suite in the background makes it ignore SIGINT, and child processes would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test if one of its programs is missing."""
    for mark in item.iter_markers("needs"):
        if missing := [program for program in mark.args if find_program(program) is None]:
            pytest.skip(f"needs {' and '.join(missing)}")
