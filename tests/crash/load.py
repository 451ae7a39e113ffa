"""The load: all `clients` at once until the broker ends, and the comparison of what another start brings with their books.

Half of the queues hold more than a broker with the sizes of `TINY` keeps in memory.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.crash.books import Books, Copy, Family
from tests.crash.clients import (
    EXCHANGE,
    Client,
    Passing,
    Sizes,
    Stream,
    consume,
    get_some,
    move,
    publish_on,
    purge_idle,
    reopen,
)
from tests.crash.peer import Channel, Peer, Stopped
from tests.properties.dialogue import method
from tests.server.support import eventually

from leveret.cli.api import Api
from leveret.wire import spec
from leveret.wire.values import Table

# A broker with these pages out what would fit its memory many times, and compacts.
TINY = {
    "LEVERET_SEGMENT_SIZE": "65536",
    "LEVERET_WINDOW_COUNT": "8",
    "LEVERET_SHARED_WINDOW_SIZE": "16384",
    "LEVERET_WINDOW_SIZE": "65536",
    "LEVERET_PAGE_COUNT": "2",
    "LEVERET_PAGE_SIZE": "8192",
}
# What is more when the queues are compared is purged, so that a long run does not spend its time on reading.
KEPT_MAX = 300
KEPT_BYTES = 10_000_000
# Where no dead letter has come for so long, none will.
STILL_S = 10.0
# Milliseconds; a message of the last outlives every run.
EXPIRATIONS = (None, None, "0", "40", "3600000")
ALARMING = ("ERROR", "CRITICAL", "Traceback", "damaged")
# What clients ask for in vain, and what they are told when the broker is stopped.
EXPECTED = ("NOT_FOUND - no queue", "broker forced connection closure with reason 'shutdown'")


def contents(peer: Peer, queue: str) -> list[Copy]:
    """What is in a queue, all of it held until the connection ends."""
    channel = peer.channels.get(2) or peer.channel(confirms=False)
    found: list[Copy] = []
    channel.call(spec.BasicConsume(queue, queue), spec.BasicConsumeOk)

    def read_until(answer: type[spec.Method]) -> spec.Method:
        while True:
            event = peer.event()
            if not isinstance(event.method, spec.BasicDeliver):
                assert isinstance(event.method, answer), event.method
                return event.method
            found.append(peer.books.read(queue, event.message_id, event.body, event.method.redelivered))

    def all_read() -> bool:
        channel.send(method(channel.number, spec.QueueDeclare(queue, passive=True)))
        answer = read_until(spec.QueueDeclareOk)
        assert isinstance(answer, spec.QueueDeclareOk)
        assert answer.message_count < 1 << 31, f"{queue}: a negative count"
        return answer.message_count == 0

    eventually(all_read)
    channel.send(method(channel.number, spec.BasicCancel(queue)))
    read_until(spec.BasicCancelOk)
    return found


def check_log(log: str) -> None:
    """Nothing went wrong but what clients were told of."""
    lines = [line for line in log.splitlines() if not any(word in line for word in EXPECTED)]
    found = [number for number, line in enumerate(lines) if any(word in line for word in ALARMING)]
    assert not found, "\n".join(lines[found[0] : found[0] + 30])


def check_figures(data: Path) -> None:
    """No queue of a running broker has less than nothing, or octets without messages."""
    for queue in Api(str(data)).get("/api/queues"):
        figures = {name: value for name, value in queue.items() if name.startswith("message") and isinstance(value, int)}
        assert min(figures.values()) >= 0, f"{queue['name']}: {figures}"
        for kind in ("ready", "unacknowledged"):
            if not figures[f"messages_{kind}"]:
                assert not figures[f"message_bytes_{kind}"], f"{queue['name']}: {figures}"


def to_grave(queue: str, more: Table | None = None) -> Table:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{queue}-dead", **(more or {})}


def family_with_grave(queue: str, more: Table | None = None) -> Family:
    return Family(queue, f"{queue}-dead", dying=more is not None, arguments=to_grave(queue, more))


class Load:
    """All of it at once."""

    def __init__(self, seed: int, large_bytes: int = 24_000_000) -> None:
        self._random = Random(seed)
        self._sizes = Sizes(large_bytes)
        self.told: list[spec.Method] = []
        self._declared = False
        self._faults: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._receipts: list[Stream] = []
        self._make_families()
        self._make_streams()

    def _make_families(self) -> None:
        self._passing_families = [family_with_grave(f"passing-{number}") for number in range(3)]
        self.books = Books(
            [
                *(family_with_grave(queue) for queue in ("main", "slow", "from")),
                *(Family(queue, unread=True) for queue in ("idle", "fan-right", "to", "reopened", "receipts")),
                Family("fan-left"),
                family_with_grave("brief", {"x-message-ttl": 300}),
                family_with_grave("short", {"x-max-length": 20}),
                *self._passing_families,
            ]
        )

    def _make_streams(self) -> None:
        families, sizes = self.books.families, self._sizes
        self._plain = {
            queue: Stream(queue, (families[queue],), sizes, 0.2) for queue in ("main", "slow", "idle", "brief", "short")
        }
        self._fan = Stream("fan", (families["fan-left"], families["fan-right"]), sizes, 0.2)
        self._from = Stream("from", (families["from"],), sizes)
        self._reopened = Stream("reopened", (families["reopened"],), sizes, 0.2)
        self._passing = Passing([Stream(family.home, (family,), sizes, 0.2) for family in self._passing_families])

    @property
    def published(self) -> int:
        streams = [*self._plain.values(), self._fan, self._from, self._reopened, *self._passing.streams, *self._receipts]
        return sum(stream.next_number for stream in streams)

    @property
    def kept(self) -> int:
        """How many messages must be there."""
        return sum(len(family.certain()) for family in self.books.families.values())

    # The clients

    def start(self, port: int) -> None:
        """Set all clients to work; they end when the broker does."""
        self._sizes.begin()
        self._declare(port)
        families = self.books.families
        clients: list[Callable[[Client], None]] = [
            lambda client: publish_on(client, self._plain["main"], (None,)),
            lambda client: publish_on(client, self._plain["slow"], (None,)),
            lambda client: publish_on(client, self._plain["idle"], EXPIRATIONS),
            lambda client: publish_on(client, self._plain["brief"], EXPIRATIONS),
            lambda client: publish_on(client, self._plain["short"], EXPIRATIONS),
            lambda client: publish_on(client, self._fan, EXPIRATIONS),
            lambda client: consume(client, families["main"]),
            lambda client: consume(client, families["fan-left"]),
            lambda client: get_some(client, families["slow"]),
            lambda client: get_some(client, families["short"]),
            lambda client: purge_idle(client, families["idle"]),
            lambda client: move(client, self._from, families["to"]),
            lambda client: reopen(client, self._reopened),
            self._passing.run,
        ]
        for number, run in enumerate(clients):
            if number == len(self._receipts):
                self._receipts.append(Stream(f"receipt-{number}", (families["receipts"],)))
            peer = Peer(port, self.books, self.told).login()
            self._run(run, Client(peer, self._receipts[number], Random(self._random.random())))

    @property
    def client_count(self) -> int:
        return len(self._receipts)

    def _declare(self, port: int) -> None:
        with Peer(port, self.books).login() as peer:
            channel = peer.channel()
            for family in self.books.families.values():
                if family.grave:
                    channel.declare(family.grave, durable=True)
                if family not in self._passing_families:
                    channel.declare(family.home, durable=True, arguments=family.arguments)
            channel.call(spec.ExchangeDeclare(EXCHANGE, "fanout", durable=True), spec.ExchangeDeclareOk)
            for family in self._fan.families:
                channel.call(spec.QueueBind(family.home, EXCHANGE), spec.QueueBindOk)
        self._declared = True

    def _run(self, run: Callable[[Client], None], client: Client) -> None:
        def work() -> None:
            try:
                with client.peer:
                    run(client)
            except (EOFError, OSError, Stopped):
                pass
            except BaseException as fault:
                self._faults.append(fault)

        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def end(self, clean: bool = False) -> None:
        """Wait for the clients of a broker that has ended, in order or not."""
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        self._threads = []
        self.books.end(clean)
        faults, self._faults = self._faults, []
        if faults:
            raise faults[0]

    # What is there

    def check(self, port: int) -> None:
        """Compare what a broker has after its start with the books, before clients are set to work."""
        if not self._declared:
            return
        with Peer(port, self.books).login() as peer:
            found: dict[str, list[Copy]] = {}
            for family in self.books.families.values():
                self._read(peer, family, found)
            # What it held is back in its queues when this is answered.
            peer.end()
        self.books.check(found)
        self._trim(port)

    def _read(self, peer: Peer, family: Family, found: dict[str, list[Copy]]) -> None:
        passing = family in self._passing_families
        there = not passing or self._passing.is_there(peer, family.home)
        found[family.home] = contents(peer, family.home) if there else []
        if passing and there and self._passing.there.get(family.home):
            self._passing.check_bound(peer, family.home)
        if family.dying:
            self._wait_for_deaths(peer, family, len(found[family.home]))
        if family.grave:
            found[family.grave] = contents(peer, family.grave)

    def _wait_for_deaths(self, peer: Peer, family: Family, alive: int) -> None:
        """Wait until what died is where it comes to, or nothing comes any more; what never does is found to be lost."""
        certain, dead, changed_at = len(family.certain()), 0, time.monotonic()
        while alive + dead < certain and time.monotonic() < changed_at + STILL_S:
            found = peer.channels[2].declare(family.grave, passive=True)
            if found != dead:
                dead, changed_at = found, time.monotonic()
            time.sleep(0.01)

    def _trim(self, port: int) -> None:
        """Purge what has become long, while nobody works on it."""
        with Peer(port, self.books).login() as peer:
            channel = peer.channel()
            for family in self.books.families.values():
                self._trim_queue(channel, family, family.grave, [copy for copy in family.copies.values() if copy.dead])
                # Of what dies by itself nobody knows where it is.
                if not family.dying:
                    alive = [copy for copy in family.copies.values() if not copy.dead]
                    self._trim_queue(channel, family, family.home, alive)

    def _trim_queue(self, channel: Channel, family: Family, queue: str, copies: list[Copy]) -> None:
        if len(copies) < KEPT_MAX and sum(copy.size for copy in copies) < KEPT_BYTES:
            return
        for copy in copies:
            copy.may_go = True
        channel.call(spec.QueuePurge(queue), spec.QueuePurgeOk)
        family.end_emptying((), copies)
