"""FunctionRegistry: the Python functions that a program offers to jobs.

Each is inspected once, so that calls are cheap. A parameter named ``ctx`` or annotated as ``Context`` receives the
context. Every other parameter is filled from the payload, by name. A function with neither ignores the payload.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, MethodType
from typing import Any

from msgspec import Struct

from chronos.errors import Conflict, Invalid
from chronos.runners.contract import HookInput
from chronos.runners.python.context import Context
from chronos.runners.python.typed_values import Converter, find_converter


class Isolation(Enum):
    """Where a sync function runs. Async functions always run on the event loop."""

    THREAD = "thread"
    PROCESS = "process"  # can be killed and limited; imported by name
    INLINE = "inline"  # on the event loop; only for work that takes microseconds


class FunctionOrigin(Struct, frozen=True, kw_only=True):
    """Where another process finds a function: by import, never by pickle."""

    module: str
    qualname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A registered function, and everything needed to call it."""

    name: str
    call: Callable[..., Any]
    isolation: Isolation
    is_async: bool
    ctx_parameter: str | None
    parameters: frozenset[str]  # filled from the payload
    required: frozenset[str]  # parameters without a default
    accepts_any_name: bool  # has ``**others``
    ignores_input: bool  # takes neither context nor payload
    origin: FunctionOrigin | None  # only for functions that run in a process
    parameter_names: tuple[str, ...]  # those filled from the payload, in order
    result_converter: Converter | None
    converters: Mapping[str, Converter]  # of parameters whose annotation is not plain JSON

    def arguments(self, payload: Any, hook: HookInput | None = None) -> dict[str, Any]:
        """Return the arguments for a payload, as a new dict.

        A hook need not take all of its input, and may take everything as one parameter: see ``HookInput``.
        Raises ``Invalid``, naming what is missing or unexpected.
        """
        if not self.parameters and not self.accepts_any_name:
            return {}
        if hook is not None:
            values = {**payload, hook.value: payload}
            names_taken = self.parameters | payload.keys() if self.accepts_any_name else self.parameters
            payload = {name: values[name] for name in values.keys() & names_taken}
        if payload is None:
            payload = {}
        if type(payload) is not dict and not isinstance(payload, Mapping):  # the first test is much faster
            kind = _JSON_NAMES.get(type(payload), type(payload).__name__)
            raise Invalid(
                f'the payload of "{self.name}" is {kind}; send a JSON object, because parameters are filled by name'
            )
        names = payload.keys()
        if missing := self.required - names:
            raise Invalid(f'the payload of "{self.name}" lacks {_join_quoted(missing)}')
        if not self.accepts_any_name and (extra := names - self.parameters):
            known = _join_quoted(self.parameters)
            raise Invalid(
                f'the payload of "{self.name}" has {_join_quoted(extra)}, but the function takes only {known}'
            )
        if self.ctx_parameter in names:
            raise Invalid(
                f'the payload of "{self.name}" has "{self.ctx_parameter}", which is the name of the context parameter'
            )
        arguments = dict(payload)
        for name in self.converters.keys() & names if self.converters else ():
            try:
                arguments[name] = self.converters[name].from_json(arguments[name])
            except Invalid as error:
                raise Invalid(f'the payload of "{self.name}" has a wrong "{name}": {error}') from None
        return arguments

    def to_payload(self, payload: Any) -> Any:
        """Return a payload whose typed values are JSON. Raises ``Invalid``."""
        if not self.converters or not isinstance(payload, Mapping):
            return payload
        typed = {name: self.converters[name].to_json(payload[name]) for name in self.converters if name in payload}
        return {**payload, **typed}


