"""Alarms: when they are set and cleared, how often is looked, and what becomes of clients that publish and that do not."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.properties.dialogue import method, publish
from tests.server.support import MIB, PATIENCE, Client, InProcess, Most, Process, Records, eventually

from leveret.broker.broker import default_broker
from leveret.server import alarms as module
from leveret.server.alarms import (
    BEHIND_BYTES,
    FASTEST,
    LOOK_S,
    SOONEST_S,
    Alarm,
    Alarms,
    behind_bytes,
    disk_alarm,
    memory_alarm,
)
from leveret.server.config import Config
from leveret.server.process_memory import (
    PAGE_BYTES,
    HeapUse,
    heap_resident_bytes,
    mapped_bytes,
    resident_bytes,
    usable_bytes,
)
from leveret.wire import spec
from leveret.wire.properties import Properties

LISTENS = ("connection.blocked",)
MEMORY = "low on memory"
DISK = "low on disk"
SMALL = 1000
PERSISTENT = Properties(delivery_mode=2)


# One alarm


class Gauge:
    """A reading that the test sets; `freed` is what relieving finds."""

    def __init__(self, left: int, freed: int = 0) -> None:
        self.left = left
        self.freed = freed
        self.relieved = 0

    def read(self) -> int:
        return self.left

    def relieve(self) -> None:
        self.relieved += 1
        self.left += self.freed


def test_alarm_is_set_beyond_the_limit_and_cleared_with_some_to_spare() -> None:
    """SPEC §8.6 hysteresis: an alarm is over when a twentieth of its limit is left."""
    gauge = Gauge(1)
    alarm = Alarm(MEMORY, 1000, gauge.read)
    states = []
    for left in (1, 0, -1, 0, 49, 50, 0, -1):
        gauge.left = left
        alarm.look()
        states.append(alarm.is_set)
    assert states == [False, False, True, True, True, False, False, True]


@pytest.mark.parametrize(
    ("freed", "is_set", "relieved"),
    [(0, True, 1), (59, True, 1), (60, False, 1), (500, False, 1)],
    ids=["nothing", "too little", "enough", "much"],
)
def test_memory_is_low_only_if_giving_back_does_not_help(freed: int, is_set: bool, relieved: int) -> None:
    """SPEC §8.6 memory that the heap only keeps is given back first; a little is not enough."""
    gauge = Gauge(-10, freed)
    alarm = Alarm(MEMORY, 1000, gauge.read, gauge.relieve)
    alarm.look()
    assert (alarm.is_set, gauge.relieved) == (is_set, relieved)


def test_nothing_is_given_back_while_there_is_enough() -> None:
    """SPEC §8.6 no cost while nothing is low."""
    gauge = Gauge(0)
    alarm = Alarm(MEMORY, 1000, gauge.read, gauge.relieve)
    alarm.look()
    assert gauge.relieved == 0


def test_alarm_with_limit_nothing_is_always_set() -> None:
    """SPEC §8.6 `memory_watermark = 0` stops all publishers, as RabbitMQ's operators do on purpose."""
    alarm = memory_alarm(0, lambda: None)
    alarm.look()
    alarm.look()
    assert alarm.is_set


def test_setting_and_clearing_is_logged() -> None:
    """SPEC §8.6 logged when set and when cleared, each once."""
    gauge = Gauge(-5)
    alarm = Alarm(DISK, 100, gauge.read)
    with logged("leveret.alarms") as records:
        for left in (-5, -6, 20, 30):
            gauge.left = left
            alarm.look()
    assert [record.getMessage() for record in records.kept] == [
        "low on disk (limit 100 bytes, 5 short): publishers are blocked",
        "no longer low on disk (limit 100 bytes, 20 left): publishers are unblocked",
    ]


