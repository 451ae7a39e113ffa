"""One module for each resource: its routes and what they do. Here they are put together."""

from leveret.management.api import (
    definitions,
    features,
    health,
    limits,
    overview,
    parameters,
    permissions,
    policies,
    users,
    vhosts,
)
from leveret.management.routes import Route

ROUTES: list[Route] = [
    *definitions.ROUTES,
    *features.ROUTES,
    *health.ROUTES,
    *limits.ROUTES,
    *overview.ROUTES,
    *parameters.ROUTES,
    *permissions.ROUTES,
    *policies.ROUTES,
    *users.ROUTES,
    *vhosts.ROUTES,
]
