"""Metrics of the whole node: the process, the machine, logins, and what was done since the start."""

import platform
import uuid
from typing import TYPE_CHECKING

from leveret import __version__
from leveret.broker.counters import Counters
from leveret.broker.logins import Attempts, Logins
from leveret.management.http.request import Request
from leveret.management.prometheus import family
from leveret.management.prometheus.exposition import PREFIX, Page, label
from leveret.management.statistics.node_stats import (
    IO_NAMES,
    THREADS_MAX,
    alarm_set,
    churn_counts,
    disk_free,
    disk_limit,
    io_counts,
    memory_limit,
)
from leveret.protocol.handshake import SERVER_PROPERTIES
from leveret.server.clock import now_ms
from leveret.server.listener import connections_limit, files_limit
from leveret.server.process_memory import resident_bytes

if TYPE_CHECKING:
    pass

AMQP = "amqp091"
PROTOCOL = f'protocol="{AMQP}"'
# Deliveries are counted by channel, which knows no types of queues: all of them are here.
QUEUE_TYPE = 'queue_type="rabbit_classic_queue"'
STRATEGY = 'dead_letter_strategy="at_most_once"'


async def add_node(page: Page, request: Request) -> None:
    """The process and the machine."""
    node, sampled = request.node, request.statistics.node_counts
    page.add(family.CHURN, list(churn_counts(node).values()))
    memory = (sampled["fd_used"], len(node.transports), resident_bytes(), disk_free(node))
    page.add(family.NODE_COARSE, [*memory, *(sampled[name] for name in COARSE_NAMES)])
    limits = (files_limit(), connections_limit(), memory_limit(node), disk_limit(node), THREADS_MAX, 0, 60)
    page.add(family.NODE, [*limits, (now_ms() - node.started_at) / 1000])
    traffic = node.broker.storage.traffic()
    counts = io_counts(traffic)
    stored = [node.broker.storage.damaged_count, *(counts[name] for name in IO_NAMES)]
    none = [0] * (len(family.PERSISTER) - len(stored) - 3)
    page.add(family.PERSISTER, [*stored, traffic.read_s, traffic.write_s, traffic.sync_s, *none])
    await add_logins(page, request.broker.churn.logins)


async def add_logins(page: Page, logins: Logins) -> None:
    """Login attempts by protocol; AMQP is there even without any."""
    attempts = {AMQP: Attempts(), **logins.protocols}
    rows = [(label(protocol=name), login_values(one)) for name, one in attempts.items()]
    await page.add_rows(family.LOGINS, rows)


def login_values(one: Attempts) -> tuple[int, ...]:
    return one.total, one.succeeded, one.failed


async def add_sources(page: Page, logins: Logins) -> None:
    """Login attempts by address and user, as far as they are known."""
    rows = []
    for (address, name, protocol), one in logins.sources.items():
        known = {"remote_address": address, "username": name, "protocol": protocol}
        rows.append((label(**{key: value for key, value in known.items() if value}), login_values(one)))
    await page.add_rows(family.LOGIN_SOURCES, rows)


COARSE_NAMES = ("proc_used", "gc_num", "gc_bytes_reclaimed", "context_switches")


def add_global(page: Page, request: Request, total: Counters, unconfirmed: int, publishers: int, consumers: int) -> None:
    """What was done since the start."""
    routed = total.publish - total.drop_unroutable - total.return_unroutable
    received = (total.publish, total.confirm + unconfirmed, routed, total.drop_unroutable, total.return_unroutable)
    page.add(family.GLOBAL, [*received, total.confirm, publishers, consumers], PROTOCOL)
    delivered = (total.deliver, total.deliver_no_ack, total.get, total.get_no_ack)
    rest = (total.get_empty, total.redeliver, total.ack)
    page.add(family.GLOBAL_QUEUE, [sum(delivered), *delivered, *rest], f"{PROTOCOL},{QUEUE_TYPE}")
    dead = request.broker.churn.dead_lettered
    counts = [dead.get(reason, 0) for reason in ("maxlen", "expired", "rejected", "delivery_limit")]
    page.add(family.GLOBAL_DEAD, counts, f"{QUEUE_TYPE},{STRATEGY}")


def add_identity(page: Page, request: Request) -> None:
    """Which broker this is; dashboards choose by it."""
    page.prefix = PREFIX
    rabbitmq = str(SERVER_PROPERTIES["version"])
    build = label(
        rabbitmq_version=rabbitmq,
        prometheus_plugin_version=rabbitmq,
        prometheus_client_version="4.11.0",
        erlang_version=f"Python {platform.python_version()}",
        product_version=__version__,
        product_name="Leveret",
    )
    page.add([family.BUILD], [1], build)
    node_name = request.broker.settings.node_name
    permanent_id = f"rabbitmq-cluster-id-{uuid.uuid5(uuid.NAMESPACE_DNS, node_name)}"
    identity = label(
        rabbitmq_node=node_name, rabbitmq_cluster=request.broker.cluster_name, rabbitmq_cluster_permanent_id=permanent_id
    )
    page.add([family.IDENTITY], [1], identity)


def add_alarms(page: Page, request: Request) -> None:
    disk, memory = alarm_set(request.node, "disk"), alarm_set(request.node, "memory")
    page.add(family.ALARMS, [0, int(disk), int(memory)])
    page.add(family.PEERS, [0])
