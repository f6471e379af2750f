"""Registrations: 4-tuples of task name, POSIX cron expression, async callback and retry delay.

They are checked in order, and each one in this order: shape, name, duplicate name, cron expression, callback, retry
delay. The first fault is raised, before anything else happens.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from types import FunctionType

from chronos.core.schedule.cron import Cron
from chronos.declarative.errors import (
    CronExpressionInvalidError,
    InvalidCronExpressionError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
)
from chronos.declarative.posix_cron import parse_cron_expression

Callback = Callable[[], Awaitable[object]]  # the result is ignored
RegistrationTuple = tuple[str, str, Callback, timedelta]
MAX_NAME = 1_000  # bytes; every store can index this
MAX_DELAY = timedelta(days=36_525)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One registered task, checked."""

    name: str
    expression: str
    cron: Cron
    callback: Callback
    retry_delay_us: int


def read_registrations(registrations: object) -> tuple[Registration, ...]:
    """Check registrations. Raises an error for the first fault."""
    if not isinstance(registrations, list | tuple):
        raise RegistrationsNotArrayError
    seen: set[str] = set()
    return tuple(_read_registration(index, item, seen) for index, item in enumerate(registrations))


def _read_registration(index: int, item: object, seen: set[str]) -> Registration:
    match item:
        case [str() as name, str() as expression, callback, timedelta() as delay] if callable(callback):
            pass
        case _:
            raise RegistrationShapeError(index, item)
    name, expression = _to_plain_str(name), _to_plain_str(expression)
    _check_name(name)
    if name in seen:
        raise ScheduleDuplicateTaskError(name)
    seen.add(name)
    cron = _parse_cron(expression)
    _check_callback(callback)
    if delay < timedelta(0):
        raise NegativeRetryDelayError(delay / timedelta(milliseconds=1))
    if delay > MAX_DELAY:
        raise InvalidRegistrationError("retryDelay", delay, "must not be longer than 100 years")
    return Registration(
        name=name, expression=expression, cron=cron, callback=callback, retry_delay_us=delay // _MICROSECOND
    )


def _to_plain_str(text: str) -> str:
    """The text of an instance of a ``str`` subclass, such as a ``StrEnum``."""
    return text if type(text) is str else str.__str__(text)


def _check_name(name: str) -> None:
    if not name:
        raise InvalidRegistrationError("name", name, "must be a non-empty string")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        length = -1
    if length < 0 or "\0" in name:
        raise InvalidRegistrationError("name", name, "must not contain a NUL or half of a surrogate pair")
    if length > MAX_NAME:
        raise InvalidRegistrationError("name", name, f"must not be longer than {MAX_NAME} bytes, got {length}")


def _parse_cron(expression: str) -> Cron:
    try:
        return parse_cron_expression(expression)
    except InvalidCronExpressionError as error:
        details = error.details
        raise CronExpressionInvalidError(details["expression"], details["field"], details["reason"]).caused_by(
            error
        ) from error


def _check_callback(callback: Callable[..., object]) -> None:
    if type(callback) is FunctionType and _is_plain_async_function(callback):
        return  # fast path: the checks below are slow, and there may be very many registrations
    call = None if isinstance(callback, type) else getattr(callback, "__call__", None)  # noqa: B004 - it may be async
    if not (inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call)):
        raise InvalidRegistrationError("callback", callback, "must be an async function")
    try:
        inspect.signature(callback).bind()
    except TypeError:
        raise InvalidRegistrationError("callback", callback, "must take no arguments") from None


def _is_plain_async_function(function: FunctionType) -> bool:
    """Whether it is an ``async def`` without parameters and without attributes that could hide another function."""
    code = function.__code__
    parameters = code.co_argcount + code.co_kwonlyargcount
    return bool(code.co_flags & inspect.CO_COROUTINE) and not parameters and not function.__dict__
