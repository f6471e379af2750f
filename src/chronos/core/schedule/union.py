"""Unions: several expressions in one schedule, which runs when one of them does.

As text, the expressions are joined by ``; also ``: "Daily at 09:00, UTC; also Mondays at 17:30, UTC". Between double
quotes it joins nothing, so the argument of a custom schedule may contain it. Each expression is a complete schedule,
with its own zone, window and exclusions.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronos.core.schedule.schedule import Schedule

MAX_EXPRESSIONS = 100
_SEPARATOR = "; also "
_QUOTED_OR_SEPARATOR = re.compile(r'"[^"]*"|(?P<separator>;[ \t]*also[ \t]+)', re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UnionRule:
    """The instants of all members, each once. ``anchor_us`` is the start that ``anchor`` gave to the members."""

    members: "tuple[Schedule, ...]"
    anchor_us: int | None = field(default=None, compare=False)

    @property
    def anchored(self) -> bool:
        """Whether the instants of every member are fixed."""
        return all(member.anchored for member in self.members)

    def anchor(self, start_us: int) -> "UnionRule":
        """Return the union with every member counted from ``start_us`` that has no start."""
        return UnionRule(tuple(member.anchor(start_us) for member in self.members), start_us)

    def next_us(self, after_us: int) -> int | None:
        """Return the first instant of a member strictly after ``after_us``."""
        found = [next_us for member in self.members if (next_us := member.next_us(after_us)) is not None]
        return min(found, default=None)

    def count_us(self, after_us: int, until_us: int) -> int | None:
        """Return None: instants that members share are counted once, so counting requires a walk."""
        return None

    def due_us(self, scheduled_us: int) -> int:
        """Return when an instant is due: the earliest time among the members that have it."""
        due = [m.due_us(scheduled_us) for m in self.members if m.next_us(scheduled_us - 1) == scheduled_us]
        return min(due, default=scheduled_us)


def join_expressions(expressions: "Iterable[str]") -> str:
    """Return the text of a union; of a single expression, the expression itself."""
    return _SEPARATOR.join(expressions)


def split_expressions(text: str) -> list[tuple[str, int]]:
    """Return the expressions of a union as written, each with its position; the text itself if it is only one."""
    parts: list[tuple[str, int]] = []
    at = 0
    for match in _QUOTED_OR_SEPARATOR.finditer(text):
        if match["separator"]:
            parts.append((text[at : match.start()], at))
            at = match.end()
    return [*parts, (text[at:], at)]
