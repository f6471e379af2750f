"""What a user's own statements may be: they read and write rows, and leave the transaction and the session alone."""

import re
from collections.abc import Sequence
from typing import Any

from chronos.errors import Invalid

Statements = Sequence[tuple[str, tuple[Any, ...]]]  # SQL and its values

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*([a-z]*)", re.DOTALL | re.IGNORECASE)
_ALLOWED_FIRST_WORDS = ("insert", "update", "delete", "merge", "replace", "select", "with", "values", "call")


def check_statements(statements: Statements) -> None:
    """Raise ``Invalid`` for one that could end the transaction, or change the connection it runs on."""
    for sql, _ in statements:
        found = _FIRST_WORD.match(sql)
        word = found[1].lower() if found else ""
        if word not in _ALLOWED_FIRST_WORDS:
            said = f'begins with "{word}"' if word else "is empty"
            raise Invalid(
                f"a statement to run with a task's end {said}; it may begin with {', '.join(_ALLOWED_FIRST_WORDS)}"
            )


def statement_failed(error: Exception) -> Invalid:
    """What the database said about a user's statement."""
    return Invalid(f"a statement that was to run with the task's end failed, so nothing was written: {error}")
