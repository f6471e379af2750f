"""The pytest plugin: a fixture ``chronos`` that runs an app's jobs in virtual time. Installed with the package."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chronos.testing.harness import Harness


@pytest.fixture
def chronos() -> "Iterator[Harness]":
    """An app under test, in virtual time: ``load(app)``, ``clock.set(…)``, ``advance(days=1)``."""
    from chronos.testing.harness import Harness  # noqa: PLC0415 - only tests that use it pay for it

    harness = Harness()
    try:
        yield harness
    finally:
        harness.close()
