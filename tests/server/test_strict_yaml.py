"""Strict YAML: what is rejected, and that rejecting it is fast."""

import time
from itertools import pairwise
from pathlib import Path

import pytest

from chronos.errors import Invalid
from chronos.server.config import load_config
from chronos.server.strict_yaml import MAX_ALIASES, read_yaml


def bomb(width: int = 9, levels: int = 9) -> str:
    """Return a few lines of nested aliases, which expand to ``width`` to the power of ``levels`` values."""
    names = "abcdefghijklmnop"[:levels]
    lines = [f"a: &a [{', '.join(['x'] * width)}]"]
    lines += [f"{name}: &{name} [{', '.join([f'*{before}'] * width)}]" for before, name in pairwise(names)]
    return "\n".join(lines)


def test_nested_aliases_count_as_their_expanded_values() -> None:
    text = bomb()
    assert text.count("*") < MAX_ALIASES
    assert len(text) < 400
    began_s = time.process_time()
    with pytest.raises(Invalid, match=r"line \d: the aliases .* expand to more than 100,000 values"):
        read_yaml(text)
    assert time.process_time() - began_s < 1


def test_a_long_text_counts_as_several_values() -> None:
    repeated = ", ".join(["*a"] * 60)
    assert read_yaml(f"a: &a {'x' * 1_000}\nb: [{repeated}]")
    with pytest.raises(Invalid, match="expand to more than"):
        read_yaml(f"a: &a {'x' * 300_000}\nb: [{repeated}]")


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {b: [{c: *a}]}"])
def test_an_alias_within_its_own_value_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match=r"line 1: an alias .* refers to a value that contains it"):
        read_yaml(text)


def test_a_few_aliases_are_expanded() -> None:
    text = "retry: &retry {max_attempts: 5}\njobs:\n" + "- {retry: *retry}\n" * MAX_ALIASES
    [document] = read_yaml(text)
    assert document["jobs"] == [{"retry": {"max_attempts": 5}}] * MAX_ALIASES
    with pytest.raises(Invalid, match="more than 100 aliases"):
        read_yaml(text + "- {retry: *retry}\n")


def test_many_values_without_aliases_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronos.server.strict_yaml.MAX_REPEATED", 10)
    assert read_yaml("[" + "x, " * 99 + "x]") == [["x"] * 100]


def test_the_configuration_file_is_read_by_the_same_rules(tmp_path: Path) -> None:
    path = tmp_path / "chronos.yaml"
    path.write_text(bomb())
    with pytest.raises(Invalid, match="expand to more than"):
        load_config(path, {}, {})


def test_only_true_and_false_are_booleans() -> None:
    assert read_yaml("{on: off, yes: no, ON: Yes, y: n}") == [{"on": "off", "yes": "no", "ON": "Yes", "y": "n"}]
    assert read_yaml("[true, True, TRUE, false, False, FALSE, null]") == [[True, True, True, False, False, False, None]]


@pytest.mark.parametrize(("word", "means"), [("yes", True), ("on", True), ("Off", False), ("no", False)])
def test_a_setting_accepts_yes_and_no(tmp_path: Path, word: str, means: bool) -> None:
    path = tmp_path / "chronos.yaml"
    path.write_text(f"server: {{public_docs: {word}}}")
    assert load_config(path, {}, {}).values["server.public_docs"] is means
