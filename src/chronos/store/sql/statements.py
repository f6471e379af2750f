"""Collects the statements of a store's parts, so that ``doctor`` can have the database parse them."""

from types import MethodType
from typing import Any

_FIRST_WORDS = ("select ", "insert ", "update ", "delete ", "with ")


def collect_statements(*parts: Any) -> dict[str, str]:
    """Return every statement in the attributes of the parts and of the parts they use, with its place."""
    statements: dict[str, str] = {}
    seen: set[int] = set()
    todo = [(type(part).__name__, part) for part in parts]
    while todo:
        place, thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, str):
            if thing.lstrip().startswith(_FIRST_WORDS):
                statements[thing] = place
        elif isinstance(thing, dict):
            todo += [(place, value) for value in thing.values()]
        elif isinstance(thing, list | tuple):
            todo += [(place, value) for value in thing]
        elif isinstance(thing, MethodType):
            todo.append((place, thing.__self__))
        elif type(thing).__module__.startswith(__package__):
            todo += [
                (f"{type(thing).__name__}.{name}", value) for name, value in getattr(thing, "__dict__", {}).items()
            ]
    return statements
