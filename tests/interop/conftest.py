r"""The broker under test, the names of a test's objects, and a raw client for what no library will send.

`pytest tests/interop` has Leveret in this process, by the fixture that everybody has of it (`amqp_broker`);
`pytest tests/interop --broker amqp://guest:guest@127.0.0.1:5672/%2F` uses a broker that already runs. On a RabbitMQ the
tests in `DIFFERS_3_10` are expected to differ, and on 3.10 they must; on Leveret none is. RabbitMQ needs its own plugins for
three exchange types; this starts one so, on a free port:

  tests/bench/brokers.py rabbitmq --plugins rabbitmq_consistent_hash_exchange rabbitmq_random_exchange \
    rabbitmq_recent_history_exchange

Tests run with `--import-mode=importlib`, so nothing here can be imported at run time: all of it comes as fixtures.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import pika
import pytest
from pika import frame, spec

# What the tests of TLS share with those of the server.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

PATIENCE = 60.0
"""Seconds within which everything must have happened; nothing that works takes as long."""

FAULTS_OF = ("leveret", "asyncio")

PREFETCH_SIZE = "RabbitMQ closes the connection with 540 NOT_IMPLEMENTED - prefetch_size!=0 (10); Leveret honours it"
NOT_RABBITMQ = "{} is a plugin that is not part of RabbitMQ, or Leveret's own: an unknown argument or type there"

DIFFERS_3_10: dict[str, str] = {
    "test_errors.py::test_fault_closes_only_its_channel[unknown exchange type]": (
        "3.10.8 closes the connection with 503 COMMAND_INVALID; 3.13.7 the channel with 406"
    ),
    "test_errors.py::test_fault_closes_only_its_channel[x-delivery-limit -1]": "3.10.8 takes it; 3.13.7 does not",
    "test_errors.py::test_fault_closes_only_its_channel[x-ha-policy some]": NOT_RABBITMQ.format("x-ha-policy"),
    "test_errors.py::test_fault_closes_only_its_channel[x-ha-nodes a]": NOT_RABBITMQ.format("x-ha-nodes"),
    "test_errors.py::test_fault_closes_only_its_channel[x-message-deduplication yes]": NOT_RABBITMQ.format("deduplication"),
    "test_errors.py::test_fault_closes_only_its_channel[x-cache-size -1]": NOT_RABBITMQ.format("deduplication"),
    "test_errors.py::test_fault_closes_its_connection[body longer than announced]": (
        "RabbitMQ before 4.3.5 counts on below zero and waits for more"
    ),
    "test_wire.py::test_broker_says_its_version_and_that_it_is_leveret": (
        "RabbitMQ says its own version and has no entry `leveret`"
    ),
    "test_pika.py::test_prefetch_size_bounds_the_bytes_of_a_consumer": PREFETCH_SIZE,
    "test_pika.py::test_prefetch_size_bounds_the_bytes_of_a_channel": PREFETCH_SIZE,
    "test_pika.py::test_prefetch_size_lets_one_larger_message_through": PREFETCH_SIZE,
    "test_pika.py::test_prefetch_size_does_not_bound_a_consumer_without_acks": PREFETCH_SIZE,
    "test_queues.py::test_message_expires_behind_others_too": "RabbitMQ's queues expire messages only at the head",
    "test_queues.py::test_queue_of_streams_is_refused": "RabbitMQ has streams",
    "test_queues.py::test_duplicate_is_dropped_and_confirmed": NOT_RABBITMQ.format("deduplication"),
    "test_queues.py::test_duplicates_are_known_for_longer": NOT_RABBITMQ.format("deduplication"),
    "test_dead_letters.py::test_message_given_back_too_often_dies[classic]": (
        "RabbitMQ closes the channel with 406: only its quorum queues have x-delivery-limit"
    ),
    "test_dead_letters.py::test_last_death_is_told": "3.10.8 has no x-last-death headers; 3.13.7 has",
    "test_exchange_types.py::test_delayed_messages_come_when_they_are_due": NOT_RABBITMQ.format("x-delayed-message"),
    "test_exchange_types.py::test_deduplication_exchange_lets_each_value_through_once": NOT_RABBITMQ.format("deduplication"),
}
"""Test, as `file::name[parameter]`, to what RabbitMQ 3.10.8 does instead and why."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--broker", metavar="URL", help="run the interop tests on this broker instead of Leveret")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bound each test's time and, on a RabbitMQ, expect the known differences."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if config.pluginmanager.hasplugin("timeout"):
        for item in here:
            item.add_marker(pytest.mark.timeout(3 * PATIENCE))
    url = given_url(config)
    version = rabbitmq_version(Broker.at(url)) if here and url else None
    if version:
        for item in here:
            reason = DIFFERS_3_10.get(item.nodeid.rpartition("/")[2])
            if reason:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=version.startswith("3.10.")))


