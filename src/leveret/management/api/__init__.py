"""One module for each resource: its routes and what they do. Here they are put together."""

from leveret.management.api import control, overview, vhosts
from leveret.management.routes import Route

ROUTES: list[Route] = [
    *control.ROUTES,
    *overview.ROUTES,
    *vhosts.ROUTES,
]
