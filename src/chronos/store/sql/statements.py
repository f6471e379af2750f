"""The statements that the parts of a store keep ready, so that a database can be asked whether it takes them all."""

from types import MethodType
from typing import Any

_FIRST_WORDS = ("select ", "insert ", "update ", "delete ", "with ")


def collect_statements(*parts: Any) -> dict[str, str]:
    """Every statement in the attributes of these parts, and of the parts that they use, with the name of its place."""
    found: dict[str, str] = {}
    seen: set[int] = set()
    todo = [(type(part).__name__, part) for part in parts]
    while todo:
        place, thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, str):
            if thing.lstrip().startswith(_FIRST_WORDS):
                found[thing] = place
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
    return found