def given_url(config: pytest.Config) -> str | None:
    # A run of the whole suite loads this file too late for the option to be parsed; it then keeps its default.
    url: str | None = config.getoption("--broker", default=None)
    return url


def rabbitmq_version(broker: Broker) -> str | None:
    """The version of a RabbitMQ; None of a Leveret."""
    try:
        with broker.connect() as client:
            properties = client.start().server_properties
    except OSError as error:
        raise pytest.UsageError(f"no broker at {broker.url}: {error}") from error
    return None if "leveret" in properties else str(properties["version"])


class Close(NamedTuple):
    """What connection.close or channel.close said."""

    code: int
    text: str
    class_id: int
    method_id: int


@dataclass(frozen=True)
class Broker:
    """Where the broker listens and whom it lets in."""

    host: str
    port: int
    username: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    scheme: str = "amqp"

    @classmethod
    def at(cls, url: str) -> Broker:
        parts = urlsplit(url)
        vhost = unquote(parts.path[1:]) or "/"
        port = parts.port or (5671 if parts.scheme == "amqps" else 5672)
        return cls(parts.hostname or "", port, parts.username or "guest", parts.password or "guest", vhost, parts.scheme)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.username}:{self.password}@{self.host}:{self.port}/{quote(self.vhost, safe='')}"

    def connect(self) -> RawClient:
        """Return a connection on which nothing has been said."""
        client = socket.create_connection((self.host, self.port), timeout=PATIENCE)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.scheme == "amqps":
            client = ssl.create_default_context().wrap_socket(client, server_hostname=self.host)
        return RawClient(self, client)

    def login(
        self, channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 0, capabilities: tuple[str, ...] = ()
    ) -> RawClient:
        """Return a connection whose channel 1 is open."""
        client = self.connect()
        client.start()
        client.start_ok(capabilities=capabilities)
        client.expect(spec.Connection.Tune)
        client.tune_ok(channel_max, frame_max, heartbeat)
        client.call(spec.Connection.Open(self.vhost), channel=0)
        client.opened = True
        client.call(spec.Channel.Open())
        return client

    def check_alive(self) -> None:
        """Fail unless a new connection can declare, publish and get."""
        with self.login() as client:
            name = client.call(spec.Queue.Declare(exclusive=True)).queue
            client.publish("", name, b"alive")
            client.send_method(spec.Basic.Get(queue=name, no_ack=True))
            client.expect(spec.Basic.GetOk)
            assert client.read_content()[1] == b"alive"


