"""Strict YAML reader for files that users write: no tags, no duplicate keys, bounded size, depth and aliases."""

from collections.abc import Hashable
from typing import Any

import yaml

from chronos.errors import Invalid

MAX_BYTES = 4 << 20
MAX_DEPTH = 64
MAX_ALIASES = 100
MAX_REPEATED = 100_000  # values that all aliases together expand to
_CHARACTERS_PER_VALUE = 100  # so that long texts count as several values


class _Strict(yaml.SafeLoader):
    """A safe loader with limits on depth and aliases, which rejects duplicate keys."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._aliases = 0
        self._values = 0  # read so far, including expanded aliases
        self._repeated = 0  # values from aliases
        self._sizes: dict[yaml.Node, int] = {}  # number of values of each complete anchor

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            return self._compose_alias(parent, index)
        event = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._values
        self._values += 1 + len(getattr(event, "value", "")) // _CHARACTERS_PER_VALUE
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Invalid(f"the nesting is deeper than {MAX_DEPTH} levels; use fewer levels")
        try:
            node = super().compose_node(parent, index)
        finally:
            self._depth -= 1
        if event.anchor is not None and node is not None:
            self._sizes[node] = self._values - before
        return node

    def _compose_alias(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Expand an alias. Limits are needed because a few nested aliases could expand to billions of values."""
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise Invalid(f"more than {MAX_ALIASES} aliases (*name); use fewer")
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if node is None or node not in self._sizes:
            raise Invalid(f"line {line}: an alias (*name) refers to a value that contains it")
        self._values += self._sizes[node]
        self._repeated += self._sizes[node]
        if self._repeated > MAX_REPEATED:
            raise Invalid(f"line {line}: the aliases (*name) expand to more than {MAX_REPEATED:,} values; use fewer")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise Invalid(f"line {key_node.start_mark.line + 1}: the key {key!r} is not text; write it in quotes")
            if key in seen:
                raise Invalid(f'line {key_node.start_mark.line + 1}: the key "{key}" is given twice; remove one')
            seen.add(key)
        return super().construct_mapping(node, deep)


# Dates stay text, because schedules parse them with their own rules. As in YAML 1.2, only true and false are booleans;
# on, off, yes and no are text, so that "on:" is a valid key.
_Strict.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag != "tag:yaml.org,2002:timestamp" and (tag != "tag:yaml.org,2002:bool" or first in "tTfF")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(text: str) -> list[Any]:
    """Return the documents of a text. Raises ``Invalid`` with the line and the problem."""
    if len(text) > MAX_BYTES:
        raise Invalid(f"the text is longer than {MAX_BYTES >> 20} MiB; split it")
    try:
        return [document for document in yaml.load_all(text, Loader=_Strict) if document is not None]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Invalid(f"line {line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, Invalid):
            raise
        raise Invalid(str(error)) from None
