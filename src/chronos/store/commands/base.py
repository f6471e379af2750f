"""What every write is: a value that carries all of its time, ids and randomness."""

from typing import Generic, TypeVar

from chronos.core.node import Actor

R = TypeVar("R")
SYSTEM = Actor()


class Command(Generic[R]):
    """Marks a write; ``R`` is its answer."""

    __slots__ = ()
