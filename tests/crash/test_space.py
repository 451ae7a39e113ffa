"""Disk space: gigabytes through a queue that holds one old message, and the data folder stays small at every moment."""

import os
import threading
from pathlib import Path

import pytest
from tests.bench.client import EMPTY_TABLE, Client, connect, method, publish_frames, shortstr
from tests.server.support import MIB, Most, Process

SPACE_BYTES = int(os.environ.get("SOAK_SPACE", str(4_000_000_000)))
SEGMENT = 8 * MIB
# What is published and not acknowledged yet, at most: the live messages besides the old one.
WINDOW = 4_000_000
SAMPLE_S = 0.02
PATIENCE = 60.0
PERSISTENT = (0x1000, b"\x02")
TAG = "c"


def folder_bytes(folder: Path) -> int:
    found = 0
    for entry in os.scandir(folder):
        try:
            found += entry.stat().st_size
        except FileNotFoundError:
            continue
    return found


def publish(port: int, body: bytes, count: int, room: threading.Semaphore) -> None:
    """Publish so many messages, each when there is room in the window."""
    data = publish_frames("", "q", body, *PERSISTENT)
    with connect(port) as client:
        for _ in range(count):
            assert room.acquire(timeout=PATIENCE)
            client.sock.sendall(data)
        client.settle()


def subscribe(client: Client) -> None:
    client.sock.sendall(method(60, 20, b"\0\0" + shortstr("q") + shortstr(TAG) + b"\0" + EMPTY_TABLE))
    client.expect(60, 21)


def consume(client: Client, size: int, count: int, room: threading.Semaphore) -> None:
    """Acknowledge deliveries of `size` octets as they come."""
    got = acked = 0
    buffer = bytearray(MIB)
    while acked < count:
        got += client.sock.recv_into(buffer)
        done = got // size
        if done > acked:
            client.sock.sendall(method(60, 80, done.to_bytes(8, "big") + b"\1"))
            room.release(done - acked)
            acked = done


def delivery_size(port: int, body: bytes) -> int:
    """How many octets a delivery of this is, found out with a message that nobody needs."""
    with connect(port) as client:
        client.sock.sendall(publish_frames("", "q", body, *PERSISTENT))
        subscribe(client)
        client.expect(60, 60)
        size = 7 + 1 + 4 + len(shortstr(TAG)) + 8 + 1 + len(shortstr("")) + len(shortstr("q"))
        got = 0
        client.read_frame()
        size += 8 + 15
        while got < len(body):
            piece = client.read_frame()[1]
            got += len(piece)
            size += 8 + len(piece)
        client.sock.sendall(method(60, 80, bytes(8) + b"\1"))
        client.settle()
    return size


@pytest.mark.parametrize(("size", "part"), [(100_000, 1), (1_000_000, 4)])
@pytest.mark.timeout(60 + SPACE_BYTES // 20_000_000)
def test_space_behind_one_old_message(tmp_path: Path, size: int, part: int) -> None:
    """SPEC §8.4: the data folder stays under twice what is live and four segments, at every moment."""
    body = os.urandom(size)
    count = SPACE_BYTES // part // size
    room = threading.Semaphore(WINDOW // size)
    environment = {"LEVERET_SEGMENT_SIZE": str(SEGMENT)}
    with Process(tmp_path, environment=environment) as broker, connect(broker.port) as holder:
        holder.declare_queue("q", durable=True)
        delivery = delivery_size(broker.port, body)
        holder.sock.sendall(publish_frames("", "q", body, *PERSISTENT))
        holder.prefetch(1)
        subscribe(holder)
        holder.expect(60, 60)
        with connect(broker.port) as consumer, Most(lambda: folder_bytes(tmp_path / "data"), SAMPLE_S) as watch:
            subscribe(consumer)
            publisher = threading.Thread(target=publish, args=(broker.port, body, count, room))
            publisher.start()
            consume(consumer, delivery, count, room)
            publisher.join()
        limit = 2 * (WINDOW + size) + 4 * SEGMENT
        assert watch.samples > 20
        assert watch.most < limit, f"{watch.most} octets, {limit} allowed"
