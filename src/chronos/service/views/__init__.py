"""What people look at: jobs with their recent runs, runs, logs, nodes, dead letters. Read-only.

The web interface renders these views, the REST API writes them as JSON, and the command line shows them, so that all
three agree. Each view is bounded by what it shows.
"""

from dataclasses import dataclass

from chronos.clock import Clock
from chronos.service.views.job_rows import JobRows
from chronos.store.contract import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """Every view of a store."""

    jobs: JobRows


def make_views(store: Store, clock: Clock) -> Views:
    """Make the views of an open store."""
    return Views(jobs=JobRows(store, clock))
