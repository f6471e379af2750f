"""Answers in the format asked for. JSON and YAML are exactly what the server said; a table is for people."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chronos.cli.output import emit, emit_json, emit_table, note

Item = Mapping[str, Any]
Cell = Callable[[Item], object] | str  # a str names a field of the item


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """How the items of a list look in a table: those always shown, those of ``wide``, and what names one."""

    usual: Mapping[str, Cell]
    wide: Mapping[str, Cell]
    name: Cell
    none: str  # what is said when there are none

    def name_of(self, item: Item) -> str:
        """What names an item."""
        return _cell_text(self.name, item)


def print_page(page: dict[str, Any], output: str, columns: Columns, *, part: str = "items") -> None:
    """A list, of which there may be more."""
    items = page[part]
    if output == "jsonl":
        emit_json(items, lines=True)
    elif output in ("json", "yaml"):
        print_value(page, output)
    else:
        print_items(items, output, columns)
        if page.get("next_cursor") is not None:
            note(f"… and more; the first {len(items)} are shown (--limit N, or --all)")


def print_items(items: Sequence[Item], output: str, columns: Columns, *, headed: bool = True) -> None:
    """The rows of a list, or their names alone."""
    if output == "name":
        for item in items:
            emit(columns.name_of(item))
        return
    if not items:
        note(columns.none)
        return
    shown = {**columns.usual, **columns.wide} if output == "wide" else columns.usual
    emit_table(list(shown), [[_cell_text(cell, item) for cell in shown.values()] for item in items], headed=headed)


def print_value(value: Any, output: str) -> None:
    """One value as the server gave it."""
    if output == "yaml":
        emit(to_yaml(value).rstrip("\n"))
    else:
        emit_json(value, lines=output == "jsonl")


def print_result(found: Any, output: str, name: str, said: str) -> None:
    """The name of what was changed, and what became of it; in other formats what the server answered."""
    if output in ("table", "wide", "name"):
        emit(name)
        note(said)
    else:
        print_value(found, output)


def print_fields(fields: Mapping[str, object]) -> None:
    """Names and values below each other; what is not there is left out."""
    said = {
        name: format_cell(value) for name, value in fields.items() if value is not None and value not in ("", [], {})
    }
    width = max((len(name) for name in said), default=0)
    for name, value in said.items():
        first, *rest = value.splitlines() or [""]
        emit(f"{name.ljust(width)}  {first}".rstrip())
        for line in rest:
            emit(f"{' ' * width}  {line}")


def to_yaml(value: Any) -> str:
    """A value as YAML, in the order in which it came."""
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)


def format_cell(value: object) -> str:
    """A cell."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return ", ".join(f"{key}={one}" if one else str(key) for key, one in value.items())
        case list() | tuple():
            return ", ".join(format_cell(one) for one in value)
        case _:
            return str(value)


def _cell_text(cell: Cell, item: Item) -> str:
    return format_cell(item[cell] if isinstance(cell, str) else cell(item))


def format_instant(value: str | None) -> str | None:
    """An instant to the second: ``2027-01-01 09:00:00Z``."""
    if value is None:
        return None
    return f"{value[:19].replace('T', ' ')}Z"


def instant_column(field: str) -> Cell:
    """The cell that shows the instant in a field."""
    return lambda item: format_instant(item[field])


def format_milliseconds(value: float | None) -> str | None:
    """``412ms``, ``5m 58s``."""
    from chronos.core.schedule.durations import format_duration

    return None if value is None else format_duration(round(value * 1_000))


SIGNS = {
    "succeeded": "✓",
    "completed_with_errors": "✓",
    "running": "▶",
    "failed": "✕",
    "timed_out": "✕",
    "lost": "✕",
    "stale": "✕",
    "retrying": "↻",
    "missed": "!",
    "skipped": "⊘",
    "canceled": "⊘",
}


def format_status(word: str | None) -> str:
    """A status with its sign."""
    if word is None:
        return "–"
    return f"{SIGNS.get(word, '·')} {word.replace('_', ' ')}"