class logged:
    """Keeps what a logger is told."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._records = Records()

    def __enter__(self) -> Records:
        self._logger.addHandler(self._records)
        return self._records

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self._records)


# Readings


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"
MACHINE = usable_bytes(Path("/nowhere"))

GROUPS: dict[str, tuple[dict[str, str], int]] = {
    "none": ({}, MACHINE),
    "v2": ({"proc/self/cgroup": "0::/a/b\n", f"{V2}/a/b/memory.max": "5000\n"}, 5000),
    "v2, of a group around": (
        {"proc/self/cgroup": "0::/a/b\n", f"{V2}/a/b/memory.max": "max\n", f"{V2}/a/memory.max": "7000\n"},
        7000,
    ),
    "v2, the least": (
        {"proc/self/cgroup": "0::/a/b\n", f"{V2}/a/b/memory.max": "9000\n", f"{V2}/a/memory.max": "7000\n"},
        7000,
    ),
    "v2, in a container": ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": "6000\n"}, 6000),
    "v2, without a limit": ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": "max\n"}, MACHINE),
    "v1": (
        {"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/a\n0::/\n", f"{V1}/a/memory.limit_in_bytes": "8000\n"},
        8000,
    ),
    "v1, in a container that sees the host's path": (
        {"proc/self/cgroup": "4:cpu,memory:/docker/1234\n", f"{V1}/memory.limit_in_bytes": "8100\n"},
        8100,
    ),
    "v1, without a limit": (
        {"proc/self/cgroup": "4:memory:/a\n", f"{V1}/a/memory.limit_in_bytes": "9223372036854771712\n"},
        MACHINE,
    ),
}


@pytest.mark.parametrize(("files", "expected"), GROUPS.values(), ids=GROUPS)
def test_usable_memory(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    """SPEC §8.6 the watermark is of the RAM, or of the control group's limit if that is less; versions 1 and 2."""
    assert usable_bytes(write(tmp_path, files)) == expected


def test_resident_memory(tmp_path: Path) -> None:
    """SPEC §8.6 the process's RSS; where the system does not say, memory is never low."""
    assert resident_bytes(write(tmp_path, {"proc/self/statm": "900 123 45 1 0 99 0\n"})) == 123 * PAGE_BYTES
    assert resident_bytes(tmp_path / "nowhere") == 0
    assert 5 * MIB < resident_bytes() < MACHINE
    assert mapped_bytes(tmp_path) == 45 * PAGE_BYTES
    assert mapped_bytes(tmp_path / "nowhere") == 0
    assert 0 < mapped_bytes() < resident_bytes()


def test_free_heap_is_what_is_resident_and_not_used(tmp_path: Path) -> None:
    smaps = (
        "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libc.so\nRss: 7 kB\n5500-5600 rw-p 0 00:00 0 [heap]\nSize: 99 kB\nRss: 12 kB\n"
    )
    assert heap_resident_bytes(write(tmp_path, {"proc/self/smaps": smaps})) == 12 * 1024
    assert heap_resident_bytes(tmp_path / "nowhere") == 0
    use = HeapUse()
    pieces = [bytearray(100_000) for _ in range(200)]
    held = use.free_bytes()
    del pieces[:-1]
    use = HeapUse()
    assert use.free_bytes() >= held
    assert use.free_bytes() <= heap_resident_bytes()


