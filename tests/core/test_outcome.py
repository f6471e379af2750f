"""Outcomes: every error text can be stored."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chronos.core.outcome import Canceled, Failed


def test_unstorable_characters_are_escaped() -> None:
    assert Failed(error="no file a\udcff\0b").error == "no file a\\udcff\\x00b"
    assert Canceled(error="\ud800").error == "\\ud800"
    assert Canceled().error is None


@given(st.text(st.characters()))
def test_every_error_can_be_stored(text: str) -> None:
    error = Failed(error=text).error
    assert "\0" not in error
    assert msgspec.json.decode(msgspec.json.encode(error)) == error
