"""Templates: names are paths of keys; nothing is evaluated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronos.core.templates import ABSENT, list_template_names, render, resolve_key
from chronos.errors import Invalid


def test_names_are_replaced_by_their_values() -> None:
    assert render("a {{ x.y }} b", {"x": {"y": {"b": 1, "a": None}}}) == 'a {"a":null,"b":1} b'
    assert render("{{x.1.z}}-{{ x.0 }}", {"x": ["first", {"z": True}]}) == "true-first"


def test_an_unknown_name_becomes_empty() -> None:
    assert render("<{{ x.z }}{{ x.7 }}{{ y }}>", {"x": ["a"]}) == "<>"


@pytest.mark.parametrize("key", ["9" * 5_000, "0" * 5_000, "²", "٣", "-1", "1_0", ""])
def test_an_invalid_index_is_absent(key: str) -> None:
    assert resolve_key(key, ["a", "b", "c", "d"]) is ABSENT


def test_the_names_of_a_template_are_listed() -> None:
    assert list(list_template_names("{{ a }} and {{b.c}}")) == [("a",), ("b", "c")]


@pytest.mark.parametrize(
    "template", ["{{ f() }}", "{{ a.__class__ + 1 }}", "{{}}", "{{ a..b }}", "{{ é }}", "{{ {{a}} }}"]
)
def test_only_dotted_names_are_allowed_between_braces(template: str) -> None:
    with pytest.raises(Invalid, match="expected a dotted name"):
        list_template_names(template)


def test_unclosed_braces_are_rejected() -> None:
    with pytest.raises(Invalid, match="without"):
        list_template_names("x {{ a }")


@given(st.text().filter(lambda text: "{{" not in text))
def test_text_without_names_is_unchanged(text: str) -> None:
    assert render(text, {}) == text
