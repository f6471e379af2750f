"""Templates: text with ``{{ dotted.names }}``, each replaced by a value. Nothing is evaluated.

A dotted name is a path of keys through plain JSON values, so there is nothing to call and no attribute to reach.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from chronos.errors import Invalid

Name = tuple[str, ...]  # a dotted name as its keys
Part = str | Name  # literal text, or a name

ABSENT: Any = object()  # what a name stands for that names nothing

_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)
_PLACE = re.compile(r"[0-9]{1,9}", re.ASCII)  # no list is longer, and Python reads no number of thousands of digits
_ENCODER = msgspec.json.Encoder(order="deterministic")


def split_template(template: str) -> tuple[Part, ...]:
    """Literal texts and names in turn. Raises ``Invalid`` where something else stands between the braces."""
    found = _split(template)
    if isinstance(found, str):
        raise Invalid(found)
    return found


def list_template_names(template: str) -> Iterator[Name]:
    """The names of a template; ``Invalid`` as for ``parts``."""
    return (part for part in split_template(template) if not isinstance(part, str))


def render(template: str, scope: Mapping[str, Any]) -> str:
    """The text with every name replaced; a name that is not there becomes nothing."""
    return "".join(
        part if isinstance(part, str) else _or_nothing(resolve_name(part, scope)) for part in split_template(template)
    )


def resolve_name(name: Name, value: Any) -> Any:
    """What stands under the name; ``ABSENT`` when nothing does."""
    for key in name:
        value = resolve_key(key, value)
    return value


def resolve_key(key: str, value: Any) -> Any:
    """One key of a mapping or one place of a list; ``ABSENT`` when it is not there."""
    if isinstance(value, Mapping) and key in value:
        return value[key]
    if isinstance(value, list | tuple) and _PLACE.fullmatch(key) and int(key) < len(value):
        return value[int(key)]
    return ABSENT


def format_value(value: Any) -> str:
    """A value within a text: what is no text is written as JSON."""
    return value if isinstance(value, str) else _ENCODER.encode(value).decode()


def _or_nothing(value: Any) -> str:
    return "" if value is ABSENT else format_value(value)


@lru_cache(maxsize=4096)
def _split(template: str) -> tuple[Part, ...] | str:
    """The parts, or what is wrong with the template."""
    found: list[Part] = []
    at = 0
    while (begin := template.find("{{", at)) >= 0:
        end = template.find("}}", begin)
        if end < 0:
            return 'has "{{" without "}}"'
        name = template[begin + 2 : end].strip()
        if _NAME.fullmatch(name) is None:
            return f'has "{{{{ {name[:80]} }}}}", expected a dotted name such as payload.order.id; nothing is evaluated'
        if begin > at:
            found.append(template[at:begin])
        found.append(tuple(name.split(".")))
        at = end + 2
    if at < len(template):
        found.append(template[at:])
    return tuple(found)
