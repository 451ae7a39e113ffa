"""One module for each resource: its routes and what they do. Here they are put together."""

from leveret.management.api import (
    channels,
    connections,
    consumers,
    nodes,
    overview,
    vhosts,
)
from leveret.management.routes import Route

ROUTES: list[Route] = [
    *channels.ROUTES,
    *connections.ROUTES,
    *consumers.ROUTES,
    *nodes.ROUTES,
    *overview.ROUTES,
    *vhosts.ROUTES,
]
