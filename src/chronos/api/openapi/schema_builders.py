"""Short builders of JSON Schemas. Null means that a field is absent, so it is always allowed."""

from collections.abc import Iterable
from typing import Any

from chronos.core.schedule.parser import MAX_LENGTH

Schema = dict[str, Any]

NULL: Schema = {"type": "null"}


def with_description(description: str, schema: Schema, *examples: Any) -> Schema:
    """Add a description and examples to a schema."""
    return {"description": description, **schema, **({"examples": list(examples)} if examples else {})}


def text(description: str, *examples: str, max_length: int = MAX_LENGTH) -> Schema:
    """A string. The server counts bytes, of which there are at least as many as characters."""
    return with_description(description, {"type": ["string", "null"], "maxLength": max_length}, *examples)


def duration(description: str, *examples: str) -> Schema:
    """A duration, which is text in one of several forms."""
    return text(f"{description}; a duration such as 90s, 1h30m, 2d or PT5M", *examples)


def integer(description: str, low: int, high: int, *examples: int) -> Schema:
    """An integer within bounds."""
    return with_description(description, {"type": ["integer", "null"], "minimum": low, "maximum": high}, *examples)


def number(description: str, low: float, high: float, *examples: float) -> Schema:
    """A number within bounds."""
    return with_description(description, {"type": ["number", "null"], "minimum": low, "maximum": high}, *examples)


def one_of(description: str, values: Iterable[str], *aliases: str) -> Schema:
    """One of several words, case-sensitive."""
    return any_of(description, {"type": "string", "enum": [*map(str, values), *aliases]})


def any_of(description: str, *schemas: Any, examples: Iterable[Any] = ()) -> Schema:
    """A value of one of several schemas."""
    return with_description(description, {"anyOf": [*schemas, NULL]}, *examples)


def texts(description: str, max_items: int, *examples: Any, max_length: int = 256) -> Schema:
    """A list of strings, or a single one."""
    items = {"type": "string", "maxLength": max_length}
    schema = {"type": ["string", "array", "null"], "maxLength": max_length, "maxItems": max_items, "items": items}
    return with_description(description, schema, *examples)


def text_map(description: str, max_items: int, *examples: Any) -> Schema:
    """An object of strings."""
    schema = {
        "type": ["object", "null"],
        "maxProperties": max_items,
        "propertyNames": {"minLength": 1, "maxLength": 256},
        "additionalProperties": {"type": "string", "maxLength": 256},
    }
    return with_description(description, schema, *examples)


def closed(description: str, properties: Schema, *examples: Any, **more: Any) -> Schema:
    """An object with exactly these fields."""
    return with_description(
        description, {"type": "object", "properties": properties, "additionalProperties": False, **more}, *examples
    )
