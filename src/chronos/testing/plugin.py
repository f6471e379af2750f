"""The pytest plugin: the fixture ``chronos``, which runs an app's jobs in virtual time. Installed with the package."""

from collections.abc import Iterator
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

import pytest

from chronos.errors import Invalid

if TYPE_CHECKING:
    from chronos.testing.harness import Harness


@pytest.fixture
def chronos(request: pytest.FixtureRequest) -> "Iterator[Harness]":
    """Run an app's jobs in virtual time: ``load(app)``, ``clock.set(…)``, ``advance(days=1)``."""
    from chronos.testing.harness import ASYNC_TEST, Harness  # noqa: PLC0415 - imported only by tests that use it

    if iscoroutinefunction(getattr(request.node, "obj", None)):
        raise Invalid(ASYNC_TEST)
    harness = Harness()
    try:
        yield harness
    finally:
        harness.close()
