"""Health checks: each answers 200, or 503 and the reason."""

import re

from leveret.broker.message import Message, new_message
from leveret.broker.rewrite import make_origin
from leveret.broker.vhost import VirtualHost
from leveret.management.api.cluster import is_running
from leveret.management.api.nodes import protocols
from leveret.management.http.answer import Answer, bad_request
from leveret.management.http.json import Json
from leveret.management.http.request import Request
from leveret.management.http.route import USER, VHOST, Result, Route
from leveret.protocol.certificate import iso_time
from leveret.server.clock import now_ms
from leveret.wire.content import check_properties, frame_content
from leveret.wire.properties import Properties, encode_properties

QUEUE = "aliveness-test"
BODY = b"test_message"
BASIC_CLASS = 60

RESOURCES = {"low on memory": "memory", "low on disk": "disk"}
WITHIN = re.compile(r"[+-]?[0-9]{1,9}")
# In seconds.
UNITS = {"days": 86_400, "weeks": 7 * 86_400, "months": 30 * 86_400, "years": 365 * 86_400}
# RabbitMQ: other names of what listens.
PROTOCOLS = {
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp0-9-1": "amqp",
    "amqp0_9_1": "amqp",
    "amqp10": "amqp",
    "amqp1.0": "amqp",
    "amqp1-0": "amqp",
    "amqp1_0": "amqp",
    "amqps": "amqp/ssl",
    "http1": "http",
    "http1.1": "http",
    "http_api": "http",
    "management": "http",
    "management_ui": "http",
    "ui": "http",
    "cli": "clustering",
    "distribution": "clustering",
}


def ok(**facts: Json) -> Result:
    return {"status": "ok", **facts}


def failed(reason: str, **facts: Json) -> Answer:
    return Answer({"status": "failed", "reason": reason, **facts}, 503)


def resources_low(request: Request) -> list[str]:
    """What publishers are stopped for."""
    return [RESOURCES.get(reason, reason) for reason in request.broker.alarm.split(" & ") if reason]


def check_alarms(request: Request) -> Result:
    """Check for memory and disk alarms in the cluster."""
    return alarms(request, "in the cluster")


def check_local_alarms(request: Request) -> Result:
    """Check for memory and disk alarms on this node."""
    return alarms(request, "on the node")


def alarms(request: Request, where: str) -> Result:
    low = resources_low(request)
    node = request.broker.settings.node_name
    if not low:
        return ok()
    return failed(f"There are alarms in effect {where}", alarms=[{"node": node, "resource": one} for one in low])


def check_certificates(request: Request) -> Result:
    """Check whether a TLS certificate expires soon."""
    if not WITHIN.fullmatch(request.path["within"]):
        raise bad_request("Invalid expiration value.")
    if request.path["unit"].lower() not in UNITS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    tls = request.node.tls
    until_s = now_ms() / 1000 + int(request.path["within"]) * UNITS[request.path["unit"].lower()]
    ending = {} if tls is None else tls.certificates.ending(until_s)
    return failed("Certificates expiring", expired=expired_view(request, ending)) if ending else ok()


def expired_view(request: Request, ending: dict[str, str]) -> list[Json]:
    """Each listener that has certificates which end, with these."""
    settings, node = request.node.config.tls, request.broker.settings.node_name
    authority = {path: end for path, end in ending.items() if path == settings.ca}
    own = {path: end for path, end in ending.items() if path not in authority}
    return [
        {
            "node": node,
            "interface": host,
            "port": port,
            "protocol": protocol,
            "certfile": settings.certificate,
            "certfile_expires_on": [shown_time(end) for end in own.values()],
            "cacertfile": settings.ca,
            "cacertfile_expires_on": [shown_time(end) for end in authority.values()],
        }
        for protocol, host, port in protocols(request.node)
        if protocol.startswith(("amqp/ssl", "https"))
    ]


def shown_time(end: str) -> str:
    """A certificate's end as RabbitMQ writes it here: `2026-04-01 19:31:01`."""
    return iso_time(end).replace("T", " ").removesuffix("Z")