class FunctionRegistry:
    """The functions of one program, by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}
        self.names: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[Function]:
        return iter(self._functions.values())

    def get(self, name: str) -> Function | None:
        """Return the function with a name, or None."""
        return self._functions.get(name)

    def name_of(self, call: Callable[..., Any]) -> str | None:
        """Return the first name under which a function is registered, or None."""
        return next((name for name, function in self._functions.items() if function.call is call), None)

    def register(self, name: str, call: Callable[..., Any], isolation: Isolation | str = Isolation.THREAD) -> Function:
        """Register a function under a name. Registering the same function again changes nothing.

        Raises ``Conflict`` if another function has the name, ``Invalid`` if the function could never be called as a
        job.
        """
        function = inspect_function(name, call, isolation)
        registered = self._functions.get(name)
        if registered is not None and (registered.call is not call or registered.isolation is not function.isolation):
            raise Conflict(
                f'the name "{name}" already belongs to {_describe_callable(registered.call)}; '
                f"choose another name for {_describe_callable(call)}"
            )
        function = self._functions.setdefault(name, function)
        self.names = frozenset(self._functions)
        return function


def inspect_function(name: str, call: Callable[..., Any], isolation: Isolation | str = Isolation.THREAD) -> Function:
    """Inspect a function. Raises ``Invalid`` if it could never be called as a job."""
    if isinstance(isolation, str):
        try:
            isolation = Isolation(isolation)
        except ValueError:
            known = _join_quoted({isolation.value for isolation in Isolation})
            raise Invalid(f'isolation of "{name}" is "{isolation}", expected one of {known}') from None
    signature = _read_signature(name, call)
    parameters = signature.parameters.values()
    inner = call if inspect.isroutine(call) else getattr(call, "__call__", call)  # noqa: B004
    if any(inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code) for code in (call, inner)):
        raise Invalid(f'"{name}" is a generator; a job function must return, so collect the values and return them')
    is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(inner)
    if is_async and isolation is Isolation.PROCESS:
        raise Invalid(f'"{name}" is async, but only sync functions run in a process; write it with "def"')
    ctx_parameter = next((parameter.name for parameter in parameters if _is_context_parameter(parameter)), None)
    filled = [parameter for parameter in parameters if parameter.name != ctx_parameter and parameter.kind in _BY_NAME]
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and parameter.default is inspect.Parameter.empty:
            raise Invalid(
                f'"{name}" takes "{parameter.name}" by position only, but a payload fills names; remove the "/"'
            )
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
        parameter_names=tuple(parameter.name for parameter in filled),
        result_converter=find_converter(signature.return_annotation),
        converters={
            parameter.name: converter
            for parameter in filled
            if (converter := find_converter(parameter.annotation)) is not None
        },
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
            raise Invalid(f'the parameters of "{name}" are unknown; wrap it in a Python function') from None
    except ValueError:
        raise Invalid(f'the parameters of "{name}" are unknown; wrap it in a Python function') from None


def _is_context_parameter(parameter: inspect.Parameter) -> bool:
    if parameter.kind not in _BY_NAME:
        return False
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return parameter.name == "ctx" or annotation.rpartition(".")[2] == Context.__name__
    return parameter.name == "ctx" or annotation is Context


def _find_origin(name: str, call: Callable[..., Any]) -> FunctionOrigin:
    """Return where a function can be imported from. Raises ``Invalid`` if it has no own name in a module."""
    if isinstance(call, MethodType) and not isinstance(call.__self__, type):
        raise Invalid(f'"{name}" is a method of an object, which another process does not have; use a function')
    if not isinstance(call, FunctionType | MethodType):
        raise Invalid(f'"{name}" is {type(call).__name__}, which another process cannot import; use a function')
    if "<lambda>" in call.__qualname__ or "<locals>" in call.__qualname__:
        reason = "a lambda" if "<lambda>" in call.__qualname__ else "defined inside another function"
        raise Invalid(
            f'"{name}" is {reason}, but isolation="process" imports it by name; move it to the top of its module'
        )
    return FunctionOrigin(module=call.__module__, qualname=call.__qualname__)


def _describe_callable(call: Callable[..., Any]) -> str:
    module, qualname = getattr(call, "__module__", None), getattr(call, "__qualname__", None)
    return f"{module}.{qualname}" if module and qualname else repr(call)


def _join_quoted(names: set[str] | frozenset[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names)) or "none"
