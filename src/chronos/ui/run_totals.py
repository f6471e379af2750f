"""Totals of the last 24 hours: how many runs ended, and how; with the pulse that draws them."""

from dataclasses import dataclass

from chronos.core.execution import Status
from chronos.service.views.run_rows import FAILED, NOT_RUN
from chronos.service.views.run_stats import RunStatsAnswer
from chronos.ui.time_text import DAY_US, MINUTE_US
from chronos.ui.visit import Visit

BUCKET_US = 15 * MINUTE_US


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """Runs that ended in the last 24 hours. ``stats`` has them per quarter of an hour."""

    stats: RunStatsAnswer
    finished: int  # without those that were skipped or missed
    failed: int
    not_run: int
    is_capped: bool

    @property
    def success_rate(self) -> str | None:
        """``99.1%``, or None if nothing has finished."""
        if not self.finished:
            return None
        share = 100 * (self.finished - self.failed) / self.finished
        return "100%" if share == 100 else f"{int(share * 10) / 10:.1f}%"


async def read_totals(visit: Visit) -> RunTotals | None:
    """Return the totals of a namespace; None while they are being counted."""
    stats = await visit.ui.service.views.stats.runs(
        visit.now_us - DAY_US, visit.now_us, BUCKET_US, namespace=visit.namespace
    )
    if not stats.complete:
        return None
    totals = stats.totals
    not_run = sum(totals.get(status, 0) for status in NOT_RUN)
    canceled = totals.get(Status.CANCELED, 0)
    return RunTotals(
        stats=stats,
        finished=sum(totals.values()) - not_run - canceled,
        failed=sum(totals.get(status, 0) for status in FAILED),
        not_run=not_run,
        is_capped=any(bucket.capped for bucket in stats.buckets),
    )
