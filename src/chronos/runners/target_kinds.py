"""The kinds of targets, and the fields of a task that hold a target. Other packages add kinds by entry point."""

from collections.abc import Iterable
from functools import lru_cache

BUILT_IN_KINDS = ("command", "http", "python", "wait")
PACKAGE_KINDS = ("grpc",)  # fields of a task even where no package provides the kind
KIND_ALIASES = {"webhook": "http"}  # other names of a kind


def list_target_fields(kinds: Iterable[str] = ()) -> tuple[str, ...]:
    """Return every field that can hold a target. ``kinds`` are those of this process, with those of its packages."""
    return _list_target_fields(tuple(kinds))


@lru_cache(maxsize=64)
def _list_target_fields(kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*BUILT_IN_KINDS, *PACKAGE_KINDS, *KIND_ALIASES, *kinds)))
