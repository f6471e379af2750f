"""YAML that somebody wrote, read strictly: no tags, no duplicate keys, no bombs."""

from collections.abc import Hashable
from typing import Any

import yaml

from chronos.errors import Invalid

MAX_BYTES = 4 << 20
MAX_DEPTH = 64
MAX_ALIASES = 100
MAX_REPEATED = 100_000  # values that aliases stand for, all together
_CHARACTERS_PER_VALUE = 100  # of a text that count as one value more


class _Strict(yaml.SafeLoader):
    """The safe loader, which builds plain values only, with bounds and without surprises."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._aliases = 0
        self._values = 0  # read so far, those that aliases stand for included
        self._repeated = 0  # of these
        self._sizes: dict[yaml.Node, int] = {}  # values of what has an anchor, once all of it is read

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            return self._compose_alias(parent, index)
        event = self.peek_event()  # type: ignore[no-untyped-call]
        before = self._values
        self._values += 1 + len(getattr(event, "value", "")) // _CHARACTERS_PER_VALUE
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Invalid(f"it is nested more than {MAX_DEPTH} levels deep")
        try:
            node = super().compose_node(parent, index)
        finally:
            self._depth -= 1
        if event.anchor is not None and node is not None:
            self._sizes[node] = self._values - before
        return node

    def _compose_alias(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """What an alias stands for: a few lines of aliases of aliases would be billions of values."""
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise Invalid(f"it repeats itself with more than {MAX_ALIASES} aliases (*name)")
        line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if node is None or node not in self._sizes:
            raise Invalid(f"line {line}: an alias (*name) stands within what it names, which would have no end")
        self._values += self._sizes[node]
        self._repeated += self._sizes[node]
        if self._repeated > MAX_REPEATED:
            raise Invalid(f"line {line}: its aliases (*name) stand for more than {MAX_REPEATED:,} values; write fewer")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise Invalid(f"line {key_node.start_mark.line + 1}: the key {key!r} is not text; write it in quotes")
            if key in seen:
                raise Invalid(f'line {key_node.start_mark.line + 1}: "{key}" stands there twice')
            seen.add(key)
        return super().construct_mapping(node, deep)


# Dates stay text: a schedule reads them itself, with its own rules. As in YAML 1.2, only true and false are booleans:
# on, off, yes and no are text, so that "on:" is a key.
_Strict.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag != "tag:yaml.org,2002:timestamp" and (tag != "tag:yaml.org,2002:bool" or first in "tTfF")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(text: str) -> list[Any]:
    """The documents of a text. Raises ``Invalid`` with the line and what is wrong."""
    if len(text) > MAX_BYTES:
        raise Invalid(f"it is longer than {MAX_BYTES >> 20} MiB")
    try:
        return [document for document in yaml.load_all(text, Loader=_Strict) if document is not None]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise Invalid(f"line {line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, Invalid):
            raise
        raise Invalid(str(error)) from None
