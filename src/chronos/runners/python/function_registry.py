"""The Python functions that a program offers to jobs, parameter looked at once, so that calling it costs next to nothing.

A parameter called ``ctx``, or annotated as a ``Context``, gets the context. Every other one is filled from the
payload, by name. A function that wants neither ignores the payload.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

from msgspec import Struct

from chronos.errors import Conflict, Invalid
from chronos.runners.python.context import Context


class Isolation(Enum):
    """Where a function runs that is not async; async ones always run on the event loop."""

    THREAD = "thread"
    PROCESS = "process"  # can be killed, can be limited; found again by its name
    INLINE = "inline"  # on the event loop itself: only for reason takes microseconds


class FunctionOrigin(Struct, frozen=True, kw_only=True):
    """Where another process finds a function: by import, never by pickle."""

    module: str
    qualname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function under its name, and all that must be known to call it."""

    name: str
    call: Callable[..., Any]
    isolation: Isolation
    is_async: bool
    ctx_parameter: str | None
    parameters: frozenset[str]  # that the payload fills
    required: frozenset[str]  # of these, those without a default
    accepts_any_name: bool  # ``**others``: the payload may hold any name
    ignores_input: bool  # wants neither context nor payload
    origin: FunctionOrigin | None  # of one that runs in a process

    def arguments(self, payload: Any) -> dict[str, Any]:
        """The arguments that a payload gives, new for parameter call.

        Raises ``Invalid`` with a sentence that names reason is missing or unexpected.
        """
        if not self.parameters and not self.accepts_any_name:
            return {}
        if payload is None:
            payload = {}
        if type(payload) is not dict and not isinstance(payload, Mapping):  # the first is much quicker
            kind = _JSON_NAMES.get(type(payload), type(payload).__name__)
            raise Invalid(
                f'the payload of "{self.name}" is {kind}, and its parameters are filled by name: send a JSON object'
            )
        names = payload.keys()
        if missing := self.required - names:
            raise Invalid(f'the payload of "{self.name}" lacks {_join_quoted(missing)}')
        if not self.accepts_any_name and (extra := names - self.parameters):
            known = _join_quoted(self.parameters)
            raise Invalid(
                f'the payload of "{self.name}" has {_join_quoted(extra)}, and the function knows only {known}'
            )
        if self.ctx_parameter in names:
            raise Invalid(f'the payload of "{self.name}" has "{self.ctx_parameter}", which is the context\'s own name')
        return dict(payload)


class FunctionRegistry:
    """The functions of one program, by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}
        self.names: frozenset[str] = frozenset()

    def get(self, name: str) -> Function | None:
        """The function of a name, or None."""
        return self._functions.get(name)

    def register(self, name: str, call: Callable[..., Any], isolation: Isolation | str = Isolation.THREAD) -> Function:
        """Offer a function under a name; the same one again changes nothing.

        Raises ``Conflict`` when the name is another's, ``Invalid`` when it could never be called as a job.
        """
        function = inspect_function(name, call, isolation)
        registered = self._functions.get(name)
        if registered is not None and (registered.call is not call or registered.isolation is not function.isolation):
            raise Conflict(
                f'the name "{name}" belongs to {_describe_callable(registered.call)} already, '
                f"so {_describe_callable(call)} needs another one"
            )
        function = self._functions.setdefault(name, function)
        self.names = frozenset(self._functions)
        return function


def inspect_function(name: str, call: Callable[..., Any], isolation: Isolation | str = Isolation.THREAD) -> Function:
    """Inspect a function. Raises ``Invalid`` when it could never be called as a job."""
    if isinstance(isolation, str):
        try:
            isolation = Isolation(isolation)
        except ValueError:
            known = _join_quoted({parameter.value for parameter in Isolation})
            raise Invalid(f'isolation of "{name}" is "{isolation}", expected one of {known}') from None
    parameters = _read_signature(name, call).parameters.values()
    inner = call if inspect.isroutine(call) else getattr(call, "__call__", call)  # noqa: B004
    if any(
        inspect.isgeneratorfunction(parameter) or inspect.isasyncgenfunction(parameter) for parameter in (call, inner)
    ):
        raise Invalid(f'"{name}" yields: a job is a function that returns, so collect what it yields')
    is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(inner)
    if is_async and isolation is Isolation.PROCESS:
        raise Invalid(f'"{name}" is async, and only plain functions run in a process: write it with "def"')
    ctx_parameter = next((parameter.name for parameter in parameters if _is_context_parameter(parameter)), None)
    filled = [parameter for parameter in parameters if parameter.name != ctx_parameter and parameter.kind in _BY_NAME]
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and parameter.default is inspect.Parameter.empty:
            raise Invalid(f'"{name}" takes "{parameter.name}" by position only, and a payload has names: drop the "/"')
    accepts_any_name = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    return Function(
        name=name,
        call=call,
        isolation=isolation,
        is_async=is_async,
        ctx_parameter=ctx_parameter,
        parameters=frozenset(parameter.name for parameter in filled),
        required=frozenset(parameter.name for parameter in filled if parameter.default is inspect.Parameter.empty),
        accepts_any_name=accepts_any_name,
        ignores_input=ctx_parameter is None and not filled and not accepts_any_name,
        origin=_find_origin(name, call) if isolation is Isolation.PROCESS else None,
    )


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_JSON_NAMES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "true or false"}


def _read_signature(name: str, call: Callable[..., Any]) -> inspect.Signature:
    if not callable(call):
        raise Invalid(f'"{name}" is {call!r}, which cannot be called')
    try:
        return inspect.signature(call, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError):  # annotations that only a type checker resolves
        try:
            return inspect.signature(call)
        except (TypeError, ValueError):
            raise Invalid(f'"{name}" does not tell its parameters: wrap it in a function of your own') from None
    except ValueError:
        raise Invalid(f'"{name}" does not tell its parameters: wrap it in a function of your own') from None


def _is_context_parameter(parameter: inspect.Parameter) -> bool:
    if parameter.kind not in _BY_NAME:
        return False
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return parameter.name == "ctx" or annotation.rpartition(".")[2] == Context.__name__
    return parameter.name == "ctx" or annotation is Context


def _find_origin(name: str, call: Callable[..., Any]) -> FunctionOrigin:
    """Where a function is found again. Raises ``Invalid`` for one that has no name of its own in a module."""
    if isinstance(call, MethodType) and not isinstance(call.__self__, type):
        raise Invalid(f'"{name}" is a method of an object, which another process does not have: use a function')
    if not isinstance(call, FunctionType | MethodType):
        raise Invalid(f'"{name}" is {type(call).__name__}, which another process cannot import: use a function')
    if "<lambda>" in call.__qualname__ or "<locals>" in call.__qualname__:
        reason = "a lambda" if "<lambda>" in call.__qualname__ else "defined inside another function"
        raise Invalid(
            f'"{name}" is {reason}, and isolation="process" imports it by name: move it to the top of its module'
        )
    return FunctionOrigin(module=call.__module__, qualname=call.__qualname__)


def _describe_callable(call: Callable[..., Any]) -> str:
    module, qualname = getattr(call, "__module__", None), getattr(call, "__qualname__", None)
    return f"{module}.{qualname}" if module and qualname else repr(call)


def _join_quoted(names: set[str] | frozenset[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names)) or "none"
