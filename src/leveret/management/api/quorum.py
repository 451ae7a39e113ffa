"""Replicas of quorum queues: each has one, on this node, and it is the leader."""

from leveret.broker.arguments import queue_type
from leveret.broker.queue import Queue
from leveret.management.api.queues import find_queue
from leveret.management.http.answer import Answer, Refused, done
from leveret.management.http.json import JsonObject
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, VHOST, Result, Route

ACCEPTED = 202
# Of RabbitMQ 3.13.
MACHINE_VERSION = 3


def get_status(request: Request) -> Result:
    """The state of a quorum queue's only replica."""
    queue = find_queue(request)
    if queue_type(queue.arguments) != "quorum":
        return Answer({"status": "failed", "reason": "classic_queue_not_supported"}, 503)
    last = queue.next_seq - 1
    view: JsonObject = {"Node Name": request.broker.settings.node_name, "Raft State": "leader", "Membership": "voter"}
    view |= dict.fromkeys(("Last Log Index", "Last Written", "Last Applied", "Commit Index"), last)
    return [{**view, "Snapshot Index": 0, "Term": 1, "Machine Version": MACHINE_VERSION}]


def add_replica(request: Request) -> Result:
    """Add a replica of a quorum queue on a node; this one has it already."""
    quorum_queue(request)
    (node,) = request.need("node")
    if node != request.broker.settings.node_name:
        raise Refused(503, "node_not_running")
    return done()


def delete_replica(request: Request) -> Result:
    """Remove a replica of a quorum queue from a node; the only one stays."""
    quorum_queue(request)
    (node,) = request.need("node")
    if node == request.broker.settings.node_name:
        raise Refused(503, "last_node")
    return Answer(None, ACCEPTED)


def grow(request: Request) -> Result:
    """Add replicas of quorum queues on a node; this one has them already."""
    request.check_node()
    request.need("vhost_pattern", "queue_pattern", "strategy")
    return done()


def shrink(request: Request) -> Result:
    """Remove replicas of quorum queues from a node; the only ones stay."""
    return Answer(None, ACCEPTED)


def quorum_queue(request: Request) -> Queue:
    queue = find_queue(request)
    if queue_type(queue.arguments) != "quorum":
        raise Refused(503, "classic_queue_not_supported")
    return queue


ROUTES = [
    Route("POST", "/api/queues/quorum/replicas/on/{node}/grow", ADMINISTRATOR, grow),
    Route("DELETE", "/api/queues/quorum/replicas/on/{node}/shrink", ADMINISTRATOR, shrink),
    Route("GET", "/api/queues/quorum/{vhost}/{queue}/status", VHOST, get_status),
    Route("POST", "/api/queues/quorum/{vhost}/{queue}/replicas/add", ADMINISTRATOR, add_replica),
    Route("DELETE", "/api/queues/quorum/{vhost}/{queue}/replicas/delete", ADMINISTRATOR, delete_replica),
]