def check_port(request: Request) -> Result:
    """Check for a listener on a port."""
    ports = [one.port for one in request.node.listeners]
    if not request.path["port"].isdecimal():
        raise bad_request("Invalid port")
    port = int(request.path["port"])
    return ok(port=port) if port in ports else failed("No active listener", missing=port, ports=ports)


def check_protocol(request: Request) -> Result:
    """Check for listeners of a protocol, or of several separated by commas."""
    names = [name for name, _, _ in protocols(request.node)]
    wanted = [PROTOCOLS.get(name.lower(), name.lower()) for name in request.path["protocol"].split(",")]
    missing = [name for name in wanted if name not in names]
    if missing:
        return failed("No active listener", missing=",".join(missing), protocols=names)
    return ok(protocol=",".join(wanted))


def check_well(request: Request) -> Result:
    """A check that always succeeds while the broker answers."""
    return ok()


def check_single_node(request: Request) -> Result:
    """Check whether other nodes can do without this one."""
    return ok(reason="single node cluster")


def check_node_health(request: Request) -> Result:
    """Health check of the node, in its old form."""
    if "node" in request.path:
        request.check_node()
    low = resources_low(request)
    return failed(f"resource alarm(s) in effect:[{','.join(low)}]") if low else ok()


async def check_aliveness(request: Request) -> Result:
    """Declare the queue aliveness-test, publish a message to it and get it, with the user's permissions."""
    vhost = request.vhost
    rights = request.rights
    rights.check_queue("configure", QUEUE)
    rights.check_exchange("write", "")
    rights.check_queue("read", QUEUE)
    alive = await request.change(try_queue, vhost, request)
    return ok() if alive else failed("aliveness-test queue is empty")


def try_queue(vhost: VirtualHost, request: Request) -> bool:
    queue = vhost.declare_queue(QUEUE)
    if queue.away:
        # Its own node tries it.
        return is_running(request, queue.home)
    vhost.publish(vhost.exchanges[""], aliveness_message(), request.broker.now)
    # RabbitMQ: the queue stays, since whoever asks will do so again.
    return queue.take(no_ack=True) is not None


def aliveness_message() -> Message:
    header = b"".join(number.to_bytes(size, "big") for number, size in ((BASIC_CLASS, 2), (0, 2), (len(BODY), 8)))
    header += encode_properties(Properties())
    content = frame_content(header, BODY, len(BODY))
    flags = check_properties(content, len(header))
    return new_message(make_origin("", QUEUE), content, len(header), len(BODY), len(BODY), flags)


CHECKS = "/api/health/checks"
ROUTES = [
    Route("GET", "/api/aliveness-test/{vhost}", VHOST, check_aliveness),
    Route("GET", "/api/healthchecks/node", USER, check_node_health),
    Route("GET", "/api/healthchecks/node/{node}", USER, check_node_health),
    Route("GET", f"{CHECKS}/alarms", USER, check_alarms),
    Route("GET", f"{CHECKS}/local-alarms", USER, check_local_alarms),
    Route("GET", f"{CHECKS}/certificate-expiration/{{within}}/{{unit}}", USER, check_certificates),
    Route("GET", f"{CHECKS}/port-listener/{{port}}", USER, check_port),
    Route("GET", f"{CHECKS}/protocol-listener/{{protocol}}", USER, check_protocol),
    Route("GET", f"{CHECKS}/virtual-hosts", USER, check_well),
    Route("GET", f"{CHECKS}/node-is-mirror-sync-critical", USER, check_single_node),
    Route("GET", f"{CHECKS}/node-is-quorum-critical", USER, check_single_node),
    # RabbitMQ 4.
    Route("GET", f"{CHECKS}/below-node-connection-limit", USER, check_well),
    Route("GET", f"{CHECKS}/is-in-service", USER, check_well),
    Route("GET", f"{CHECKS}/metadata-store/initialized", USER, check_well),
    Route("GET", f"{CHECKS}/metadata-store/initialized/with-data", USER, check_well),
    Route("GET", f"{CHECKS}/ready-to-serve-clients", USER, check_well),
]
