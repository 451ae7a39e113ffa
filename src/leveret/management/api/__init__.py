"""One module for each resource: its routes and what they do. Here they are put together."""

from leveret.management.api import bindings, exchanges, messages, overview, queues, vhosts
from leveret.management.routes import Route

ROUTES: list[Route] = [
    *bindings.ROUTES,
    *exchanges.ROUTES,
    *messages.ROUTES,
    *overview.ROUTES,
    *queues.ROUTES,
    *vhosts.ROUTES,
]
