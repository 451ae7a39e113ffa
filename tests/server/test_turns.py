"""Nobody stops anybody else: whatever one client makes, removes, publishes or asks for, no turn of the loop is long.

What is measured is processor time of the loop's thread (`timed_leveret`): who is beside, and how busy the machine is, hardly
counts. A client that asks for something small waits for the turn that goes on and for its own. What makes a turn long makes
it long each time; a cache that another process has emptied does not, so a scene with a long turn is played again.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.properties.dialogue import method, publish
from tests.server.support import Client, Process

from leveret.wire import spec
from leveret.wire.properties import Properties
from leveret.wire.values import Table

PROGRAM = str(Path(__file__).with_name("timed_leveret.py"))
# Of 50 ms, which nobody may wait, half: for the turn that goes on, and for one's own.
TURN_MS = 25.0
TRIES = 3
GUEST = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}
MANY = 100_000


class Timed(Process):
    """A broker that says how long its turns are."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._turns = folder / "turns"
        self._turns.touch()
        super().__init__(folder, *flags, program=(PROGRAM, str(self._turns)))

    def plays(self) -> Iterator[None]:
        """Once for each time that a scene is to be played, until each of its acts had no long turn."""
        self._longest = dict[str, list[float]]()
        for _ in range(TRIES):
            yield
            if not self._too_long():
                return
        assert not self._too_long()

    def _too_long(self) -> dict[str, list[float]]:
        return {act: found for act, found in self._longest.items() if min(found) > TURN_MS}

    @contextmanager
    def no_long_turn(self, act: str) -> Iterator[None]:
        """While a client pings beside it, no turn takes longer than it may."""
        before = self._turns.stat().st_size
        with self.login() as other, pinging(other):
            yield
        found = [float(line) for line in self._turns.read_text()[before:].split()]
        self._longest.setdefault(act, []).append(max(found, default=0.0))

    def ask(self, path: str) -> bytes:
        """What the API answers."""
        connection = HTTPConnection("127.0.0.1", self.http_port, timeout=300)
        try:
            connection.request("GET", path, headers=GUEST)
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, body[:1000]
            return body
        finally:
            connection.close()


@contextmanager
def pinging(client: Client) -> Iterator[None]:
    """Have a client ask for something small all the time."""
    end = Event()

    def ping() -> None:
        while not end.wait(0.001):
            client.call(spec.BasicQos(), spec.BasicQosOk)

    client.socket.settimeout(60)
    thread = Thread(target=ping)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Timed]:
    with Timed(tmp_path_factory.mktemp("timed"), "--management-port", "0") as process:
        yield process


@pytest.fixture
def client(timed: Timed) -> Iterator[Client]:
    with timed.login() as client:
        client.socket.settimeout(120)
        yield client


def send_all(client: Client, methods: Iterator[spec.Method]) -> None:
    """Send methods that ask for no answer, many at once, and return when all of them have been heard."""
    data = bytearray()
    for one in methods:
        data += method(1, one).encode()
        if len(data) > 1 << 19:
            client.socket.sendall(data)
            data.clear()
    client.socket.sendall(data)
    client.call(spec.BasicQos(), spec.BasicQosOk)


def publish_all(client: Client, count: int, make: Callable[[int], tuple[str, str, Properties]]) -> None:
    """Publish so many, each to the exchange, with the key and the properties that `make` gives for its number."""
    data = bytearray()
    for number in range(count):
        exchange, key, properties = make(number)
        for frame in publish(1, key, b"x", properties, exchange):
            data += frame.encode()
    client.socket.sendall(data)
    client.call(spec.BasicQos(), spec.BasicQosOk)


def bind_headers(arguments: Table) -> spec.QueueBind:
    return spec.QueueBind("hq", "hx", "", no_wait=True, arguments=arguments)


