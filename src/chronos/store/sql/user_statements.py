"""Checks the SQL that users commit with a task: it may read and write rows, not change the transaction or session."""

import re
from collections.abc import Sequence
from typing import Any

from chronos.errors import Invalid

Statements = Sequence[tuple[str, tuple[Any, ...]]]  # SQL and its values

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*([a-z]*)", re.DOTALL | re.IGNORECASE)
_ALLOWED_FIRST_WORDS = ("insert", "update", "delete", "merge", "replace", "select", "with", "values", "call")


def check_statements(statements: Statements) -> None:
    """Raise ``Invalid`` for a statement that could end the transaction or change its connection."""
    for sql, _ in statements:
        match = _FIRST_WORD.match(sql)
        word = match[1].lower() if match else ""
        if word not in _ALLOWED_FIRST_WORDS:
            problem = f'starts with "{word}"' if word else "is empty"
            raise Invalid(
                f"a statement committed with the task {problem}; start it with {', '.join(_ALLOWED_FIRST_WORDS)}"
            )


def statement_failed(error: Exception) -> Invalid:
    """Build the error for a user's statement that the database rejected."""
    return Invalid(f"a statement committed with the task failed, so nothing was written: {error}")
