"""Who may use which route: each route of the table with each kind of user.

A new route needs a row here: the table says by path what `Route.level` must come to.
"""

import re
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from tests.management.support import Http, Running

from leveret.management.api import ROUTES
from leveret.management.http import route as levels
from leveret.management.http.route import Route

VHOST = "access/é"
# All but the last three of these have full rights in the vhost.
USERS: dict[str, tuple[str, str] | None] = {
    "management": ("management", "secret"),
    "policymaker": ("policymaker", "secret"),
    "administrator": ("administrator", "secret"),
    "monitoring": ("monitoring", "secret"),
    "stranger": ("stranger", "secret"),
    "untagged": ("untagged", "secret"),
    "wrong password": ("administrator", "wrong"),
    "nobody": None,
}
TAGS = {"stranger": "management", "untagged": ""}

# Who may, and the routes that are for them.
ALL = frozenset(USERS)
TAGGED = frozenset({"management", "policymaker", "administrator", "monitoring", "stranger"})
THOSE_WHO_ENTER = frozenset({"management", "policymaker", "administrator"})
THOSE_WHO_SEE = THOSE_WHO_ENTER | {"monitoring"}
MONITORS = frozenset({"administrator", "monitoring"})
POLICYMAKERS = frozenset({"administrator", "policymaker"})
ADMINISTRATORS = frozenset({"administrator"})

