"""Measurements beside other libraries: each ``bench_*.py`` here has ``run() -> list[Row]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing measured: our figure, and those of others for the same work in the same run."""

    case: str
    unit: str
    ours: float
    others: Mapping[str, float] = field(default_factory=dict)
    higher_is_better: bool = False

    def ratio(self, other: str) -> float:
        """How many times better we are than ``other``; below 1 we are worse."""
        theirs = self.others[other]
        return self.ours / theirs if self.higher_is_better else theirs / self.ours