def test_headers_bindings(timed: Timed, client: Client) -> None:
    """20,000 bindings made, matched and removed with their exchange."""
    for _ in timed.plays():
        client.declare("hq")
        client.call(spec.ExchangeDeclare("hx", "headers"), spec.ExchangeDeclareOk)
        with timed.no_long_turn("binding"):
            send_all(client, (bind_headers({"x-match": "any" if n % 2 else "all", f"k{n % 7}": n}) for n in range(20_000)))
        with timed.no_long_turn("publishing"):
            publish_all(client, 2000, lambda n: ("hx", "", Properties(headers={"k1": n, "k2": n, "other": "x"})))
        assert client.call(spec.QueuePurge("hq"), spec.QueuePurgeOk).message_count == 2000 // 7 + 2000 // 7 + 2
        with timed.no_long_turn("deleting"):
            client.call(spec.ExchangeDelete("hx"), spec.ExchangeDeleteOk)
        client.call(spec.QueueDelete("hq"), spec.QueueDeleteOk)


def test_headers_bindings_that_cannot_be_told_apart(timed: Timed, client: Client) -> None:
    """Of 5,000 bindings each message has to be compared with a seventh: one publisher is slow, nobody else is."""
    names = [f"a{n}" for n in range(14)]

    def arguments(number: int) -> Table:
        return {name: 1 for at, name in enumerate(names) if number >> at & 1}

    for _ in timed.plays():
        client.declare("hq")
        client.call(spec.ExchangeDeclare("hx", "headers"), spec.ExchangeDeclareOk)
        send_all(client, (bind_headers(arguments(n)) for n in range(1, 5001)))
        with timed.no_long_turn("publishing"):
            publish_all(client, 200, lambda n: ("hx", "", Properties(headers={names[n % 7]: 1, "b": n})))
        client.call(spec.ExchangeDelete("hx"), spec.ExchangeDeleteOk)
        client.call(spec.QueueDelete("hq"), spec.QueueDeleteOk)


def test_stars_and_chains_of_exchanges(timed: Timed, client: Client) -> None:
    """A message that goes through 1,000 exchanges, bound to one or one after the other as alternates."""
    copies = Properties(headers={"CC": [f"c{n}" for n in range(100)]})
    for _ in timed.plays():
        client.call(spec.ExchangeDeclare("star", "fanout"), spec.ExchangeDeclareOk)
        with timed.no_long_turn("declaring"):
            send_all(client, (spec.ExchangeDeclare(f"e{n}", "fanout", no_wait=True) for n in range(1000)))
            send_all(client, (spec.ExchangeBind(f"e{n}", "star", no_wait=True) for n in range(1000)))
            send_all(
                client,
                (
                    spec.ExchangeDeclare(f"a{n}", "direct", no_wait=True, arguments={"alternate-exchange": f"a{n + 1}"})
                    for n in range(1000)
                ),
            )
        for exchange in ("star", "a0"):
            with timed.no_long_turn(f"publishing to {exchange}"):
                publish_all(client, 1000, lambda n, exchange=exchange: (exchange, f"k{n}", Properties()))  # type: ignore[misc]
                publish_all(client, 20, lambda n, exchange=exchange: (exchange, "k", copies))  # type: ignore[misc]
        with timed.no_long_turn("deleting"):
            client.call(spec.ExchangeDelete("star"), spec.ExchangeDeleteOk)
            send_all(client, (spec.ExchangeDelete(f"{kind}{n}", no_wait=True) for kind in "ea" for n in range(1000)))


def test_large_tables(timed: Timed, client: Client) -> None:
    """Arguments, and routing keys in headers, that fill a frame each."""
    copies = Properties(headers={"CC": [f"k.{n}.a.b" for n in range(7000)]})
    for _ in timed.plays():
        table = {f"a{n}": "v" for n in range(9000)}
        with timed.no_long_turn("declaring"):
            send_all(client, (spec.QueueDeclare(f"t{n}", no_wait=True, arguments=table) for n in range(20)))  # type: ignore[arg-type]
            send_all(client, (spec.QueueDelete(f"t{n}", no_wait=True) for n in range(20)))
        with timed.no_long_turn("publishing"):
            publish_all(client, 20, lambda n: ("amq.topic", "k", copies))


