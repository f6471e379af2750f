"""Bodies: read strictly (JSON in UTF-8, every key once, no NaN, bounded in depth, keys and values), and written."""

import json
import math
from typing import Any, NoReturn

import msgspec

from chronos.api.errors import Malformed

MAX_DEPTH = 64
MAX_KEYS = 500  # of one object
BYTES_PER_VALUE = 8  # on average, at least: so many values may be in a body of the largest size
_NESTING = (dict, list)
_NOT_CANONICAL = object()
_USUAL_DEPTH = 8


def _nested_type(levels: int) -> Any:
    """The type of what is nested no deeper than this."""
    to_plain_json: Any = str | int | float | bool | None
    kind = to_plain_json
    for _ in range(levels):
        kind = dict[str, kind] | list[kind] | to_plain_json  # type: ignore[valid-type]
    return kind


#: Refuses what is nested deeper. Whatever passes need not be gone through once more to see how deep it is.
_decode_shallow = msgspec.json.Decoder(_nested_type(_USUAL_DEPTH)).decode


def read_json(raw: bytes, max_values: int | None = None) -> Any:
    """The value of a body. Raises ``Malformed`` with what is wrong and where."""
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
    """The value of a body that is written the way we write, spaces aside: then it has every key once, and no NaN.

    And whether it is known to be nested no deeper than usual. It takes a fifth of the time. Whatever is written
    otherwise is left to the careful reader.
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
        raise Malformed(f"the body is not UTF-8: byte {error.start} begins no character") from None
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
    except ValueError:  # a number of thousands of digits
        raise Malformed("the body has a number of more than 64 bits; write it as text") from None
    return value


def write_json(data: Any) -> bytes:
    """The body of an answer. Where it quotes half a character that somebody sent, which JSON can escape, so does it."""
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
    raise Malformed(f"the body has {word}, which is not JSON")


def _read_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Malformed(f"the body has {text[:32]}, which is more than a number can hold")
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
    """Raise ``Malformed`` for an object of too many keys, or too many values in all."""
    count, level = 1, [value] if type(value) in _NESTING else []
    while level:
        for item in level:
            if type(item) is dict and len(item) > MAX_KEYS:
                raise Malformed(
                    f"an object in the body has {len(item)} keys, allowed {MAX_KEYS}; write a list, or less"
                )
        count += sum(map(len, level))
        if max_values is not None and count > max_values:
            raise Malformed(f"the body has more than {max_values} values; send it in parts")
        inner = [item.values() if type(item) is dict else item for item in level]
        level = [item for items in inner for item in items if type(item) in _NESTING]


def _too_deep() -> Malformed:
    return Malformed(f"the body is nested deeper than {MAX_DEPTH} levels")
