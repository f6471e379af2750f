"""Short ways to say in JSON Schema what a field may be. Null is a field that is left out, and so always allowed."""

from collections.abc import Iterable
from typing import Any

from chronos.core.schedule.parser import MAX_LENGTH

Schema = dict[str, Any]

NULL: Schema = {"type": "null"}


def with_description(about: str, schema: Schema, *examples: Any) -> Schema:
    """A schema with a line for people, and examples."""
    return {"description": about, **schema, **({"examples": list(examples)} if examples else {})}


def text(about: str, *examples: str, longest: int = MAX_LENGTH) -> Schema:
    """Some text. The server counts bytes, which are never fewer than characters."""
    return with_description(about, {"type": ["string", "null"], "maxLength": longest}, *examples)


def duration(about: str, *examples: str) -> Schema:
    """A duration, which is text in one of several forms."""
    return text(f"{about}; a duration such as 90s, 1h30m, 2d or PT5M", *examples)


def whole(about: str, low: int, high: int, *examples: int) -> Schema:
    """A whole number within bounds."""
    return with_description(about, {"type": ["integer", "null"], "minimum": low, "maximum": high}, *examples)


def number(about: str, low: float, high: float, *examples: float) -> Schema:
    """A number within bounds."""
    return with_description(about, {"type": ["number", "null"], "minimum": low, "maximum": high}, *examples)


def one_of(about: str, words: Iterable[str], *also: str) -> Schema:
    """One of some words, in this case and no other."""
    return any_of(about, {"type": "string", "enum": [*map(str, words), *also]})


def any_of(about: str, *schemas: Any, examples: Iterable[Any] = ()) -> Schema:
    """What one of several schemas allows."""
    return with_description(about, {"anyOf": [*schemas, NULL]}, *examples)


def texts(about: str, most: int, *examples: Any, longest: int = 256) -> Schema:
    """A list of texts, or a single one."""
    items = {"type": "string", "maxLength": longest}
    schema = {"type": ["string", "array", "null"], "maxLength": longest, "maxItems": most, "items": items}
    return with_description(about, schema, *examples)


def text_map(about: str, most: int, *examples: Any) -> Schema:
    """An object whose values are texts."""
    schema = {
        "type": ["object", "null"],
        "maxProperties": most,
        "propertyNames": {"minLength": 1, "maxLength": 256},
        "additionalProperties": {"type": "string", "maxLength": 256},
    }
    return with_description(about, schema, *examples)


def closed(about: str, properties: Schema, *examples: Any, **more: Any) -> Schema:
    """An object that takes these fields and no others."""
    return with_description(
        about, {"type": "object", "properties": properties, "additionalProperties": False, **more}, *examples
    )
