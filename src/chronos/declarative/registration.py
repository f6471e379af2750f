"""Registrations: 4-tuples of task name, POSIX cron expression, async callback and retry delay, and their faults.

They are looked at one after the other, and each in this order: its shape, its name, whether the name was there before,
its cron expression, its callback, its retry delay. The first fault is raised; nothing has happened by then.
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

Callback = Callable[[], Awaitable[object]]  # what it gives is ignored
Given = tuple[str, str, Callback, timedelta]  # as a program writes it
MAX_NAME = 1_000  # bytes: what every store can index
MAX_DELAY = timedelta(days=36_525)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One task as it was registered, known to make sense."""

    name: str
    expression: str
    cron: Cron
    callback: Callback
    retry_delay_us: int


def read_registrations(given: object) -> tuple[Registration, ...]:
    """The registrations, or the first thing that is wrong with them."""
    if not isinstance(given, list | tuple):
        raise RegistrationsNotArrayError
    seen: set[str] = set()
    return tuple(_registration(index, one, seen) for index, one in enumerate(given))


def _registration(index: int, given: object, seen: set[str]) -> Registration:
    match given:
        case [str() as name, str() as expression, callback, timedelta() as delay] if callable(callback):
            pass
        case _:
            raise RegistrationShapeError(index, given)
    name, expression = _plain(name), _plain(expression)
    _check_name(name)
    if name in seen:
        raise ScheduleDuplicateTaskError(name)
    seen.add(name)
    cron = _cron(expression)
    _check_callback(callback)
    if delay < timedelta(0):
        raise NegativeRetryDelayError(delay / timedelta(milliseconds=1))
    if delay > MAX_DELAY:
        raise InvalidRegistrationError("retryDelay", delay, "must not be longer than 100 years")
    return Registration(
        name=name, expression=expression, cron=cron, callback=callback, retry_delay_us=delay // _MICROSECOND
    )


def _plain(text: str) -> str:
    """The text itself, where it is of a kind of its own: an enumeration's, for example."""
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


def _cron(expression: str) -> Cron:
    try:
        return parse_cron_expression(expression)
    except InvalidCronExpressionError as error:
        details = error.details
        raise CronExpressionInvalidError(details["expression"], details["field"], details["reason"]).caused_by(
            error
        ) from error


def _check_callback(callback: Callable[..., object]) -> None:
    if type(callback) is FunctionType and _plainly_async(callback):
        return  # at a glance: the rest takes a while, and there may be very many
    call = None if isinstance(callback, type) else getattr(callback, "__call__", None)  # noqa: B004 - it may be async
    if not (inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call)):
        raise InvalidRegistrationError("callback", callback, "must be an async function")
    try:
        inspect.signature(callback).bind()
    except TypeError:
        raise InvalidRegistrationError("callback", callback, "must take no arguments") from None


def _plainly_async(function: FunctionType) -> bool:
    """Whether it is an ``async def`` without any parameter, and does not pretend to be another."""
    code = function.__code__
    parameters = code.co_argcount + code.co_kwonlyargcount
    return bool(code.co_flags & inspect.CO_COROUTINE) and not parameters and not function.__dict__