TABLE: dict[frozenset[str], str] = {
    ALL: """
        GET /api/auth
        POST /api/login
        DELETE /api/login
    """,
    TAGGED: """
        GET /api/attention
        GET /api/bindings
        GET /api/session
        GET /api/channels
        GET /api/channels/{channel}
        GET /api/cluster-name
        GET /api/connections
        DELETE /api/connections/{connection}
        GET /api/connections/{connection}
        GET /api/connections/{connection}/channels
        GET /api/consumers
        GET /api/deprecated-features
        GET /api/deprecated-features/used
        GET /api/exchanges
        GET /api/extensions
        GET /api/feature-flags
        GET /api/health/checks/alarms
        GET /api/health/checks/below-node-connection-limit
        GET /api/health/checks/certificate-expiration/{within}/{unit}
        GET /api/health/checks/is-in-service
        GET /api/health/checks/local-alarms
        GET /api/health/checks/metadata-store/initialized
        GET /api/health/checks/metadata-store/initialized/with-data
        GET /api/health/checks/node-is-mirror-sync-critical
        GET /api/health/checks/node-is-quorum-critical
        GET /api/health/checks/port-listener/{port}
        GET /api/health/checks/protocol-listener/{protocol}
        GET /api/health/checks/ready-to-serve-clients
        GET /api/health/checks/virtual-hosts
        GET /api/healthchecks/node
        GET /api/healthchecks/node/{node}
        GET /api/openapi.json
        GET /api/operator-policies
        GET /api/overview
        GET /api/policies
        GET /api/queues
        GET /api/queues/detailed
        GET /api/stream
        GET /api/user-limits
        GET /api/user-limits/{user}
        GET /api/vhost-limits
        GET /api/vhosts
        GET /api/whoami
    """,
    THOSE_WHO_ENTER: """
        GET /api/aliveness-test/{vhost}
        GET /api/bindings/{vhost}
        GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}
        POST /api/bindings/{vhost}/e/{source}/{kind}/{destination}
        DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}
        GET /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}
        GET /api/exchanges/{vhost}
        DELETE /api/exchanges/{vhost}/{exchange}
        GET /api/exchanges/{vhost}/{exchange}
        PUT /api/exchanges/{vhost}/{exchange}
        GET /api/exchanges/{vhost}/{exchange}/bindings/destination
        GET /api/exchanges/{vhost}/{exchange}/bindings/source
        POST /api/exchanges/{vhost}/{exchange}/route
        POST /api/exchanges/{vhost}/{exchange}/publish
        GET /api/operator-policies/{vhost}
        GET /api/policies/{vhost}
        GET /api/queues/{vhost}
        DELETE /api/queues/{vhost}/{queue}
        GET /api/queues/{vhost}/{queue}
        PUT /api/queues/{vhost}/{queue}
        GET /api/queues/{vhost}/{queue}/bindings
        DELETE /api/queues/{vhost}/{queue}/contents
        GET /api/queues/quorum/{vhost}/{queue}/status
        POST /api/queues/{vhost}/{queue}/get
        GET /api/queues/{vhost}/{queue}/deaths
        GET /api/queues/{vhost}/{queue}/search
        GET /api/queues/{vhost}/{queue}/messages
        POST /api/queues/{vhost}/{queue}/move
        POST /api/queues/{vhost}/{queue}/pause
        POST /api/queues/{vhost}/{queue}/replay
        POST /api/queues/{vhost}/{queue}/resume
        GET /api/vhosts/{vhost}
        GET /api/vhosts/{vhost}/channels
        GET /api/vhosts/{vhost}/connections
    """,
    THOSE_WHO_SEE: """
        GET /api/consumers/{vhost}
        GET /api/vhost-limits/{vhost}
    """,
    MONITORS: """
        DELETE /api/auth/attempts/{node}
        GET /api/auth/attempts/{node}
        DELETE /api/auth/attempts/{node}/source
        GET /api/auth/attempts/{node}/source
        GET /api/cluster
        GET /api/log
        GET /api/nodes
        GET /api/nodes/{node}
        GET /api/nodes/{node}/memory
        GET /api/nodes/{node}/memory/ets
        GET /api/nodes/{node}/memory/ets/relative
        GET /api/nodes/{node}/memory/ets/{filter}
        GET /api/nodes/{node}/memory/ets/{filter}/relative
        GET /api/nodes/{node}/memory/relative
        GET /api/shovels
        GET /api/shovels/vhost/{vhost}/{name}
        GET /api/shovels/{vhost}
    """,
    POLICYMAKERS: """
        GET /api/global-parameters
        GET /api/global-parameters/{name}
        PUT /api/global-parameters/{name}
        DELETE /api/global-parameters/{name}
        GET /api/parameters
        GET /api/parameters/{component}
        GET /api/parameters/{component}/{vhost}
        GET /api/parameters/{component}/{vhost}/{name}
        PUT /api/parameters/{component}/{vhost}/{name}
        DELETE /api/parameters/{component}/{vhost}/{name}
        GET /api/policies/{vhost}/{name}
        POST /api/policies/{vhost}/{name}/preview
        PUT /api/policies/{vhost}/{name}
        DELETE /api/policies/{vhost}/{name}
        DELETE /api/shovels/vhost/{vhost}/{name}
        DELETE /api/shovels/vhost/{vhost}/{name}/restart
    """,
    ADMINISTRATORS: """
        DELETE /api/cluster/nodes/{node}
        GET /api/all-configuration
        POST /api/all-configuration
        GET /api/auth/hash_password/{password}
        PUT /api/cluster-name
        GET /api/config/effective
        GET /api/definitions
        POST /api/definitions
        GET /api/definitions/{vhost}
        POST /api/definitions/{vhost}
        PUT /api/feature-flags/{name}/enable
        POST /api/leveret/authenticate
        PUT /api/leveret/settings
        POST /api/leveret/stop
        DELETE /api/operator-policies/{vhost}/{name}
        GET /api/operator-policies/{vhost}/{name}
        POST /api/operator-policies/{vhost}/{name}/preview
        PUT /api/operator-policies/{vhost}/{name}
        GET /api/permissions
        DELETE /api/permissions/{vhost}/{user}
        GET /api/permissions/{vhost}/{user}
        PUT /api/permissions/{vhost}/{user}
        POST /api/queues/{vhost}/{queue}/actions
        POST /api/queues/quorum/replicas/on/{node}/grow
        DELETE /api/queues/quorum/replicas/on/{node}/shrink
        POST /api/queues/quorum/{vhost}/{queue}/replicas/add
        DELETE /api/queues/quorum/{vhost}/{queue}/replicas/delete
        POST /api/rebalance/queues
        DELETE /api/reset
        DELETE /api/reset/{node}
        GET /api/top/{node}
        GET /api/topic-permissions
        DELETE /api/topic-permissions/{vhost}/{user}
        GET /api/topic-permissions/{vhost}/{user}
        PUT /api/topic-permissions/{vhost}/{user}
        DELETE /api/topic-permissions/{vhost}/{user}/{exchange}
        GET /api/topic-permissions/{vhost}/{user}/{exchange}
        DELETE /api/user-limits/{user}/{name}
        PUT /api/user-limits/{user}/{name}
        GET /api/tokens
        POST /api/tokens
        DELETE /api/tokens/{token}
        GET /api/users
        POST /api/users/bulk-delete
        GET /api/users/without-permissions
        DELETE /api/users/{user}
        GET /api/users/{user}
        PUT /api/users/{user}
        GET /api/users/{user}/permissions
        GET /api/users/{user}/topic-permissions
        DELETE /api/vhost-limits/{vhost}/{name}
        PUT /api/vhost-limits/{vhost}/{name}
        DELETE /api/vhosts/{vhost}
        PUT /api/vhosts/{vhost}
        GET /api/vhosts/{vhost}/permissions
        POST /api/vhosts/{vhost}/start/{node}
        GET /api/vhosts/{vhost}/topic-permissions
    """,
}
# These are for anybody with a tag, and then for one's own connections, unless one may see or end all.
OWN = {"GET /api/connections/username/{user}": MONITORS, "DELETE /api/connections/username/{user}": ADMINISTRATORS}
ALLOWED = {row.strip(): who for who, rows in TABLE.items() for row in rows.strip().splitlines()} | OWN

