"""Runs a broker in plain Python, and prints which of its functions something went through, as JSON.

    LEVERET_PURE=1 python tests/structure/record_walk.py transient|lost|persistent|declare

Everything is done once before, so that what is made or remembered the first time is no part of it. A row is file and
function of a call, and file and function of where it came from: the nearest one on the stack that is Leveret's.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
import tempfile
import threading
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.properties.dialogue import method, publish
from tests.server.support import Client

import leveret
from leveret.testing import Broker
from leveret.wire import spec
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ROOT = str(Path(leveret.__file__).parent) + "/"
SEGMENT_SIZE = 1 << 16
BODY = bytes(20_000)
MESSAGES_MAX = 200
# All of it: that of another file may have begun before.
COMPACTION = (
    ("store/ledger.py", "flush"),
    ("store/compaction.py", "look"),
    ("store/compaction.py", "run"),
    ("store/compaction.py", "read"),
    ("store/journal.py", "move"),
    ("store/compaction.py", "cleaned"),
    ("store/disk.py", "remove"),
)
PATIENCE_S = 60.0

Step = tuple[str, str]
Row = tuple[str, str, str, str]


class Recorder:
    """The calls in all threads of the broker, in their order."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._wanted: Step | None = None
        self._found = threading.Event()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        callee = step_of(frame) if event == "call" else None
        if callee is None:
            return
        above = frame.f_back
        caller = None
        while above is not None and caller is None:
            caller = step_of(above)
            above = above.f_back
        self.rows.append((*callee, *(caller or ("", ""))))
        if callee == self._wanted:
            self._found.set()

    def expect(self, path: str, name: str) -> None:
        """What `wait` waits for."""
        self._found.clear()
        self._wanted = (path, name)

    def wait(self) -> None:
        assert self._found.wait(PATIENCE_S), self._wanted

    def has(self, steps: tuple[Step, ...], since: int) -> bool:
        """Whether these were taken, in this order, behind the first rows."""
        rows = iter(self.rows[since:])
        return all(any(row[:2] == step for row in rows) for step in steps)

    def record(self, walk: Callable[[], None]) -> list[Row]:
        """What a walk goes through the second time."""
        walk()
        self.rows = []
        walk()
        return list(self.rows)


def step_of(frame: FrameType) -> Step | None:
    """File and function; a lambda or a comprehension counts as the function it stands in."""
    path = frame.f_code.co_filename
    if not path.startswith(ROOT):
        return None
    return path[len(ROOT) :], frame.f_code.co_qualname.split(".<locals>")[0].rpartition(".")[2]


def transient(broker: Broker, recorder: Recorder) -> list[Row]:
    """A transient message goes to a consumer, which acknowledges it."""
    client = Client(broker.port).login()
    # Answered when it is on disk, and with it what the broker has stored when it began.
    client.declare("stored", durable=True)
    client.declare("q", exclusive=True)
    client.call(spec.BasicConsume("q"), spec.BasicConsumeOk)

    def walk() -> None:
        client.send(*publish(1, "q", b"x"))
        deliver = client.expect(spec.BasicDeliver)
        client.skip_content()
        recorder.expect("broker/consumer.py", "free")
        client.send(method(1, spec.BasicAck(deliver.delivery_tag)))
        recorder.wait()

    with client:
        return recorder.record(walk)


def lost(broker: Broker, recorder: Recorder) -> list[Row]:
    """A client goes that has a persistent message unacknowledged, and an exclusive queue; another one gets the message."""
    with ExitStack() as stack:
        other, *leaving = (stack.enter_context(Client(broker.port).login()) for _ in range(3))
        other.declare("q", durable=True)
        for number, client in enumerate(leaving):
            client.declare(f"own {number}", exclusive=True)
            client.call(spec.BasicQos(prefetch_count=1), spec.BasicQosOk)
            client.call(spec.BasicConsume("q"), spec.BasicConsumeOk)
        for client in leaving:
            other.send(*publish(1, "q", b"x", Properties(delivery_mode=2)))
            client.expect(spec.BasicDeliver)
            client.skip_content()
        other.call(spec.BasicConsume("q"), spec.BasicConsumeOk)
        # Answered when it is on disk, and with it the messages.
        other.declare("stored", durable=True)
        remaining = iter(leaving)

        def walk() -> None:
            recorder.expect("server/outbox.py", "on_progress")
            next(remaining).socket.close()
            other.expect(spec.BasicDeliver)
            other.skip_content()
            recorder.wait()

        return recorder.record(walk)


def persistent(broker: Broker, recorder: Recorder) -> list[Row]:
    """Persistent messages are confirmed, delivered and acknowledged until the oldest file of the journal is compacted."""
    client = Client(broker.port).login()
    client.declare("kept", durable=True)
    client.declare("q", durable=True)
    client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
    client.call(spec.BasicConsume("q"), spec.BasicConsumeOk)
    properties = Properties(delivery_mode=2)

    def confirmed(queue: str, body: bytes) -> None:
        client.send(*publish(1, queue, body, properties))
        waiting: set[type[spec.Method]] = {spec.BasicAck}
        if queue == "q":
            waiting.add(spec.BasicDeliver)
        while waiting:
            found = client.read()
            waiting.discard(type(found))
            if isinstance(found, spec.BasicDeliver):
                client.skip_content()
                client.send(method(1, spec.BasicAck(found.delivery_tag)))

    def walk() -> None:
        # In the file that is compacted then: it is copied.
        confirmed("kept", b"x")
        for _ in range(3):
            confirmed("q", BODY)
        since = len(recorder.rows)
        for _ in range(MESSAGES_MAX):
            confirmed("q", BODY)
            if recorder.has(COMPACTION, since):
                return
        raise AssertionError("nothing was compacted")

    with client:
        return recorder.record(walk)


def declare(broker: Broker, recorder: Recorder) -> list[Row]:
    """The HTTP API declares a durable queue."""
    host, port = broker.listeners["http"]
    login = "Basic " + base64.b64encode(b"guest:guest").decode()
    names = iter(("first", "second"))
    client = HTTPConnection(host, port)

    def walk() -> None:
        headers = {"Authorization": login, "Content-Type": "application/json"}
        client.request("PUT", f"/api/queues/%2F/{next(names)}", b'{"durable": true}', headers)
        with client.getresponse() as answer:
            assert answer.status == 201
            answer.read()

    with closing(client):
        return recorder.record(walk)


WALKS = {"transient": transient, "lost": lost, "persistent": persistent, "declare": declare}


def main(name: str) -> None:
    # It is stopped under its clients, and says so.
    logging.disable()
    recorder = Recorder()
    threading.setprofile(recorder)
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(storage="disk", data_dir=folder, segment_size=SEGMENT_SIZE, management=name == "declare")
        with broker:
            rows = WALKS[name](broker, recorder)
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