@dataclass
class RawClient:
    """Frames on a socket, with pika's codec and none of its manners."""

    broker: Broker
    socket: socket.socket
    buffer: bytes = b""
    opened: bool = False

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        """Close an open connection in the orderly way, so that its exclusive queues are gone on return."""
        with suppress(OSError, EOFError):
            if self.opened:
                self.send_method(spec.Connection.Close(200, "", 0, 0), channel=0)
            while self.opened:
                self.opened = not isinstance(getattr(self.read(), "method", None), spec.Connection.CloseOk)
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_method(self, method: Any, channel: int = 1) -> None:
        self.send(frame.Method(channel, method).marshal())

    def call(self, method: Any, channel: int = 1) -> Any:
        """Send a synchronous method and return the reply."""
        self.send_method(method, channel)
        # The number of a reply is that of its method plus 1; 2 for get-empty, 11 for exchange.unbind-ok.
        return self.expect(*(spec.methods[method.INDEX + n] for n in (1, 2, 11) if method.INDEX + n in spec.methods))

    def publish(self, exchange: str, routing_key: str, body: bytes, **properties: Any) -> None:
        """Send a message on channel 1; `mandatory` goes to the method."""
        mandatory = properties.pop("mandatory", False)
        self.send_method(spec.Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory))
        self.send(frame.Header(1, len(body), spec.BasicProperties(**properties)).marshal())
        for at in range(0, len(body), 131064):
            self.send(frame.Body(1, body[at : at + 131064]).marshal())

    def read(self) -> Any:
        """Return the next frame that is no heartbeat, decoded."""
        while True:
            _, value = frame.decode_frame(self.read_raw())
            if not isinstance(value, frame.Heartbeat):
                return value

    def read_raw(self) -> bytes:
        """Return the next frame as it came; EOFError when the broker has hung up."""
        while (size := 8 + int.from_bytes(self.buffer[3:7], "big")) > len(self.buffer) or len(self.buffer) < 8:
            self.buffer += self.receive()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def receive(self) -> bytes:
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError as error:
            raise EOFError from error
        if not data:
            raise EOFError
        return data

    def receive_all(self) -> bytes:
        """Return all that comes until the broker hangs up."""
        data = b""
        with suppress(EOFError):
            while True:
                data += self.receive()
        return data

    def expect(self, *methods: type[Any]) -> Any:
        """Return the next method, which must be one of these."""
        method = self.read().method
        assert isinstance(method, methods), method
        return method

    def read_content(self) -> tuple[Any, bytes]:
        """Return the properties and the body that follow basic.deliver, get-ok or return."""
        header, body = self.read(), b""
        while len(body) < header.body_size:
            body += self.read().fragment
        return header.properties, body

    def read_close(self) -> Close:
        """Return what the broker closes the channel or the connection with, and agree to it."""
        value = self.read()
        method = value.method
        assert isinstance(method, (spec.Channel.Close, spec.Connection.Close)), method
        agree = spec.Channel.CloseOk if value.channel_number else spec.Connection.CloseOk
        self.send_method(agree(), value.channel_number)
        self.opened &= value.channel_number > 0
        return Close(method.reply_code, method.reply_text, method.class_id, method.method_id)

    def start(self) -> Any:
        """Open the handshake and return connection.start."""
        self.send(b"AMQP\x00\x00\x09\x01")
        return self.expect(spec.Connection.Start)

    def start_ok(self, mechanism: str = "PLAIN", response: str | None = None, capabilities: tuple[str, ...] = ()) -> None:
        login = f"\0{self.broker.username}\0{self.broker.password}"
        properties = {"product": "interop", "capabilities": dict.fromkeys(capabilities, True)}
        self.send_method(spec.Connection.StartOk(properties, mechanism, login if response is None else response), 0)

    def tune_ok(self, channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 0) -> None:
        self.send_method(spec.Connection.TuneOk(channel_max, frame_max, heartbeat), channel=0)


def wait_until(check: Callable[[], object]) -> None:
    """Poll until `check` is true; fail after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline, f"{check} is still false after {PATIENCE} s"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The broker under test: one that runs, or the one that our own plugin gives everybody; that must have no faults."""
    url = given_url(request.config)
    if url:
        yield Broker.at(url)
        return
    faults = Faults()
    for name in FAULTS_OF:
        logging.getLogger(name).addHandler(faults)
    yield Broker.at(request.getfixturevalue("amqp_broker").url)
    for name in FAULTS_OF:
        logging.getLogger(name).removeHandler(faults)
    assert faults.told == []


class Faults(logging.Handler):
    """Keeps what the broker's thread logs with a traceback: an exception that reached the transport or the event loop."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.threadName == "leveret":
            self.told.append(self.format(record))


@contextmanager
def running(folder: Path, environment: dict[str, str]) -> Iterator[tuple[Broker, int]]:
    """Leveret in a process of its own, with the process's number."""
    command = [sys.executable, "-m", "leveret", "--port", "0", "--data-dir", str(folder / "data")]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, **environment})
    try:
        host, port = amqp_listener(process, folder)
        yield Broker(host, port), process.pid
        process.terminate()
        assert process.wait(PATIENCE) == 0, (folder / "err").read_text()
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., tuple[Broker, int]]]:
    """Start Leveret with these settings, whichever broker is under test otherwise; its address and process number."""
    with ExitStack() as stack:

        def start(**settings: object) -> tuple[Broker, int]:
            environment = {f"LEVERET_{name.upper()}": str(value) for name, value in settings.items()}
            return stack.enter_context(running(tmp_path_factory.mktemp("own"), environment))

        yield start


