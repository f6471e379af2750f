"""The one table of routes."""

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
from chronos.api.routes import Route

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
