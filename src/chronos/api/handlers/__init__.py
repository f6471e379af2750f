"""The handlers, one module per noun, and the table of their routes.

Code that handlers share belongs in ``chronos.api``; the meaning of an action belongs in ``chronos.service``.
"""

from dataclasses import replace

from chronos.api.handlers import (
    bulk,
    bulk_actions,
    dead_letters,
    effective,
    event_streams,
    executions,
    guide_aliases,
    job_runs,
    job_state,
    jobs,
    one_off_runs,
    overview,
    schedules,
    system,
    tokens,
    versions,
)
from chronos.api.routing import V1, Route
from chronos.errors import Invalid

_TABLES = (
    jobs.route,
    bulk.route,
    bulk_actions.route,
    job_state.route,
    versions.route,
    effective.route,
    job_runs.route,
    executions.route,
    one_off_runs.route,
    event_streams.route,
    dead_letters.route,
    overview.route,
    schedules.route,
    system.root,
    system.route,
    tokens.route,
)
ROUTES: tuple[Route, ...] = (
    *(route for table in _TABLES for route in table.by_handler.values()),
    *guide_aliases.ROUTES,
)


def routes_with(metrics_path: str | None) -> tuple[Route, ...]:
    """Return the routes with the metrics at another path, or without them. Raises ``Invalid`` if the path is taken."""
    metrics = system.root.by_handler[system.metrics]
    if metrics_path == metrics.path:
        return ROUTES
    others = tuple(route for route in ROUTES if route is not metrics)
    if metrics_path is None:
        return others
    if any(metrics_path == route.path for route in others) or metrics_path.startswith(f"{V1}/"):
        raise Invalid(f'metrics.prometheus.path "{metrics_path}" is a path of the API; choose another')
    return (*others, replace(metrics, path=metrics_path))
