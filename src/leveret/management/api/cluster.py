"""The cluster that this node is in: who belongs to it, and who is to be forgotten."""

from leveret.management.http.answer import done, not_found
from leveret.management.http.json import JsonObject
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, MONITOR, Result, Route


def node_names(request: Request) -> list[str]:
    """All nodes, this one first."""
    own = request.broker.settings.node_name
    cluster = request.node.cluster
    return [own] if cluster is None else [own, *sorted(set(cluster.members.known) - {own})]


def is_running(request: Request, name: str) -> bool:
    cluster = request.node.cluster
    return name == request.broker.settings.node_name or (cluster is not None and cluster.is_running(name))


def get_cluster(request: Request) -> Result:
    """The cluster: its nodes, how many changes this one has applied, and a digest of all definitions, equal on all nodes."""
    cluster = request.node.cluster
    view: JsonObject = {"name": request.broker.cluster_name, "node": request.broker.settings.node_name}
    view["nodes"] = [{"name": name, "running": is_running(request, name)} for name in node_names(request)]
    if cluster is not None:
        view |= {"applied": cluster.definitions.applied, "digest": cluster.digest()}
    return view


async def delete_node(request: Request) -> Result:
    """Forget a node that will not come back, with its queues. It must not be running."""
    if request.node.cluster is None:
        raise not_found()
    node = request.path["node"]
    await request.node.agreed(request.node.cluster.forget(node))
    await request.node.cluster.let_go(node)
    return done()


ROUTES = [
    Route("GET", "/api/cluster", MONITOR, get_cluster),
    Route("DELETE", "/api/cluster/nodes/{node}", ADMINISTRATOR, delete_node),
]
