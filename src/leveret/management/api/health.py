"""Whether the broker is well: each check answers 200, or 503 and why not."""

from typing import Any

from leveret.broker.message import Message, new_message
from leveret.broker.rewriting import make_origin
from leveret.broker.vhost import VirtualHost
from leveret.management.answers import Answer, bad_request
from leveret.management.api.nodes import protocols
from leveret.management.api.users import check_node
from leveret.management.asking import Ask
from leveret.management.routes import USER, VHOST, Result, Route
from leveret.wire.content import check_properties, frame_content
from leveret.wire.properties import Properties, encode_properties

QUEUE = "aliveness-test"
BODY = b"test_message"
BASIC_CLASS = 60

RESOURCES = {"low on memory": "memory", "low on disk": "disk"}
UNITS = ("days", "weeks", "months", "years")
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


def well(**facts: Any) -> Result:
    return {"status": "ok", **facts}


def unwell(reason: str, **facts: Any) -> Answer:
    return Answer({"status": "failed", "reason": reason, **facts}, 503)


def resources_low(ask: Ask) -> list[str]:
    """What publishers are stopped for."""
    return [RESOURCES.get(reason, reason) for reason in ask.broker.alarm.split(" & ") if reason]


def check_alarms(ask: Ask) -> Result:
    """Whether memory or disk space runs low anywhere."""
    return alarms(ask, "in the cluster")


def check_local_alarms(ask: Ask) -> Result:
    """Whether memory or disk space runs low here."""
    return alarms(ask, "on the node")


def alarms(ask: Ask, where: str) -> Result:
    low = resources_low(ask)
    node = ask.broker.settings.node_name
    if not low:
        return well()
    return unwell(f"There are alarms in effect {where}", alarms=[{"node": node, "resource": one} for one in low])


def check_certificates(ask: Ask) -> Result:
    """Whether a certificate expires soon."""
    if not ask.path["within"].lstrip("+-").isdecimal():
        raise bad_request("Invalid expiration value.")
    if ask.path["unit"].lower() not in UNITS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    return well()


def check_port(ask: Ask) -> Result:
    """Whether something listens on a port."""
    ports = [one.port for one in ask.node.listeners]
    if not ask.path["port"].isdecimal():
        raise bad_request("Invalid port")
    port = int(ask.path["port"])
    return well(port=port) if port in ports else unwell("No active listener", missing=port, ports=ports)


def check_protocol(ask: Ask) -> Result:
    """Whether a protocol is listened for, or each of several."""
    names = [name for name, _, _ in protocols(ask.node)]
    wanted = [PROTOCOLS.get(name.lower(), name.lower()) for name in ask.path["protocol"].split(",")]
    missing = [name for name in wanted if name not in names]
    if missing:
        return unwell("No active listener", missing=",".join(missing), protocols=names)
    return well(protocol=",".join(wanted))


def check_well(ask: Ask) -> Result:
    """What cannot be otherwise while the broker answers."""
    return well()


def check_single_node(ask: Ask) -> Result:
    """Whether other nodes can do without this one."""
    return well(reason="single node cluster")


def check_node_health(ask: Ask) -> Result:
    """Whether the node is well, as old clients ask."""
    if "node" in ask.path:
        check_node(ask)
    low = resources_low(ask)
    return unwell(f"resource alarm(s) in effect:[{','.join(low)}]") if low else well()


async def check_aliveness(ask: Ask) -> Result:
    """Publish a message to the queue aliveness-test, and get it, with the user's rights."""
    vhost = ask.vhost
    rights = ask.rights
    rights.check_queue("configure", QUEUE)
    rights.check_exchange("write", "")
    rights.check_queue("read", QUEUE)
    alive = await ask.change(try_queue, vhost, ask)
    return well() if alive else unwell("aliveness-test queue is empty")


def try_queue(vhost: VirtualHost, ask: Ask) -> bool:
    queue = vhost.declare_queue(QUEUE)
    vhost.publish(vhost.exchanges[""], aliveness_message(), ask.broker.work.now)
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