def amqp_listener(process: subprocess.Popen[bytes], folder: Path) -> tuple[str, int]:
    """Wait for the line `ready amqp=HOST:PORT …` and return the address."""

    def ready() -> str | None:
        assert process.poll() is None, f"Leveret ended with {process.returncode}: {(folder / 'err').read_text()}"
        lines = (folder / "out").read_text().splitlines(keepends=True)
        return next((line for line in lines if line.startswith("ready ") and line.endswith("\n")), None)

    wait_until(ready)
    listeners = dict(word.split("=", 1) for word in (ready() or "").split()[1:])
    host, _, port = listeners["amqp"].rpartition(":")
    return host.strip("[]"), int(port)


class Route(NamedTuple):
    """An exchange with one bound queue, a message, and whether it gets there."""

    type: str
    key: str
    arguments: dict[str, Any]
    message_key: str
    headers: dict[str, Any]
    routed: bool


ROUTES = [
    Route("direct", "a", {}, "a", {}, True),  # SPEC §3.1 direct
    Route("direct", "a", {}, "a.b", {}, False),
    Route("fanout", "a", {}, "b", {}, True),  # SPEC §3.1 fanout
    Route("topic", "a.*.c", {}, "a.b.c", {}, True),  # SPEC §3.1 topic, SPEC §3.5 one word
    Route("topic", "a.*.c", {}, "a.c", {}, False),
    Route("topic", "a.#", {}, "a", {}, True),  # SPEC §3.5 zero or more words
    Route("topic", "#.c", {}, "a.b.c", {}, True),
    Route("topic", "#", {}, "", {}, True),
    Route("topic", "a.#.#.c", {}, "a.c", {}, True),  # SPEC §3.5 adjacent hashes
    Route("topic", "a.#.#.c", {}, "a.b.b.b.c", {}, True),
    # SPEC §3.1 headers all
    Route("headers", "", {"x-match": "all", "a": 1, "b": "2"}, "", {"a": 1, "b": "2", "c": 3}, True),
    Route("headers", "", {"x-match": "all", "a": 1, "b": "2"}, "", {"a": 1}, False),
    # SPEC §3.1 headers any
    Route("headers", "", {"x-match": "any", "a": 1, "b": "2"}, "", {"b": "2"}, True),
    Route("headers", "", {"x-match": "any", "a": 1}, "", {"a": 2}, False),
    Route("headers", "", {"a": None}, "", {"a": "whatever"}, True),
    Route("headers", "", {"x-match": "all", "a": 1, "x-b": 2}, "", {"a": 1}, True),
    # SPEC §3.1 headers all-with-x
    Route("headers", "", {"x-match": "all-with-x", "a": 1, "x-b": 2}, "", {"a": 1}, False),
    Route("headers", "", {"x-match": "all-with-x", "a": 1, "x-b": 2}, "", {"a": 1, "x-b": 2}, True),
    Route("headers", "", {"x-match": "any", "x-b": 2}, "", {"x-b": 2}, False),
    # SPEC §3.1 headers any-with-x
    Route("headers", "", {"x-match": "any-with-x", "a": 1, "x-b": 2}, "", {"x-b": 2}, True),
    Route("headers", "", {"x-match": "any-with-x", "a": 1, "x-b": 2}, "", {"x-b": 3}, False),
]


class Settlement(NamedTuple):
    """What becomes of the messages a, b, c, d when a channel has got a, b, c with tags 1, 2, 3 and does `act`.

    `ready` is then on the queue and taken off it, `left` is there after the channel was closed: body, redelivered.
    """

    act: str
    tag: int
    multiple: bool
    requeue: bool
    ready: list[tuple[str, bool]]
    left: list[tuple[str, bool]]


A, B, C = ("a", True), ("b", True), ("c", True)
D = ("d", False)
SETTLEMENTS = [
    Settlement("ack", 2, False, False, [D], [A, C]),
    Settlement("ack", 2, True, False, [D], [C]),
    Settlement("ack", 0, True, False, [D], []),
    Settlement("nack", 2, False, True, [B, D], [A, C]),
    Settlement("nack", 2, True, True, [A, B, D], [C]),
    Settlement("nack", 0, True, True, [A, B, C, D], []),
    Settlement("nack", 2, False, False, [D], [A, C]),
    Settlement("nack", 2, True, False, [D], [C]),
    Settlement("reject", 2, False, True, [B, D], [A, C]),
    Settlement("reject", 2, False, False, [D], [A, C]),
    Settlement("recover", 0, True, True, [A, B, C, D], []),
]


