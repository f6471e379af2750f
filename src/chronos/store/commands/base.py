"""The base class of commands."""

from typing import Generic, TypeVar

from chronos.core.node import Actor

R = TypeVar("R")
SYSTEM = Actor()


class Command(Generic[R]):
    """A write whose answer is an ``R``. It contains all of its time, ids and randomness."""

    __slots__ = ()
