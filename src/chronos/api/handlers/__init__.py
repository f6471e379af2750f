"""The one table of routes."""

from dataclasses import replace

from chronos.api import (
    actions,
    asking,
    bulk,
    deadletters,
    events,
    executions,
    guide,
    jobs,
    schedule,
    switches,
    system,
    tokens,
    versions,
)
from chronos.api.routes import V1, Route
from chronos.errors import Invalid

ROUTES: tuple[Route, ...] = (
    *jobs.ROUTES,
    *bulk.ROUTES,
    *actions.ROUTES,
    *switches.ROUTES,
    *versions.ROUTES,
    *asking.ROUTES,
    *executions.ROUTES,
    *events.ROUTES,
    *deadletters.ROUTES,
    *schedule.ROUTES,
    *system.ROUTES,
    *tokens.ROUTES,
    *guide.ROUTES,
)


def routes_with(metrics_path: str | None) -> tuple[Route, ...]:
    """The table with the metrics at another path, or without them. Raises ``Invalid`` where the path is taken."""
    if metrics_path == system.METRICS.path:
        return ROUTES
    others = tuple(route for route in ROUTES if route is not system.METRICS)
    if metrics_path is None:
        return others
    if any(metrics_path == route.path for route in others) or metrics_path.startswith(f"{V1}/"):
        raise Invalid(f'metrics.prometheus.path is "{metrics_path}", where the API answers; choose another')
    return (*others, replace(system.METRICS, path=metrics_path))
