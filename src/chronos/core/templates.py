"""Templates: text with ``{{ dotted.names }}`` that are replaced by values. Nothing is evaluated.

A dotted name is a path of keys through JSON values. A template can neither call functions nor read attributes.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from chronos.errors import Invalid

Name = tuple[str, ...]  # a dotted name, as keys
Part = str | Name  # literal text, or a name

ABSENT: Any = object()  # the value of a name that does not exist

_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)
_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)  # bounded, because Python refuses to parse numbers of thousands of digits
_ENCODER = msgspec.json.Encoder(order="deterministic")


def split_template(template: str) -> tuple[Part, ...]:
    """Split a template into literal texts and names. Raises ``Invalid`` for anything else between the braces."""
    parts = _split(template)
    if isinstance(parts, str):
        raise Invalid(parts)
    return parts


def list_template_names(template: str) -> Iterator[Name]:
    """Return the names in a template. Raises ``Invalid`` as ``split_template`` does."""
    return (part for part in split_template(template) if not isinstance(part, str))


def render(template: str, scope: Mapping[str, Any]) -> str:
    """Replace every name by its value; a name that does not exist becomes empty."""
    return "".join(
        part if isinstance(part, str) else _format_or_empty(resolve_name(part, scope))
        for part in split_template(template)
    )


def resolve_name(name: Name, value: Any) -> Any:
    """Return the value of a name; ``ABSENT`` if it does not exist."""
    for key in name:
        value = resolve_key(key, value)
    return value


def resolve_key(key: str, value: Any) -> Any:
    """Return the value of a key of a mapping, or an index of a list; ``ABSENT`` if it does not exist."""
    if isinstance(value, Mapping) and key in value:
        return value[key]
    if isinstance(value, list | tuple) and _INDEX.fullmatch(key) and int(key) < len(value):
        return value[int(key)]
    return ABSENT


def format_value(value: Any) -> str:
    """Format a value for a text: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else _ENCODER.encode(value).decode()


def _format_or_empty(value: Any) -> str:
    return "" if value is ABSENT else format_value(value)


@lru_cache(maxsize=4096)
def _split(template: str) -> tuple[Part, ...] | str:
    """Return the parts of a template, or its fault. Cached, so it returns the fault instead of raising it."""
    parts: list[Part] = []
    at = 0
    while (begin := template.find("{{", at)) >= 0:
        end = template.find("}}", begin)
        if end < 0:
            return 'has "{{" without "}}"'
        name = template[begin + 2 : end].strip()
        if _NAME.fullmatch(name) is None:
            return f'has "{{{{ {name[:80]} }}}}", expected a dotted name such as payload.order.id; nothing is evaluated'
        if begin > at:
            parts.append(template[at:begin])
        parts.append(tuple(name.split(".")))
        at = end + 2
    if at < len(template):
        parts.append(template[at:])
    return tuple(parts)
