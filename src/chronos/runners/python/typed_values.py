"""Converts between JSON and the types that a function's annotations name.

Dataclasses, msgspec structs, pydantic models, enums, dates, UUIDs, decimals and sets are converted, also inside lists,
dicts and unions. Other annotations, such as ``int``, are left alone.
"""

import dataclasses
import datetime
import enum
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_args, get_origin

import msgspec

from chronos.errors import Invalid

_CONVERTED_TYPES = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    Decimal,
    enum.Enum,
    msgspec.Struct,
    set,
    frozenset,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """Converts values of one annotation."""

    annotation: Any

    def from_json(self, value: Any) -> Any:
        """Convert a JSON value. Raises ``Invalid``, which says what is wrong with the value."""
        try:
            return msgspec.convert(value, self.annotation, dec_hook=_validate_model)
        except msgspec.ValidationError as error:
            raise Invalid(str(error)) from None

    def to_json(self, value: Any) -> Any:
        """Convert a value to JSON. Raises ``Invalid`` for a value that has no JSON form."""
        try:
            return msgspec.to_builtins(value, enc_hook=_dump_model)
        except TypeError as error:
            raise Invalid(str(error)) from None


def find_converter(annotation: Any) -> Converter | None:
    """Return the converter of an annotation; None if JSON values need no conversion."""
    return Converter(annotation=annotation) if _is_converted(annotation) else None


def _is_converted(annotation: Any) -> bool:
    if any(_is_converted(part) for part in get_args(annotation)):
        return True
    kind = get_origin(annotation) or annotation
    if not isinstance(kind, type):
        return False
    return issubclass(kind, _CONVERTED_TYPES) or dataclasses.is_dataclass(kind) or _is_model(kind)


def _is_model(kind: Any) -> bool:
    """Whether a class is a pydantic model."""
    return callable(getattr(kind, "model_validate", None)) and callable(getattr(kind, "model_dump", None))


def _validate_model(kind: type, value: Any) -> Any:
    validate: Callable[[Any], Any] | None = getattr(kind, "model_validate", None) if _is_model(kind) else None
    if validate is None:
        raise NotImplementedError(f"{kind.__name__} cannot be made of JSON")
    return validate(value)


def _dump_model(value: Any) -> Any:
    if not _is_model(type(value)):
        raise NotImplementedError(f"{type(value).__name__} has no JSON form")
    return value.model_dump(mode="json")
