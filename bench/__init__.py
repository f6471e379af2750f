"""Measurements beside other libraries: each ``bench_*.py`` here has ``run() -> list[Row]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a row must reach: a ratio against one of its others, or a figure of our own where ``against`` is None."""

    must: float
    aim: float | None = None
    against: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing measured: our figure, and those of others for the same work in the same run."""

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
        said = f"{'≥' if more else '≤'} {goal.must:,g} {self.unit if against is None else f'× {against}'}"
        if not _reaches(figure, goal.must, more=more):
            return f"{said}: missed"
        if goal.aim is None:
            return f"{said}: met"
        return f"{said}: met, aim {goal.aim:,g} {'met' if _reaches(figure, goal.aim, more=more) else 'missed'}"


def _reaches(figure: float, wanted: float, *, more: bool) -> bool:
    return figure >= wanted if more else figure <= wanted
