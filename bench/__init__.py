"""Benchmarks of Chronos and other libraries. Each ``bench_*.py`` has ``run() -> list[Row]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of a row: a ratio to one of the others, or, if ``against`` is None, a figure of ours."""

    must: float
    aim: float | None = None
    against: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: our figure, and those of others for the same work in the same run."""

    case: str
    unit: str
    ours: float
    others: Mapping[str, float] = field(default_factory=dict)
    higher_is_better: bool = False
    goal: Goal | None = None

    def ratio(self, other: str) -> float:
        """How many times better we are than ``other``; below 1 we are worse."""
        theirs = self.others[other]
        return self.ours / theirs if self.higher_is_better else theirs / self.ours

    def verdict(self) -> str:
        """The row's goal, and whether it was met; empty for a row without a goal."""
        if self.goal is None:
            return ""
        goal, against = self.goal, self.goal.against
        figure = self.ours if against is None else self.ratio(against)
        more = against is not None or self.higher_is_better
        condition = f"{'≥' if more else '≤'} {goal.must:,g} {self.unit if against is None else f'× {against}'}"
        if not _reaches(figure, goal.must, more=more):
            return f"{condition}: missed"
        if goal.aim is None:
            return f"{condition}: met"
        return f"{condition}: met, aim {goal.aim:,g} {'met' if _reaches(figure, goal.aim, more=more) else 'missed'}"


def _reaches(figure: float, goal: float, *, more: bool) -> bool:
    return figure >= goal if more else figure <= goal
