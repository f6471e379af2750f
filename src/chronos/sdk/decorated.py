"""A function that became a job or a task, and stays the function it was."""

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Decorated(Generic[P, R_co]):
    """Called, it is the function."""

    __name__: str
    __wrapped__: Callable[P, R_co]

    def __init__(self, function: Callable[P, R_co]) -> None:
        functools.update_wrapper(self, bare(function))

    @property
    def function(self) -> Callable[P, R_co]:
        """The function itself."""
        return self.__wrapped__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.__wrapped__(*args, **kwargs)


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, of one that may be a job or task already. What other decorators made of it is kept."""
    return function.function if isinstance(function, Decorated) else function
