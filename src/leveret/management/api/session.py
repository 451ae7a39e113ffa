"""What the web page needs to know of who looks at it, and the end of its login."""

from http.cookies import SimpleCookie

from leveret import __version__
from leveret.management.api.permissions import permission_view
from leveret.management.http.answer import Answer
from leveret.management.http.json import JsonObject
from leveret.management.http.login import COOKIE
from leveret.management.http.request import Request
from leveret.management.http.route import ANYONE, USER, Route


def get_session(request: Request) -> JsonObject:
    """The user who asks, with its permissions, and the vhosts that it may see."""
    vhosts = request.vhosts(visible=True)
    granted = (request.user.rights_in(vhost.name) for vhost in vhosts)
    return {
        "name": request.user.name,
        "tags": list(request.user.tags),
        "vhosts": sorted(vhost.name for vhost in vhosts),
        "permissions": [permission_view(rights) for rights in granted if rights.granted],
        "cluster_name": request.broker.cluster_name,
        "node": request.broker.settings.node_name,
        "version": __version__,
    }


def delete_login(request: Request) -> Answer:
    """Log out: the web page's cookie is taken back, and good for nothing any more."""
    cookie = SimpleCookie(request.headers.get("Cookie", "")).get(COOKIE)
    if cookie is not None:
        request.node.sessions.end(cookie.value)
    return Answer(None, 204, {"Set-Cookie": f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"})


ROUTES = [
    Route("GET", "/api/session", USER, get_session),
    Route("DELETE", "/api/login", ANYONE, delete_login),
]
