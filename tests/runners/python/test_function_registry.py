"""The registry of functions: how signatures are read, and how payloads fill parameters."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from chronos.errors import Conflict, Invalid
from chronos.runners.python.context import Context
from chronos.runners.python.function_registry import FunctionOrigin, FunctionRegistry, Isolation, inspect_function


def nothing() -> None: ...


def other() -> None: ...


def sized(width: int, height: int = 2) -> int:
    return width * height


def with_ctx(ctx: Any, name: str) -> None: ...


def by_annotation(context: Context) -> None: ...


def by_text(context: "Context", *, name: str = "") -> None: ...


def anything(**others: Any) -> None: ...


async def on_the_loop() -> None: ...


class Worker:
    async def __call__(self, ctx: Any) -> None: ...

    def method(self) -> None: ...

    @classmethod
    def made(cls) -> None: ...


def test_a_name_belongs_to_one_function() -> None:
    functions = FunctionRegistry()
    first = functions.register("nothing", nothing)
    assert functions.register("nothing", nothing) is first
    assert functions.get("nothing") is first
    assert functions.get("missing") is None
    assert functions.names == {"nothing"}
    with pytest.raises(
        Conflict, match=r'the name "nothing" already belongs to .*\.nothing; choose another name for .*\.other'
    ):
        functions.register("nothing", other)
    with pytest.raises(Conflict):
        functions.register("nothing", nothing, "inline")


@pytest.mark.parametrize(
    ("call", "ctx", "parameters", "required"),
    [
        (nothing, None, set(), set()),
        (sized, None, {"width", "height"}, {"width"}),
        (with_ctx, "ctx", {"name"}, {"name"}),
        (by_annotation, "context", set(), set()),
        (by_text, "context", {"name"}, set()),
        (functools.partial(sized, height=3), None, {"width", "height"}, {"width"}),
        (Worker(), "ctx", set(), set()),
    ],
)
def test_a_signature_decides_how_a_function_is_called(
    call: Callable[..., Any], ctx: str | None, parameters: set[str], required: set[str]
) -> None:
    function = inspect_function("f", call)
    assert function.ctx_parameter == ctx
    assert function.parameters == parameters
    assert function.required == required
    assert function.ignores_input == (ctx is None and not parameters)
    assert function.isolation is Isolation.THREAD


def test_async_objects_and_partials_are_recognized() -> None:
    assert inspect_function("f", on_the_loop).is_async
    assert inspect_function("f", Worker()).is_async
    assert inspect_function("f", functools.partial(on_the_loop)).is_async
    assert not inspect_function("f", nothing).is_async


async def awaits() -> None:
    await on_the_loop()


async def goes_through() -> None:
    async with asyncio.Lock():
        pass


async def collects() -> list[int]:
    return [each async for each in counts()]


async def counts() -> AsyncIterator[int]:
    yield 1


def test_a_generator_function_is_rejected() -> None:
    with pytest.raises(Invalid, match="is a generator"):
        inspect_function("f", counts)


@pytest.mark.parametrize(
    ("call", "payload", "arguments"),
    [
        (nothing, None, {}),
        (nothing, {"ignored": 1}, {}),
        (nothing, [1], {}),
        (by_annotation, {"ignored": 1}, {}),
        (sized, {"width": 1}, {"width": 1}),
        (sized, {"width": 1, "height": 3}, {"width": 1, "height": 3}),
        (anything, {"a": 1}, {"a": 1}),
        (anything, None, {}),
        (by_text, None, {}),
    ],
)
def test_payloads_fill_parameters_by_name(call: Callable[..., Any], payload: Any, arguments: dict[str, Any]) -> None:
    assert inspect_function("f", call).arguments(payload) == arguments


@pytest.mark.parametrize(
    ("call", "payload", "sentence"),
    [
        (sized, None, 'the payload of "f" lacks "width"'),
        (sized, {"height": 1}, 'the payload of "f" lacks "width"'),
        (sized, {"width": 1, "depth": 1}, 'has "depth", but the function takes only "height", "width"'),
        (sized, [1, 2], 'the payload of "f" is an array; send a JSON object, because parameters are filled by name'),
        (with_ctx, {"name": "x", "ctx": 1}, 'the payload of "f" has "ctx"'),
    ],
)
def test_payloads_that_do_not_fit_are_rejected_with_the_names(
    call: Callable[..., Any], payload: Any, sentence: str
) -> None:
    with pytest.raises(Invalid) as caught:
        inspect_function("f", call).arguments(payload)
    assert sentence in str(caught.value)


def test_arguments_are_a_copy() -> None:
    payload = {"width": 1}
    inspect_function("f", sized).arguments(payload)["width"] = 2
    assert payload == {"width": 1}


def generator() -> Iterator[int]:
    yield 1


def by_position(value: int, /) -> None: ...


@pytest.mark.parametrize(
    ("call", "isolation", "sentence"),
    [
        (generator, "thread", "collect the values"),
        (by_position, "thread", 'takes "value" by position only'),
        (nothing, "fibre", '"fibre", expected one of "inline", "process", "thread"'),
        (type, "thread", "the parameters of .* are unknown"),
        (3, "thread", "cannot be called"),
        (on_the_loop, "process", "only sync functions run in a process"),
        (lambda: None, "process", "is a lambda"),
        (functools.partial(sized, 1), "process", "another process cannot import"),
        (Worker().method, "process", "a method of an object"),
    ],
)
def test_functions_that_could_never_run_are_rejected(call: Any, isolation: str, sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        FunctionRegistry().register("f", call, isolation)


def test_a_process_finds_only_functions_that_can_be_imported() -> None:
    def inner() -> None: ...

    assert inspect_function("f", nothing, "process").origin == FunctionOrigin(module=__name__, qualname="nothing")
    assert inspect_function("f", Worker.made, "process").origin == FunctionOrigin(
        module=__name__, qualname="Worker.made"
    )
    with pytest.raises(Invalid, match=r"defined inside another function.* move it to the top of its module"):
        inspect_function("f", inner, "process")
