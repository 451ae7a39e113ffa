"""What the generators send and how they keep to a rate, without a broker where none is needed."""

import os
import struct
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from tests.bench import pace
from tests.bench.amqp_load import Load, Stream, parse, publish
from tests.bench.batches import Batches
from tests.bench.brokers import Broker, leveret
from tests.bench.client import BODY, EMPTY_TABLE, FRAME_OVERHEAD, HEADER, METHOD, connect, shortstr
from tests.bench.pace import LATE_SECONDS, Pace, Slices
from tests.bench.processes import FORK, Gate, LoadFailed, Outcome, percentile, run_together


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with leveret(os.environ.get("LEVERET_PURE") == "1") as broker:
        yield broker


def frames_of(data: bytes | bytearray | memoryview) -> Iterator[tuple[int, bytes]]:
    data = bytes(data)
    at = 0
    while at < len(data):
        kind, _, size = struct.unpack_from(">BHI", data, at)
        assert data[at + 7 + size] == 0xCE
        yield kind, data[at + 7 : at + 7 + size]
        at += size + FRAME_OVERHEAD


@pytest.mark.parametrize("keys", [["q"], ["a", "b", "c"]])
def test_no_two_bodies_are_the_same_over_every_octet_of_the_turn(keys: list[str]) -> None:
    """More than 65,536 turns, so that three octets of the number have changed, of writes of one or two messages."""
    batches = Batches("", keys, 8, (0, b""), most=2)
    turns, cycle = 65_536 + 2, -(-len(keys) // 2) if len(keys) > 1 else 1
    bodies = set()
    for _ in range(turns * cycle):
        write = bytes(batches.next(2))
        for number in (1, 2):
            bodies.add(write[batches.size * number - 9 : batches.size * number - 1])
    assert len(bodies) == 2 * turns * cycle


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 7, 8, 9, 100, 131_064, 131_065, 300_000])
def test_what_is_sent_stays_a_publish(size: int) -> None:
    """Bodies shorter than their numbers, and around those that take another frame."""
    batches = Batches("x", ["k"], size, (0x1000, b"\x02"), most=3)
    for _ in range(257):
        batches.next(batches.per_batch)
    write = batches.next(batches.per_batch)
    frames = list(frames_of(write))
    assert len(write) == batches.size * batches.per_batch
    assert sum(kind == METHOD for kind, _ in frames) == batches.per_batch
    assert sum(len(payload) for kind, payload in frames if kind == BODY) == size * batches.per_batch
    assert {payload[4:12] for kind, payload in frames if kind == HEADER} == {struct.pack(">Q", size)}


def test_each_routing_key_has_its_turn_and_a_part_of_a_write_is_its_beginning() -> None:
    batches = Batches("x", ["a", "b", "c"], 20, (0, b""), most=2)
    writes = [bytes(batches.next(2)) for _ in range(2)]
    keys = [payload[9:10] for write in writes for kind, payload in frames_of(write) if kind == METHOD]
    assert keys == [b"a", b"b", b"c", b"a"]
    assert [kind for kind, _ in frames_of(batches.next(1))] == [METHOD, HEADER, BODY]


def test_bodies_that_a_broker_has_are_all_different(broker: Broker) -> None:
    name, count = "distinct", 2000
    gate = Gate(FORK.Semaphore(0), FORK.Event())
    gate.go.set()
    with connect(broker.port) as client:
        client.declare_queue(name)
        publish(Load(port=broker.port, window=300, confirm=True), Stream(name, "", [name], count), gate)
        client.call(60, 20, b"\0\0" + shortstr(name) + shortstr("c") + b"\2" + EMPTY_TABLE)
        bodies = set()
        for _ in range(3 * count):
            kind, payload = client.read_frame()
            if kind == BODY:
                bodies.add(payload)
        client.delete_queue(name)
    assert len(bodies) == count
    assert {len(body) for body in bodies} == {100}


class Clock:
    """Time that passes only where somebody sleeps or sets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(pace, "time", SimpleNamespace(perf_counter=clock.perf_counter, sleep=clock.sleep))
    return clock


def test_pace_waits_until_what_was_done_is_due(clock: Clock) -> None:
    paced = Pace(10, started=0)
    for done in (1, 2, 5):
        paced.wait(done)
        assert clock.now == pytest.approx(done / 10)


def test_who_is_late_does_not_make_up_for_it(clock: Clock) -> None:
    paced = Pace(10, started=0)
    clock.now = 0.1 + LATE_SECONDS
    paced.wait(1)
    paced.wait(2)
    assert clock.now == pytest.approx(0.2)  # just in time
    clock.now = 5.0
    paced.wait(3)
    paced.wait(4)
    assert clock.now == pytest.approx(5.1)


def test_without_a_rate_there_is_no_waiting(clock: Clock) -> None:
    Pace(0, started=0).wait(10**9)
    assert clock.now == 0


def test_slices_have_what_was_done_in_each_also_in_those_without_anything() -> None:
    slices = Slices(1.0, started=10.0)
    for done, now in ((5, 10.5), (8, 11.0), (9, 13.5)):
        slices.count(done, now)
    assert slices.counts == [8, 1, 0]


def test_percentiles() -> None:
    values = list(range(1000))
    assert [percentile(values, part) for part in (0.5, 0.99, 0.999, 1.0)] == [500, 990, 999, 999]
    assert percentile([7], 0.5) == 7


def test_what_a_process_died_of_is_told() -> None:
    def dies(gate: Gate) -> Outcome:
        raise LoadFailed("of this")

    with pytest.raises(LoadFailed, match="unhappy: LoadFailed: of this"):
        run_together([("unhappy", dies)])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--queues", "0"],
        ["--queues", "2", "--count", "1"],
        ["--one-pair", "--keys", "3"],
        ["--one-pair", "--fanout"],
        ["--times", "0"],
        ["--times", "2", "--drain"],
        ["--slow", "--queues", "2"],
        ["--slow", "--seconds", "0"],
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert "error:" in capsys.readouterr().err
