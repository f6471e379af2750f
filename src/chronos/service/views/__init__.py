"""What people look at: jobs with their recent runs, runs, logs, nodes, dead letters. Read-only.

The web interface renders these views, the REST API writes them as JSON, and the command line shows them, so that all
three agree. Each view is bounded by what it shows.
"""

from dataclasses import dataclass

from chronos.clock import Clock
from chronos.service.executions import ExecutionService
from chronos.service.jobs import JobService
from chronos.service.views.cluster import ClusterView
from chronos.service.views.dead_letter_groups import DeadLetterGroups
from chronos.service.views.facets import FacetView
from chronos.service.views.job_days import JobDaysView
from chronos.service.views.job_facts import JobFactsView
from chronos.service.views.job_rows import JobRows
from chronos.service.views.log_windows import LogWindows
from chronos.service.views.run_detail import RunDetailView
from chronos.service.views.run_rows import RunRows
from chronos.service.views.run_stats import RunStats
from chronos.service.views.upcoming import UpcomingRuns
from chronos.service.why import WhyService
from chronos.store.contract import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Every view of a store."""

    jobs: JobRows
    facets: FacetView
    job_facts: JobFactsView
    job_days: JobDaysView
    upcoming: UpcomingRuns
    runs: RunRows
    run_detail: RunDetailView
    stats: RunStats
    logs: LogWindows
    cluster: ClusterView
    dead_letters: DeadLetterGroups


def make_views(store: Store, clock: Clock, jobs: JobService, runs: ExecutionService, why: WhyService) -> Views:
    """Make the views of an open store."""
    rows = JobRows(store, clock)
    return Views(
        jobs=rows,
        facets=FacetView(store, clock),
        job_facts=JobFactsView(store, clock, rows, why),
        job_days=JobDaysView(store, clock),
        upcoming=UpcomingRuns(clock),
        runs=RunRows(store, clock),
        run_detail=RunDetailView(store, jobs, runs),
        stats=RunStats(store, clock),
        logs=LogWindows(store),
        cluster=ClusterView(store, clock),
        dead_letters=DeadLetterGroups(store, clock),
    )