@pytest.mark.parametrize(("watermark", "limit"), [(0.6, int(0.6 * 10_000)), (1, 10_000), (5e9, 5 * 10**9)])
def test_watermark_is_a_part_or_a_number_of_bytes(watermark: float, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.6 `memory_watermark`: up to 1 it is a part of what there is, above that it is bytes."""
    monkeypatch.setattr(module, "usable_bytes", lambda: 10_000)
    assert memory_alarm(watermark, lambda: None).limit == limit


@pytest.mark.parametrize(
    ("limit", "segment", "expected"), [(50_000_000, 64 << 20, 3 * (64 << 20)), (10**9, 64 << 20, 10**9)]
)
def test_disk_limit_leaves_room_for_three_segments(tmp_path: Path, limit: int, segment: int, expected: int) -> None:
    """SPEC §8.6 `disk_free_limit` is never under 3 segments."""
    assert disk_alarm(tmp_path, limit, segment).limit == expected


def test_folder_that_is_gone_has_nothing_free(tmp_path: Path) -> None:
    """SPEC §8.6 what cannot be looked at is low, and looking goes on."""
    alarm = disk_alarm(tmp_path / "gone", 1, 1)
    assert alarm.look() == -3
    assert alarm.is_set


@pytest.mark.parametrize(
    ("memory", "segment", "expected"),
    [
        (0, 1 << 30, MIB),
        (32 * MIB, 1 << 30, 2 * MIB),
        (1 << 30, 1 << 30, 64 * MIB),
        (1 << 40, 1 << 30, 64 * MIB),
        (1 << 40, 64 * MIB, 32 * MIB),
        (1 << 40, 1 << 16, MIB),
    ],
)
def test_what_may_wait_for_the_disk(memory: int, segment: int, expected: int) -> None:
    """SPEC §8.8 64 MiB, and less where there is little memory or segments are small."""
    assert behind_bytes(memory, segment) == expected


# The timer


class Loop:
    """Just the timers of an event loop, by hand."""

    def __init__(self) -> None:
        self.delay = -1.0
        self._call: Callable[[], None] | None = None

    def call_later(self, delay: float, call: Callable[[], None]) -> "Loop":
        assert self._call is None, "two timers at once"
        self.delay, self._call = delay, call
        return self

    def cancel(self) -> None:
        self._call = None

    def run(self) -> None:
        call, self._call = self._call, None
        assert call is not None
        call()


def watched(*alarms: Alarm) -> tuple[Loop, Alarms]:
    loop = Loop()
    return loop, Alarms(cast(asyncio.AbstractEventLoop, loop), default_broker(), list(alarms))


def test_quiet_broker_looks_once_a_second() -> None:
    """SPEC §8.6 however little is left: without traffic nothing grows."""
    loop, alarms = watched(Alarm(MEMORY, 1000, lambda: 10))
    alarms.start()
    for _ in range(3):
        assert loop.delay == LOOK_S
        loop.run()
    alarms.end_turn()
    assert loop.delay == SOONEST_S
    loop.run()
    assert loop.delay == SOONEST_S, "there was traffic since the last look"
    loop.run()
    assert loop.delay == LOOK_S


def test_traffic_does_not_move_the_next_look() -> None:
    """SPEC §8.6 a busy broker looks as often as what is left demands."""
    loop, alarms = watched(Alarm(MEMORY, 1000, lambda: FASTEST // 4))
    alarms.start()
    alarms.end_turn()
    assert loop.delay == 0.25
    for _ in range(3):
        alarms.end_turn()
        loop.run()
        assert loop.delay == 0.25


def test_nearest_limit_decides() -> None:
    """SPEC §8.6 of memory and disk, whichever may run out first."""
    loop, alarms = watched(Alarm(MEMORY, 1000, lambda: -1), Alarm(DISK, 1000, lambda: FASTEST // 2))
    alarms.start()
    alarms.end_turn()
    assert loop.delay == 0.5


def test_reasons_are_joined() -> None:
    """SPEC §8.6 both alarms at once: "low on memory & low on disk"."""
    memory, disk = Gauge(100), Gauge(100)
    loop = Loop()
    broker = default_broker()
    alarms = [Alarm(MEMORY, 1000, memory.read), Alarm(DISK, 1000, disk.read)]
    watching = Alarms(cast(asyncio.AbstractEventLoop, loop), broker, alarms)
    seen = []
    for memory.left, disk.left in ((100, 100), (-1, 100), (-1, -1), (100, -1), (100, 100)):
        watching.look()
        seen.append((broker.alarm, broker.throttled))
    assert seen == [("", False), (MEMORY, True), (f"{MEMORY} & {DISK}", True), (DISK, True), ("", False)]
    watching.close()


@pytest.mark.parametrize(
    ("left", "seconds"),
    [
        (-1, LOOK_S),
        (0, SOONEST_S),
        (1000, SOONEST_S),
        (FASTEST // 10, 0.1),
        (FASTEST, LOOK_S),
        (100 * FASTEST, LOOK_S),
    ],
)
def test_next_look_is_when_the_limit_may_be_reached(left: int, seconds: float) -> None:
    """SPEC §8.6 looked at more often the less is left, and once a second if much is, or if the alarm is set."""
    loop, alarms = watched(Alarm(MEMORY, 1000, lambda: left))
    alarms.start()
    alarms.end_turn()
    assert loop.delay == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("limit", "left", "size"), [(64 * MIB, 1000, MIB), (1000, 400 * MIB, 100 * MIB), (1000, 1000, 250), (1000, 10, 250)]
)
def test_looks_when_much_was_read_in_one_turn(limit: int, left: int, size: int) -> None:
    """SPEC §8.6 timers run between turns only; in a turn that brings much, it is looked at in between.

    Before the next look no more comes than a quarter of the limit, as that is what is left when the alarm is set.
    """
    gauge = Gauge(left)
    looks = []
    alarm = Alarm(MEMORY, limit, lambda: looks.append(gauge.left) or gauge.left)  # type: ignore[func-returns-value]
    _, alarms = watched(alarm)
    alarms.start()
    looks.clear()
    alarms.read(size - 1)
    assert looks == []
    gauge.left = -1
    alarms.read(1)
    assert looks == [-1]
    assert alarm.is_set
    alarms.read(1 << 50)
    assert looks == [-1], "a set alarm is looked at by the timer"


# Clients of a node whose memory reading the test sets


class Watched:
    """A node whose memory is what the test says; the watermark is 1000."""

    def __init__(self, node: InProcess, memory: list[int]) -> None:
        self.node = node
        self._memory = memory

    def set(self, low: bool) -> None:
        """Have memory run low or not, and wait until that was seen."""
        self._memory[0] = SMALL + 1 if low else 0
        eventually(lambda: self.node.node.broker.throttled == low)

    def statuses(self) -> list[str]:
        def look() -> list[str]:
            return [t.connection.status for t in self.node.node.transports if t.connection is not None]

        return cast(list[str], self.node.call(look))

    def ready(self, queue: str = "q") -> int:
        return cast(int, self.node.call(lambda: self.node.node.broker.vhosts["/"].queues[queue].ready_count))


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    reading = [0]
    monkeypatch.setattr(module, "resident_bytes", lambda: reading[0])
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    with InProcess(Config(port=0, storage="memory", memory_watermark=SMALL)) as node:
        yield Watched(node, reading)


def burst(queue: str, count: int, size: int = 1000, properties: Properties | None = None) -> bytes:
    return b"".join(frame.encode() for frame in publish(1, queue, bytes(size), properties)) * count


def test_publisher_is_stopped_by_backpressure_and_told(memory: Watched) -> None:
    """SPEC §8.6 the socket of a publisher fills, connection.blocked comes once, and afterwards all of it is taken."""
    with memory.node.login(capabilities=LISTENS) as publisher:
        publisher.declare("q")
        memory.set(True)
        data = burst("q", 20_000)
        sender = threading.Thread(daemon=True, target=publisher.socket.sendall, args=(data,))
        publisher.socket.settimeout(3 * PATIENCE)
        sender.start()
        assert publisher.expect(spec.ConnectionBlocked).reason == MEMORY
        assert publisher.silent(0.3)
        assert sender.is_alive(), "all of it was taken"
        assert memory.statuses() == ["blocked"]
        assert memory.ready() == 1
        memory.set(False)
        publisher.expect(spec.ConnectionUnblocked)
        sender.join()
        eventually(lambda: memory.ready() == 20_000)
        assert memory.statuses() == ["running"]


def test_consumers_go_on_and_new_ones_come(memory: Watched) -> None:
    """SPEC §8.6 deliveries, acknowledgements and logins go on during an alarm."""
    with memory.node.login(capabilities=LISTENS) as publisher, memory.node.login() as consumer:
        publisher.declare("q")
        publisher.publish_many("q", [b"%d" % number for number in range(100)])
        memory.set(True)
        publisher.socket.sendall(burst("q", 2))
        publisher.expect(spec.ConnectionBlocked)
        consumer.call(spec.BasicQos(prefetch_count=1), spec.BasicQosOk)
        consumer.call(spec.BasicConsume("q", "c"), spec.BasicConsumeOk)
        for number in range(50):
            assert consumer.delivery() == b"%d" % number
            consumer.send(method(1, spec.BasicAck(number + 1)))
        with memory.node.login() as late:
            late.send(method(1, spec.BasicGet("q", no_ack=True)))
            assert late.delivery() == b"51"
        assert sorted(memory.statuses())[:2] == ["blocked", "blocking"]


def test_stopped_connection_still_gets_messages(memory: Watched) -> None:
    """SPEC §8.6 its own consumers are served, and its heartbeats are not missed though they are not read."""
    with memory.node.login(capabilities=LISTENS, heartbeat_s=1) as both, memory.node.login() as other:
        both.declare("mine")
        both.declare("q")
        both.call(spec.BasicConsume("mine", "c", no_ack=True), spec.BasicConsumeOk)
        memory.set(True)
        both.socket.sendall(burst("q", 2))
        both.expect(spec.ConnectionBlocked)
        start = time.monotonic()
        while time.monotonic() - start < 3:
            assert both.frame() == (8, 0, b"")
        other.send(*publish(1, "mine", b"to you"))
        assert both.delivery() == b"to you"
        memory.set(False)
        both.expect(spec.ConnectionUnblocked)
        eventually(lambda: memory.ready() == 2)


def test_stopped_connection_may_close_or_be_cut(memory: Watched) -> None:
    """SPEC §8.6 a client that goes while it is stopped is forgotten at the latest when publishers go on."""
    cut, closing = memory.node.login(capabilities=LISTENS), memory.node.login(capabilities=LISTENS)
    cut.declare("q")
    memory.set(True)
    for client in (cut, closing):
        client.socket.sendall(burst("q", 2))
        client.expect(spec.ConnectionBlocked)
    cut.socket.close()
    closing.send(method(0, spec.ConnectionClose(200, "bye")))
    memory.set(False)
    closing.expect(spec.ConnectionUnblocked)
    closing.expect(spec.ConnectionCloseOk)
    closing.socket.close()
    eventually(lambda: not memory.node.node.transports)


def test_stopped_connections_hear_that_the_broker_stops(memory: Watched) -> None:
    """SPEC §8.6 shutting down does not wait for clients that are stopped."""
    client = memory.node.login(capabilities=LISTENS)
    client.declare("q")
    memory.set(True)
    client.socket.sendall(burst("q", 100))
    client.expect(spec.ConnectionBlocked)
    loop = memory.node._loop
    stopping = asyncio.run_coroutine_threadsafe(memory.node.node.stop(), loop)
    assert client.expect(spec.ConnectionClose).reply_code == 320
    client.send(method(0, spec.ConnectionCloseOk()))
    assert client.at_end()
    client.socket.close()
    stopping.result(2)


def test_deleted_user_who_is_stopped_is_closed(memory: Watched) -> None:
    """SPEC §8.6 the model may end a connection that is stopped; its close-ok is heard."""
    broker = memory.node.node.broker
    memory.node.call(lambda: broker.add_user("u", "u"))
    memory.node.call(lambda: broker.set_permissions("u", "/", ".*", ".*", ".*"))
    with memory.node.login(capabilities=LISTENS, response=b"\0u\0u") as client:
        client.declare("q")
        memory.set(True)
        client.socket.sendall(burst("q", 100))
        client.expect(spec.ConnectionBlocked)
        memory.node.call(lambda: broker.delete_user("u"))
        assert client.expect(spec.ConnectionClose).reply_code == 320
        client.send(method(0, spec.ConnectionCloseOk()))
        assert client.at_end()
    eventually(lambda: not memory.node.node.transports)


def test_closed_alarms_look_no_more() -> None:
    """SPEC §8.6 a turn that ends after the broker has stopped starts no timer."""
    loop, alarms = watched(Alarm(MEMORY, 1000, lambda: 10))
    alarms.start()
    alarms.close()
    loop.delay = -1
    alarms.end_turn()
    assert loop.delay == -1


def test_many_publishers_are_stopped_and_go_on(memory: Watched) -> None:
    """SPEC §8.8 alarm after alarm, nobody is forgotten and nothing is lost."""
    clients = [memory.node.login(capabilities=LISTENS) for _ in range(20)]
    clients[0].declare("q")
    for count in range(1, 6):
        memory.set(True)
        for client in clients:
            client.socket.sendall(burst("q", 50, size=10))
            client.expect(spec.ConnectionBlocked)
        memory.set(False)
        for client in clients:
            client.expect(spec.ConnectionUnblocked)
        eventually(lambda expected=count * 20 * 50: memory.ready() == expected)  # type: ignore[misc]
    for client in clients:
        client.socket.close()


# Storage that is behind


def test_publishers_wait_while_storage_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.8 with a disk that takes its time what waits for it is bounded; publishers are not told, others go on."""
    let = threading.Event()
    monkeypatch.setattr(module, "BEHIND_BYTES", 4 * MIB)
    count, size = 4000, 10_000
    with InProcess(Config(port=0, data_dir=str(tmp_path), segment_size=16 * MIB, disk_free_limit=0)) as node:
        watched = Watched(node, [0])
        with node.login(capabilities=LISTENS) as publisher, node.login() as other:
            publisher.declare("q", durable=True)
            other.declare("ping")
            storage: Any = node.node.broker.storage
            slow_down(storage.journal, monkeypatch, let)
            sender = threading.Thread(
                daemon=True, target=publisher.socket.sendall, args=(burst("q", count, size, PERSISTENT),)
            )
            sender.start()
            eventually(lambda: "flow" in watched.statuses())
            behind = node.call(storage.unsynced_size)
            assert 4 * MIB < behind < 6 * MIB
            assert other.longest_ping(0.2) < 0.25
            assert node.call(storage.unsynced_size) == behind
            let.set()
            sender.join()
            eventually(lambda: watched.ready() == count)
            assert publisher.silent(0), "it was told"
            eventually(lambda: watched.statuses() == ["running", "running"])


def test_only_those_wait_who_gave_storage_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.8 storage that is behind because of one publisher does not stop others who give it little or nothing."""
    let = threading.Event()
    monkeypatch.setattr(module, "BEHIND_BYTES", 4 * MIB)
    with InProcess(Config(port=0, data_dir=str(tmp_path), segment_size=16 * MIB, disk_free_limit=0)) as node:
        watched = Watched(node, [0])
        with node.login() as heavy, node.login() as light, node.login() as transient:
            heavy.declare("q", durable=True)
            light.declare("light", durable=True)
            transient.declare("transient")
            storage: Any = node.node.broker.storage
            slow_down(storage.journal, monkeypatch, let)
            data = burst("q", 4000, 10_000, PERSISTENT)
            sender = threading.Thread(daemon=True, target=heavy.socket.sendall, args=(data,))
            sender.start()
            eventually(lambda: "flow" in watched.statuses())
            for client, queue, properties in ((light, "light", PERSISTENT), (transient, "transient", Properties())):
                for number in range(1, 11):
                    client.send(*publish(1, queue, bytes(10_000), properties))
                    assert client.declare(queue, passive=True) == number
            assert sorted(watched.statuses()) == ["flow", "running", "running"]
            # Bounded all the same: from here on everyone is stopped who publishes.
            more = threading.Thread(
                daemon=True, target=light.socket.sendall, args=(burst("light", 1000, 10_000, PERSISTENT),)
            )
            more.start()
            eventually(lambda: watched.statuses().count("flow") == 2)
            assert node.call(storage.unsynced_size) < 7 * MIB
            let.set()
            sender.join()
            more.join()
            eventually(lambda: heavy.declare("q", passive=True) == 4000)
            eventually(lambda: light.declare("light", passive=True) == 1010)
            eventually(lambda: set(watched.statuses()) == {"running"})


def test_what_is_paged_out_is_written_though_nobody_is_answered(tmp_path: Path) -> None:
    """SPEC §8.5 transient messages beyond the window go to disk while they come, not with the next answer to somebody."""
    config = Config(port=0, data_dir=str(tmp_path), segment_size=16 * MIB, disk_free_limit=0)
    with InProcess(config) as node, node.login() as publisher:
        publisher.declare("q")
        storage: Any = node.node.broker.storage
        publisher.socket.sendall(burst("q", 8000, 10_000))
        eventually(lambda: node.node.broker.vhosts["/"].queues["q"].ready_count == 8000)
        eventually(lambda: node.call(storage.unsynced_size) < MIB)


def slow_down(journal: Any, monkeypatch: pytest.MonkeyPatch, let: threading.Event) -> None:
    """Have syncs wait until they are let."""
    from leveret.store.journal import BatchToWrite

    sync = BatchToWrite.sync

    def wait(batch: BatchToWrite) -> None:
        let.wait(PATIENCE)
        sync(batch)

    monkeypatch.setattr(BatchToWrite, "sync", wait)


# Real runs


def test_low_disk_stops_publishers(tmp_path: Path) -> None:
    """SPEC §8.6 with less free than `disk_free_limit` a publisher hears "low on disk", and consumers go on."""
    with Process(tmp_path, environment={"LEVERET_DISK_FREE_LIMIT": str(1 << 50)}) as broker:
        assert "low on disk (" in broker.log
        with broker.login(capabilities=LISTENS) as publisher, broker.login() as consumer:
            publisher.declare("q", durable=True)
            consumer.call(spec.BasicConsume("q", "c", no_ack=True), spec.BasicConsumeOk)
            publisher.socket.sendall(burst("q", 2))
            assert publisher.expect(spec.ConnectionBlocked).reason == DISK
            assert consumer.delivery() == bytes(1000)
            assert consumer.silent(0.3)


@pytest.mark.parametrize("size", [100, 10_000, 60_000])
def test_memory_stays_under_the_watermark(tmp_path: Path, size: int) -> None:
    """SPEC §8.6 a publisher that never stops is stopped in time, is told, and goes on whenever a consumer has made room."""
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with Process(tmp_path / "first") as broker, broker.login():
        watermark = broker.resident + 60 * MIB
    # Not on disk: there, what queues have beyond their windows does not stay in memory.
    environment = {"LEVERET_MEMORY_WATERMARK": str(watermark), "LEVERET_STORAGE": "memory"}
    with Process(tmp_path / "second", environment=environment) as broker, Most(lambda: broker.resident, 0.002) as sampler:
        with broker.login(capabilities=LISTENS) as publisher, broker.login(heartbeat_s=0) as consumer:
            publisher.declare("q")
            stop = threading.Event()
            sender = threading.Thread(daemon=True, target=send_until, args=(publisher, burst("q", 50, size), stop))
            sender.start()
            for _ in range(2):
                wait_until_stopped(publisher)
                assert sampler.most > 0.95 * watermark
                consumer.call(spec.BasicConsume("q", "c", no_ack=True), spec.BasicConsumeOk)
                drain_until(consumer, lambda: not publisher.silent(0))
                publisher.expect(spec.ConnectionUnblocked)
                consumer.send(method(1, spec.BasicCancel("c")))
                skip_to_cancel_ok(consumer)
            stop.set()
            publisher.socket.shutdown(socket.SHUT_RDWR)
            sender.join()
        assert broker.log.count(": publishers are blocked") >= 2
        assert sampler.most < 1.1 * watermark, f"{sampler.most / watermark:.3f} of the watermark"


def send_until(client: Client, data: bytes, stop: threading.Event) -> None:
    """Send this again and again; the socket may take a part of it at a time, or nothing for long."""
    at = 0
    while not stop.is_set():
        try:
            at = (at + client.socket.send(data[at:])) % len(data)
        except OSError:
            continue


def wait_until_stopped(publisher: Client) -> None:
    """Wait until it is stopped for good: at first the heap may have had more to give back."""
    assert publisher.expect(spec.ConnectionBlocked).reason == MEMORY
    while not publisher.silent(1.5):
        publisher.expect(spec.ConnectionUnblocked)
        publisher.expect(spec.ConnectionBlocked)


def drain_until(consumer: Client, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 3 * PATIENCE
    while not done():
        assert time.monotonic() < deadline, "the publisher was never let go on"
        if not consumer.silent(0.01):
            consumer.skip_deliveries(1)


def skip_to_cancel_ok(consumer: Client) -> None:
    while True:
        kind, _, payload = consumer.frame()
        if kind == 1 and payload[:4] == b"\x00\x3c\x00\x1f":
            return


def test_pressure_is_felt_before_memory_is_low() -> None:
    """SPEC §8.5: with less than two fifths of its limit left, queues are asked at each look; of the disk nobody is."""
    gauge, disk = Gauge(200), Gauge(1)
    _, alarms = watched(Alarm(MEMORY, 1000, gauge.read), Alarm(DISK, 1000, disk.read))
    asked: list[tuple[int, int]] = []
    alarms.on_pressure = lambda limit, room: asked.append((limit, room))
    for left in (1000, 400, 399, 1, -1):
        gauge.left = left
        alarms.look()
    assert asked == [(1000, BEHIND_BYTES)] * 3
