"""One module for each resource: its routes and what they do. Here they are put together."""

from leveret.management.api import (
    bindings,
    channels,
    connections,
    consumers,
    control,
    definitions,
    description,
    exchanges,
    features,
    health,
    limits,
    messages,
    nodes,
    overview,
    parameters,
    permissions,
    policies,
    queues,
    users,
    vhosts,
)
from leveret.management.routes import Route

# Asked without a login, and on a port of their own too.
METRICS: list[Route] = []

ROUTES: list[Route] = [
    *bindings.ROUTES,
    *channels.ROUTES,
    *connections.ROUTES,
    *consumers.ROUTES,
    *control.ROUTES,
    *definitions.ROUTES,
    *description.ROUTES,
    *exchanges.ROUTES,
    *features.ROUTES,
    *health.ROUTES,
    *limits.ROUTES,
    *messages.ROUTES,
    *nodes.ROUTES,
    *overview.ROUTES,
    *parameters.ROUTES,
    *permissions.ROUTES,
    *policies.ROUTES,
    *queues.ROUTES,
    *users.ROUTES,
    *vhosts.ROUTES,
    *METRICS,
]
