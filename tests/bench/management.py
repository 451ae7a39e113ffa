"""What the HTTP API costs: how fast it answers with very many objects, and what asking it does to those who publish.

With 10,000 queues, as many bindings and 1,000 connections,

  - `/api/queues?page=1&page_size=100` and `/metrics` are asked for, again and again, of Leveret and then of RabbitMQ with
    the same objects: the medians, and how many times as long RabbitMQ takes;
  - a pair, a publisher and a consumer, goes as fast as it can and then at a quarter of that, alone and beside a client that
    asks for both each second: how much of its rate it keeps.

  management.py [--queues 10000] [--connections 1000] [--asks 20] [--seconds 4] [--without-rabbitmq] [--json]

Prints a table, or one JSON line. It takes about two minutes.
"""

import argparse
import base64
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.brokers import rabbitmq, raise_open_files
from tests.bench.client import Client, bind_frame, connect, connect_many
from tests.bench.fairness import Setting, pair, process
from tests.server.support import Process

QUEUES = "/api/queues?page=1&page_size=100"
METRICS = "/metrics"
PLUGINS = ["rabbitmq_management", "rabbitmq_prometheus"]
LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
PATIENCE_S = 120.0
# RabbitMQ shows what it counted some seconds before.
SETTLE_S = 15.0
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a broker listens."""

    amqp: int
    http: int
    prometheus: int


@contextmanager
def objects(port: int, queues: int, connections: int) -> Iterator[None]:
    """So many queues, bound to amq.direct, and connections, for as long as the block lasts."""
    with ExitStack() as stack:
        for start in range(0, connections, AT_ONCE):
            for client in connect_many(port, min(AT_ONCE, connections - start)):
                stack.enter_context(client)
        with connect(port) as client:
            for number in range(queues):
                client.declare_queue(f"queue-{number:05}", durable=False)
            for number in range(queues):
                bind(client, f"queue-{number:05}", f"key-{number}")
            client.settle()
        yield


def bind(client: Client, queue: str, key: str) -> None:
    client.sock.sendall(bind_frame(queue, "amq.direct", key))
    client.expect(50, 21)


def ask(port: int, path: str) -> tuple[float, int]:
    """Seconds until the whole answer is there, and its size."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    start = time.perf_counter()
    connection.request("GET", path, headers=LOGIN)
    answer = connection.getresponse()
    body = answer.read()
    elapsed = time.perf_counter() - start
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
    return elapsed, len(body)


def answer_times(ports: Ports, asks: int, queues: int) -> dict[str, float]:
    """Medians in ms, after one answer that does not count."""
    found = {}
    for name, port, path in (("queues", ports.http, QUEUES), ("metrics", ports.prometheus, METRICS)):
        ask(port, path)
        found[name] = round(statistics.median(ask(port, path)[0] for _ in range(asks)) * 1000, 2)
    total = json.loads(fetch(ports.http, QUEUES))["total_count"]
    if total < queues:
        raise RuntimeError(f"{total} of {queues} queues are listed")
    return found


def fetch(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", path, headers=LOGIN)
    body = connection.getresponse().read()
    connection.close()
    return body


def ask_each_second(ports: Ports, said: Connection) -> None:
    """Ask for both, every second, until killed."""
    said.send("ready")
    due = time.perf_counter()
    while True:
        ask(ports.http, QUEUES)
        ask(ports.prometheus, METRICS)
        due += 1.0
        time.sleep(max(0.0, due - time.perf_counter()))


def pair_figures(ports: Ports, seconds: float) -> dict[str, Any]:
    """What the pair keeps of a quarter of its best, alone and beside one who asks."""
    setting = Setting(seconds=seconds)
    with connect(ports.amqp) as client:
        client.declare_queue("pair", durable=False)
    best = statistics.median(pair(ports.amqp, setting, 0).rate for _ in range(3))
    alone = pair(ports.amqp, setting, best / 4)
    with process(ask_each_second, ports):
        beside = [pair(ports.amqp, setting, best / 4) for _ in range(3)]
    return {
        "best": round(best),
        "kept": round(statistics.median(one.rate for one in beside) / (best / 4), 3),
        "p99_ms": round(statistics.median(one.p99_ms for one in beside), 2),
        "p99_ms_alone": round(alone.p99_ms, 2),
        "longest_ms": round(max(one.longest_ms for one in beside), 1),
    }


def of_leveret(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    environment = {"LEVERET_MANAGEMENT_PORT": "0", "LEVERET_PROMETHEUS_PORT": "0"}
    with Process(folder, environment=environment) as broker:
        ports = Ports(broker.port, broker.http_port, broker.prometheus_port)
        with objects(ports.amqp, options.queues, options.connections):
            times = answer_times(ports, options.asks, options.queues)
            return {**times, "pair": pair_figures(ports, options.seconds), "rss_mib": broker.resident >> 20}


def of_rabbitmq(options: argparse.Namespace) -> dict[str, float]:
    # Its plug-ins have ports of their own, which are the usual ones.
    with rabbitmq(plugins=PLUGINS) as broker:
        ports = Ports(broker.port, 15672, 15692)
        with objects(ports.amqp, options.queues, options.connections):
            time.sleep(SETTLE_S)
            return answer_times(ports, options.asks, options.queues)


def table(found: dict[str, Any], options: argparse.Namespace) -> str:
    """What was found, for people."""
    times = found["leveret"]
    lines = [f"HTTP API with {options.queues:,} queues and {options.connections:,} connections, {times['rss_mib']} MiB"]
    lines.append(f"{'asked for':34}{'ms':>8}{'RabbitMQ':>11}{'times as long':>15}")
    for name, path in (("queues", QUEUES), ("metrics", METRICS)):
        theirs, ratio = (found.get(kind, {}).get(name, "") for kind in ("rabbitmq", "times_as_long"))
        lines.append(f"{path:34}{times[name]:>8}{theirs:>11}{ratio:>15}")
    pair = times["pair"]
    lines.append(f"a pair at a quarter of its best ({pair['best']:,} a second), beside one who asks for both each second,")
    delays = f"p99 {pair['p99_ms']} ms (alone {pair['p99_ms_alone']}), longest {pair['longest_ms']} ms"
    lines.append(f"keeps {pair['kept']:.1%} of its rate; {delays}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--asks", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--without-rabbitmq", action="store_true")
    parser.add_argument("--json", action="store_true", help="one line, for programs")
    options = parser.parse_args()
    raise_open_files()
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"leveret": of_leveret(Path(folder), options)}
    if not options.without_rabbitmq:
        found["rabbitmq"] = of_rabbitmq(options)
        found["times_as_long"] = {name: round(ms / found["leveret"][name], 1) for name, ms in found["rabbitmq"].items()}
    print(json.dumps(found) if options.json else table(found, options))


if __name__ == "__main__":
    main()
