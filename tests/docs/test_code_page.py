"""Every function that the page about the code names exists."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "code.md"
NAMES = sorted(set(re.findall(r"^(chronos[\w.]+:[\w.]+)", PAGE.read_text(), re.MULTILINE)))


def test_the_page_names_functions() -> None:
    assert len(NAMES) > 20


@pytest.mark.parametrize("name", NAMES)
def test_a_named_function_exists(name: str) -> None:
    module, _, name = name.partition(":")
    assert reduce(getattr, name.split("."), import_module(module)) is not None
