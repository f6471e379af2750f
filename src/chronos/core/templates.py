"""Templates: text with ``{{ dotted.names }}``, each replaced by a value. Names are keys; nothing is evaluated."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from chronos.errors import Invalid

_HOLE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_NAME = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*", re.ASCII)
_ENCODER = msgspec.json.Encoder(order="deterministic")


def names(template: str) -> tuple[str, ...]:
    """The dotted names of a template. Raises ``Invalid`` where something else stands between the braces."""
    found = tuple(_HOLE.findall(template))
    for name in found:
        if not _NAME.fullmatch(name):
            raise Invalid(f'"{{{{ {name} }}}}" is no name; write dotted names like {{{{ payload.customer }}}}')
    if "{{" in _HOLE.sub("", template):
        raise Invalid('has "{{" without "}}"')
    return found


def render(template: str, scope: Mapping[str, Any], *, missing: str | None = None) -> str:
    """The text with every name replaced. One that is not there is ``missing``; without that ``Invalid`` is raised."""

    def value_of(match: re.Match[str]) -> str:
        found = _look_up(match.group(1), scope)
        if found is not _ABSENT:
            return _text(found)
        if missing is None:
            raise Invalid(f'the template names "{match.group(1)}", which is not there')
        return missing

    return _HOLE.sub(value_of, template)


_ABSENT = object()


def _look_up(name: str, scope: Mapping[str, Any]) -> Any:
    value: Any = scope
    for part in name.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _ABSENT
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _ENCODER.encode(value).decode()