@pytest.fixture(params=ROUTES, ids=lambda route: f"{route.type}-{route.key}{route.arguments or ''}-{route.routed}")
def route(request: pytest.FixtureRequest) -> Route:
    value: Route = request.param
    return value


@pytest.fixture(params=SETTLEMENTS, ids=lambda row: f"{row.act}-{row.tag}-multiple={row.multiple}-requeue={row.requeue}")
def settlement(request: pytest.FixtureRequest) -> Settlement:
    value: Settlement = request.param
    return value


@pytest.fixture(params=[0, 1, 131063, 131064, 131065, 300000, 3 << 20])
def body(request: pytest.FixtureRequest) -> bytes:
    """Bodies below, at and above the size of one frame."""
    size: int = request.param
    return (bytes(range(256)) * (size // 256 + 1))[:size]


@pytest.fixture
def properties() -> dict[str, Any]:
    """All fourteen, by their names in the specification."""
    return {
        "content_type": "text/plain",  # SPEC §2.1 content-type
        "content_encoding": "x-interop",  # SPEC §2.1 content-encoding
        "headers": {"key": "value"},  # SPEC §2.1 headers
        "delivery_mode": 2,  # SPEC §2.1 delivery-mode
        "priority": 7,  # SPEC §2.1 priority
        "correlation_id": "correlation",  # SPEC §2.1 correlation-id
        "reply_to": "answers",  # SPEC §2.1 reply-to
        "expiration": "60000",  # SPEC §2.1 expiration
        "message_id": "id",  # SPEC §2.1 message-id
        "timestamp": 1700000000,  # SPEC §2.1 timestamp
        "type": "kind",  # SPEC §2.1 type
        "user_id": "guest",  # SPEC §2.1 user-id
        "app_id": "app",  # SPEC §2.1 app-id
        "cluster_id": "cluster",  # SPEC §2.1 cluster-id
    }


@pytest.fixture
def headers() -> dict[str, Any]:
    """Values of all the kinds that every client can write, nested."""
    return {
        "text": "žluťoučký",
        "bytes": b"\x00\xff",
        "yes": True,
        "int": -5,
        "long": 2**40,
        "decimal": Decimal("12.34"),
        "time": datetime(2024, 2, 29, 12, tzinfo=UTC),
        "void": None,
        "array": [1, "two", None, [False, {"deep": 3}]],
        "table": {"inner": {"innermost": ["x", 2**33]}},
    }


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], object]], None]:
    return wait_until


@pytest.fixture
def unique(broker: Broker) -> Iterator[Callable[[], str]]:
    """Make names that nobody else uses; the queues and exchanges so named are deleted afterwards."""
    names: list[str] = []

    def make() -> str:
        names.append(f"interop-{uuid.uuid4()}")
        return names[-1]

    yield make
    with broker.login() as client:
        for name in names:
            client.call(spec.Queue.Delete(queue=name))
            client.call(spec.Exchange.Delete(exchange=name))


@pytest.fixture
def connect(broker: Broker, unique: Callable[[], str]) -> Iterator[Callable[[], Any]]:
    # `unique` deletes after these connections, and with them their exclusive queues, are gone.
    connections = []

    def open_connection() -> Any:
        parameters = pika.URLParameters(broker.url)
        parameters.socket_timeout = parameters.blocked_connection_timeout = 10
        connections.append(pika.BlockingConnection(parameters))
        return connections[-1]

    yield open_connection
    for connection in connections:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(connect: Callable[[], Any]) -> Any:
    """A channel whose publishes return when the message is on its queue."""
    # RabbitMQ: a passive declare may overtake messages that are not confirmed yet.
    channel = connect().channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture
def queue(channel: Any, unique: Callable[[], str]) -> str:
    name: str = channel.queue_declare(unique()).method.queue
    return name


@pytest.fixture
def declared(channel: Any, unique: Callable[[], str]) -> Callable[..., str]:
    """Declare a durable queue with these arguments, `_` for `-`; `dead` is the queue its dead letters go to."""

    def make(dead: str | None = None, **arguments: Any) -> str:
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        if dead is not None:
            table |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        name: str = channel.queue_declare(unique(), durable=True, arguments=table).method.queue
        return name

    return make
