"""Settings of the whole suite. Generated tests are the same in every run.

``HYPOTHESIS_PROFILE=explore make test`` tries other and many more examples. Tests marked ``needs("node", "npm")`` are
skipped where one of these programs is missing.
"""

import os
import shutil
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

# Fixtures of the whole suite. Import them only here: a second import would start and stop the same server twice.
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

# A shell that starts the suite in the background makes it ignore Ctrl-C, and so every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose programs are not installed."""
    for mark in item.iter_markers("needs"):
        if missing := [program for program in mark.args if shutil.which(program) is None]:
            pytest.skip(f"needs {' and '.join(missing)}")
