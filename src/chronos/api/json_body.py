"""JSON bodies: strict reading (UTF-8, unique keys, no NaN, bounded depth, keys and values), and writing."""

import json
import math
from typing import Any, NoReturn

import msgspec

from chronos.api.errors import Malformed

MAX_DEPTH = 64
MAX_KEYS = 500  # per object
BYTES_PER_VALUE = 8  # on average, at least; it bounds the number of values in a body
_NESTING = (dict, list)
_NOT_CANONICAL = object()
_USUAL_DEPTH = 8


def _nested_type(levels: int) -> Any:
    """Return the type of a value with at most this many levels."""
    to_plain_json: Any = str | int | float | bool | None
    kind = to_plain_json
    for _ in range(levels):
        kind = dict[str, kind] | list[kind] | to_plain_json  # type: ignore[valid-type]
    return kind


#: Rejects deeper values, so that accepted ones need no second pass for their depth.
_decode_shallow = msgspec.json.Decoder(_nested_type(_USUAL_DEPTH)).decode


def read_json(raw: bytes, max_values: int | None = None) -> Any:
    """Read a body. Raises ``Malformed`` with the fault and its place."""
    value, is_shallow = _read_canonical(raw)
    if value is _NOT_CANONICAL:
        value, is_shallow = _read_strictly(raw), False
    nests = raw.count(b"{") + raw.count(b"[")
    if not is_shallow and nests > MAX_DEPTH and _is_deep(value):
        raise _too_deep()
    may_be_many = max_values is not None and raw.count(b",") + nests >= max_values
    if may_be_many or raw.count(b":") > MAX_KEYS:
        _check_size(value, max_values)
    return value


def _read_canonical(raw: bytes) -> tuple[Any, bool]:
    """Read a body that is written like ours, spaces aside, and so has unique keys and no NaN.

    Also returns whether its depth is known to be small. Takes a fifth of the time of the strict reader, which gets all
    other bodies.
    """
    try:
        try:
            value, is_shallow = _decode_shallow(raw), True
        except msgspec.ValidationError:
            value, is_shallow = msgspec.json.decode(raw), False
        is_canonical = msgspec.json.encode(value) == msgspec.json.format(raw, indent=-1)
    except (msgspec.DecodeError, UnicodeError, OverflowError, RecursionError):
        return _NOT_CANONICAL, False
    return (value, is_shallow) if is_canonical else (_NOT_CANONICAL, False)


def _read_strictly(raw: bytes) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8 at byte {error.start}; send UTF-8") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant, parse_float=_read_finite
        )
    except json.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise _too_deep() from None
    except Malformed:
        raise
    except ValueError:  # a number with thousands of digits
        raise Malformed("the body has an integer of more than 64 bits; write it as text") from None
    return value


def write_json(data: Any) -> bytes:
    """Write a response body. Unpaired surrogates that a client sent are escaped."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return json.dumps(data, default=msgspec.to_builtins).encode()


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Malformed(f'the body has the key "{key[:64]}" twice in one object; write it once')
            seen.add(key)
    return result


def _reject_constant(word: str) -> NoReturn:
    raise Malformed(f"the body has {word}, which is not JSON; use null or text")


def _read_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Malformed(f"the body has {text[:32]}, which exceeds the range of a number; write it as text")
    return value


def _is_deep(value: Any) -> bool:
    level = [value] if type(value) in _NESTING else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        inner = [item.values() if type(item) is dict else item for item in level]
        level = [item for items in inner for item in items if type(item) in _NESTING]
    return bool(level)


def _check_size(value: Any, max_values: int | None) -> None:
    """Raise ``Malformed`` for an object with too many keys, or for too many values in total."""
    count, level = 1, [value] if type(value) in _NESTING else []
    while level:
        for item in level:
            if type(item) is dict and len(item) > MAX_KEYS:
                raise Malformed(f"an object in the body has {len(item)} keys, allowed {MAX_KEYS}; use a list")
        count += sum(map(len, level))
        if max_values is not None and count > max_values:
            raise Malformed(f"the body has more than {max_values:,} values; send it in parts")
        inner = [item.values() if type(item) is dict else item for item in level]
        level = [item for items in inner for item in items if type(item) in _NESTING]


def _too_deep() -> Malformed:
    return Malformed(f"the body is nested deeper than {MAX_DEPTH} levels; flatten it")
