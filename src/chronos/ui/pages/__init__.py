"""The pages, one module per page, and the table of their addresses.

A page reads from the service and returns a view. HTML belongs in ``chronos.ui.templates``, and what an action means
belongs in ``chronos.service``.
"""

from collections.abc import Awaitable, Callable, Mapping

from chronos.ui.pages import audit, cluster, dead_letters, job, jobs, run, runs
from chronos.ui.visit import PlainText, Redirect, View, Visit

#: The page of each address, in the syntax of aiohttp.
PAGES: Mapping[str, Callable[[Visit], Awaitable[View | PlainText | Redirect]]] = {
    "/jobs": jobs.show,
    "/jobs/{name}": job.show_overview,
    "/jobs/{name}/runs": job.show_runs,
    "/jobs/{name}/versions": job.show_versions,
    "/jobs/{name}/definition": job.show_definition,
    "/jobs/{name}/why": job.show_why,
    "/runs": runs.show,
    "/runs/{id}": run.show,
    "/runs/{id}/log": run.show_raw_log,
    "/dead-letters": dead_letters.show,
    "/cluster": cluster.show,
    "/audit": audit.show,
}