def test_many_consumers(timed: Timed, client: Client) -> None:
    """10,000 of one queue, which is deleted, and 10,000 of another, whose connection ends."""
    for _ in timed.plays():
        for name in ("deleted", "left"):
            client.declare(name)
        with timed.no_long_turn("consuming"):
            send_all(client, (spec.BasicConsume("deleted", f"d{n}", no_wait=True) for n in range(10_000)))
        with timed.no_long_turn("deleting"):
            client.call(spec.QueueDelete("deleted"), spec.QueueDeleteOk)
            for _ in range(10_000):
                client.expect(spec.BasicCancel)
        with timed.login() as second:
            send_all(second, (spec.BasicConsume("left", f"l{n}", no_wait=True) for n in range(10_000)))
            with timed.no_long_turn("closing"):
                second.call(spec.ConnectionClose(200, ""), spec.ConnectionCloseOk, 0)
        assert client.call(spec.QueueDelete("left"), spec.QueueDeleteOk).message_count == 0


def test_end_of_a_connection_with_exclusive_queues(timed: Timed, client: Client) -> None:
    """10,000 that are bound."""
    for _ in timed.plays():
        with timed.login() as second:
            send_all(second, (spec.QueueDeclare(f"x{n}", exclusive=True, no_wait=True) for n in range(10_000)))
            send_all(second, (spec.QueueBind(f"x{n}", "amq.topic", f"a.{n}", no_wait=True) for n in range(10_000)))
            with timed.no_long_turn("closing"):
                second.call(spec.ConnectionClose(200, ""), spec.ConnectionCloseOk, 0)
        assert b'"x9999"' not in timed.ask("/api/queues?columns=name")
        with timed.login() as third:
            third.declare("x0")
            third.call(spec.QueueDelete("x0"), spec.QueueDeleteOk)


LISTS = (
    "/api/queues?sort=messages&sort_reverse=true&columns=name,messages",
    "/api/queues?page=3&page_size=100&name=q9",
    "/api/queues?page=3&page_size=100&sort=message_bytes",
    "/api/bindings",
    "/api/exchanges/%2F/amq.direct/bindings/source",
    "/api/exchanges/%2F/amq.direct",
    "/api/definitions",
    "/api/overview",
    "/api/vhosts",
    "/api/queues/%2F/q7",
    "/metrics",
    "/metrics/per-object",
    "/metrics/memory-breakdown",
)


def test_many_queues_are_listed(timed: Timed, client: Client) -> None:
    """20,000, in every way."""
    for _ in timed.plays():
        send_all(client, (spec.QueueDeclare(f"q{n}", no_wait=True) for n in range(20_000)))
        send_all(client, (spec.QueueBind(f"q{n}", "amq.direct", f"k{n}", no_wait=True) for n in range(20_000)))
        for path in LISTS:
            with timed.no_long_turn(path):
                timed.ask(path)
        names = [one["name"] for one in json.loads(timed.ask("/api/queues?columns=name"))]
        assert names == sorted(f"q{n}" for n in range(20_000))
        assert len(json.loads(timed.ask("/api/definitions"))["bindings"]) == 20_000
        send_all(client, (spec.QueueDelete(f"q{n}", no_wait=True) for n in range(20_000)))


def test_a_hundred_thousand_queues(timed: Timed, client: Client) -> None:
    """Declared, bound, listed and deleted."""
    for _ in timed.plays():
        with timed.no_long_turn("declaring"):
            send_all(client, (spec.QueueDeclare(f"q{n}", no_wait=True) for n in range(MANY)))
        with timed.no_long_turn("binding"):
            send_all(client, (spec.QueueBind(f"q{n}", "amq.direct", f"k{n}", no_wait=True) for n in range(MANY)))
        with timed.no_long_turn("listing"):
            found = timed.ask("/api/queues")
        assert found.count(b'"name":"q') == MANY
        with timed.no_long_turn("deleting"):
            send_all(client, (spec.QueueDelete(f"q{n}", no_wait=True) for n in range(MANY)))
        assert json.loads(timed.ask("/api/queues")) == []
