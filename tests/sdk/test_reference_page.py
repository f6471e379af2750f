"""The reference page names every public name, method and option of the SDK."""

import re
from pathlib import Path
from typing import get_type_hints

import pytest

import chronos
from chronos import Chronos, Context, EventStream, Group, JobHandle, Run
from chronos.sdk import job_options
from chronos.sdk.app_events import AppEvents
from chronos.sdk.stored_jobs import StoredJobs

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text()
NAMED = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", PAGE))))


def test_every_public_name_is_in_the_reference() -> None:
    assert set(chronos.__all__) <= NAMED


@pytest.mark.parametrize("kind", [Chronos, StoredJobs, AppEvents, EventStream, JobHandle, Group, Run, Context])
def test_every_method_is_in_the_reference(kind: type) -> None:
    """Of a blocking method and its async twin, one is enough."""
    names = {name for name in vars(kind) if not name.startswith("_")}
    hidden = {"write", "add_statement", "abandon"} if kind is Context else set()
    assert {name for name in names - hidden if name not in NAMED and name.removeprefix("a") not in NAMED} == set()


OPTIONS = [
    job_options.CommandJobOptions,
    job_options.FunctionJobOptions,
    job_options.FunctionTaskOptions,
    job_options.GroupOptions,
    job_options.WebhookJobOptions,
]


@pytest.mark.parametrize("kind", OPTIONS)
def test_every_option_is_in_the_reference(kind: type) -> None:
    assert set(get_type_hints(kind)) <= NAMED


def test_every_async_method_has_a_blocking_twin() -> None:
    for kind in (Chronos, JobHandle, Run):
        for name in vars(kind):
            if name.startswith("a") and name not in ("all_jobs", "await_"):
                assert name[1:] in vars(kind), f"{kind.__name__}.{name} has no twin"
