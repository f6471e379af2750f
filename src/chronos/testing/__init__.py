"""Test tools for users: a harness with virtual time, the store's conformance suite, and a probe for SQLite stores.

Names are imported on first use, because pytest loads the plugin in every test run, even if no test needs it.
Tests of Chronos itself belong in the folder ``tests`` of the repository.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronos.testing.clock import VirtualClock
    from chronos.testing.harness import Harness
    from chronos.testing.loop import VirtualLoop
    from chronos.testing.runs_by_job import Ran
    from chronos.testing.store_probe import StoreProbe

_MODULE_BY_NAME = {
    "Harness": "chronos.testing.harness",
    "Ran": "chronos.testing.runs_by_job",
    "StoreProbe": "chronos.testing.store_probe",
    "VirtualClock": "chronos.testing.clock",
    "VirtualLoop": "chronos.testing.loop",
}

__all__ = ["Harness", "Ran", "StoreProbe", "VirtualClock", "VirtualLoop"]


def __getattr__(name: str) -> object:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_BY_NAME[name]), name)
