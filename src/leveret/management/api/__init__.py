"""One module for each resource: its routes and what they do. Here they are put together."""

from leveret.management.api import (
    bindings,
    channels,
    connections,
    consumers,
    exchanges,
    messages,
    nodes,
    overview,
    queues,
    vhosts,
)
from leveret.management.routes import Route

ROUTES: list[Route] = [
    *bindings.ROUTES,
    *channels.ROUTES,
    *connections.ROUTES,
    *consumers.ROUTES,
    *exchanges.ROUTES,
    *messages.ROUTES,
    *nodes.ROUTES,
    *overview.ROUTES,
    *queues.ROUTES,
    *vhosts.ROUTES,
]
