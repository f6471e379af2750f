"""The pytest plugin: the fixture ``chronos``, which runs an app's jobs in virtual time. Installed with the package."""

from collections.abc import Iterator
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING

import pytest

from chronos.errors import Invalid

if TYPE_CHECKING:
    from chronos.testing.harness import Harness

#: Plug-ins that run async tests: the name that each registers and the mark of its tests, and its package.
_ASYNC_PLUGINS = {"asyncio": "pytest-asyncio", "anyio": "anyio"}


@pytest.fixture
def chronos(request: pytest.FixtureRequest) -> "Iterator[Harness]":
    """Run an app's jobs in virtual time: ``load(app)``, ``clock.set(…)``, ``advance(days=1)``."""
    from chronos.testing.harness import Harness  # noqa: PLC0415 - imported only by tests that use it

    if iscoroutinefunction(getattr(request.node, "obj", None)):
        _check_async_plugin(request)
    harness = Harness()
    try:
        yield harness
    finally:
        harness.close()


def _check_async_plugin(request: pytest.FixtureRequest) -> None:
    """Raise ``Invalid`` if no plug-in runs this async test, and say what to install, or how to mark the test."""
    installed = [name for name in _ASYNC_PLUGINS if request.config.pluginmanager.hasplugin(name)]
    if any(request.node.get_closest_marker(name) or _is_automatic(request.config, name) for name in installed):
        return
    names = installed or list(_ASYNC_PLUGINS)
    install = "" if installed else f"install {' or '.join(_ASYNC_PLUGINS.values())}, and "
    raise Invalid(
        f"nothing runs this async test; {install}mark it with {' or '.join(f'@pytest.mark.{name}' for name in names)}, "
        "or write a plain function, because the fixture has its own event loop"
    )


def _is_automatic(config: pytest.Config, name: str) -> bool:
    """Return whether a plug-in runs async tests without a mark."""
    try:
        return bool(config.getini(f"{name}_mode") == "auto")
    except (KeyError, ValueError):  # a release without this option
        return False
