"""One module for each resource: its routes and what they do. Here they are put together."""

from leveret.management.api import (
    bindings,
    control,
    definitions,
    exchanges,
    limits,
    messages,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    users,
    vhosts,
)
from leveret.management.routes import Route

ROUTES: list[Route] = [
    *bindings.ROUTES,
    *control.ROUTES,
    *definitions.ROUTES,
    *exchanges.ROUTES,
    *limits.ROUTES,
    *messages.ROUTES,
    *overview.ROUTES,
    *parameters.ROUTES,
    *permissions.ROUTES,
    *policies.ROUTES,
    *queues.ROUTES,
    *users.ROUTES,
    *vhosts.ROUTES,
]