# Without a body of its own, a route gets an empty one.
BODIES = {"POST /api/login": urlencode({"username": "administrator", "password": "secret"}).encode()}
# One that would go on and on is asked for one answer.
QUERIES = {"/api/stream": "?count=1"}
PARTS = {"vhost": VHOST, "within": "1", "unit": "days"}


def title(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def people(broker: Running) -> Iterator[None]:
    http = broker.http()
    for name in ("management", "policymaker", "administrator", "monitoring", "stranger", "untagged"):
        body = {"password": "secret", "tags": TAGS.get(name, name)}
        assert http.put(f"/api/users/{name}", body).status == 201
    yield
    http.post("/api/users/bulk-delete", {"users": list(USERS)})


@pytest.fixture
def place(broker: Running, people: None) -> Iterator[Http]:
    """The vhost, whatever the last route has done to it."""
    http = broker.http()
    vhost = quote(VHOST, safe="")
    assert http.put(f"/api/vhosts/{vhost}").status in (201, 204)
    for name in THOSE_WHO_ENTER:
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        assert http.put(f"/api/permissions/{vhost}/{name}", rights).status in (201, 204)
    yield http
    http.delete(f"/api/vhosts/{vhost}")


def test_every_route_has_a_row() -> None:
    """SPEC §9.1: routes, each once."""
    assert sorted(ALLOWED) == sorted(title(route) for route in ROUTES)
    assert len(ALLOWED) == len(OWN) + sum(len(rows.strip().splitlines()) for rows in TABLE.values())


@pytest.mark.parametrize("route", ROUTES, ids=title)
def test_level_comes_to_what_the_table_says(route: Route) -> None:
    """SPEC §7.2 what tags allow"""
    inside = "{vhost}" in route.path
    assert (TAGGED if title(route) in OWN else ALLOWED[title(route)]) == {
        levels.ANYONE: ALL,
        levels.USER: TAGGED,
        levels.MONITOR: MONITORS,
        levels.POLICYMAKER: POLICYMAKERS,
        levels.GLOBAL_POLICYMAKER: POLICYMAKERS,
        levels.ADMINISTRATOR: ADMINISTRATORS,
        levels.VHOST: THOSE_WHO_ENTER if inside else TAGGED,
        levels.VISIBLE: THOSE_WHO_SEE if inside else TAGGED,
    }[route.level]


@pytest.mark.parametrize("route", ROUTES, ids=title)
def test_route_lets_in_whom_it_should(route: Route, broker: Running, place: Http) -> None:
    """SPEC §9.1: who may; SPEC §7.2 what tags allow"""
    path = re.sub(r"\{(\w+)\}", lambda part: quote(PARTS.get(part[1], "none"), safe=""), route.path)
    path += QUERIES.get(route.path, "")
    body = BODIES.get(title(route), b"" if route.method in ("GET", "DELETE") else b"{}")
    answers = {}
    for kind, login in USERS.items():
        http = broker.http(None) if login is None else broker.http(*login)
        answers[kind] = http.ask(route.method, path, body)
    assert {kind for kind, answer in answers.items() if answer.status != 401} == ALLOWED[title(route)]
    for kind, answer in answers.items():
        if kind in ALLOWED[title(route)]:
            assert answer.status in (200, 201, 202, 204, 400, 404, 503), (kind, answer.status, answer.body)
        else:
            assert answer.json.keys() == {"error", "reason"}
            assert answer.headers["WWW-Authenticate"].startswith("Basic ")


def test_policymaker_needs_rights_in_the_vhost(broker: Running, place: Http) -> None:
    """SPEC §9.1: a policymaker of one vhost has nothing to say in another."""
    body = {"pattern": "", "definition": {"max-length": 1}}
    http = broker.http("policymaker", "secret")
    assert http.put(f"/api/policies/{quote(VHOST, safe='')}/p", body).status == 201
    assert http.put("/api/policies/%2F/p", body).status == 401
    assert [one["vhost"] for one in http.get("/api/policies")] == [VHOST]


def test_lists_show_what_a_user_may_see(broker: Running, place: Http) -> None:
    """SPEC §9.1: vhosts that a user may not enter are not in its lists."""
    place.put(f"/api/policies/{quote(VHOST, safe='')}/p", {"pattern": "", "definition": {"max-length": 1}})
    place.put(f"/api/vhost-limits/{quote(VHOST, safe='')}/max-queues", {"value": 5})

    def seen(name: str, path: str) -> bool:
        return VHOST in [one.get("vhost", one.get("name")) for one in broker.http(name, "secret").get(path)]

    assert [seen(name, "/api/policies") for name in ("management", "monitoring", "stranger")] == [True, False, False]
    for path in ("/api/vhost-limits", "/api/vhosts"):
        assert [seen(name, path) for name in ("management", "monitoring", "stranger")] == [True, True, False]
