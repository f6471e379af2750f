"""Levels: the numbers of the server's defaults and of the namespace's settings that apply to an execution.

Both levels are stored as numbered versions that never change. An execution keeps the two numbers, packed into one, so
that its settings can still be told after everything has changed. 0 means that the level sets nothing.
"""

from typing import NamedTuple

NO_LEVELS = 0  # packed: neither level sets anything
_NAMESPACE_BITS = 24
_MAX_NAMESPACE = (1 << _NAMESPACE_BITS) - 1


class Levels(NamedTuple):
    """The numbers of two settings versions."""

    defaults: int
    namespace: int

    def pack(self) -> int:
        """Return both numbers as one, as rows keep them."""
        return self.defaults << _NAMESPACE_BITS | self.namespace

    @classmethod
    def unpack(cls, packed: int) -> "Levels":
        """Return the two numbers."""
        return cls(packed >> _NAMESPACE_BITS, packed & _MAX_NAMESPACE)
