"""Shovels whose brokers are stopped, killed and started again: nothing is lost, and nobody waits."""

import asyncio
import threading
import time
from functools import partial
from pathlib import Path

from tests.management.amqp import channel_of, soon
from tests.server.support import InProcess, eventually
from tests.shovel.support import Shovelling, bodies, fill, folder, length, taken

COUNT = 3000


def longer(broker: Shovelling, queue: str, count: int) -> bool:
    return length(broker, queue) > count


def test_destination_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """SPEC §9.8: on-confirm, at least once: the destination is killed twice in the middle, and comes back."""
    import pika

    port = 0
    with Shovelling(folder(tmp_path, "here")) as here:
        there = Shovelling(folder(tmp_path, "there")).__enter__()
        port = there.port
        here.set("s", {"src-uri": "amqp://", "src-queue": "a", "dest-uri": there.uri(), "dest-queue": "b"})
        here.wait("s")
        persistent = pika.BasicProperties(delivery_mode=2)
        stop = threading.Event()

        def publish() -> None:
            with channel_of(here) as channel:
                for body in bodies(COUNT):
                    channel.basic_publish("", "a", body, persistent)
                    if int(body) % 20 == 0:
                        time.sleep(0.01)
            stop.set()

        publisher = threading.Thread(target=publish)
        publisher.start()
        for _ in range(2):
            soon(partial(longer, there, "b", 100))
            time.sleep(0.2)
            there.kill()
            here.wait("s", "terminated")
            there = Shovelling(folder(tmp_path, "there"), "--port", str(port)).__enter__()
            here.wait("s")
        publisher.join()
        try:
            soon(lambda: here.http().get("/api/queues/%2F/a")["messages"] == 0)
            found = taken(there, "b")
            assert set(found) == set(bodies(COUNT))
            # Only what was not confirmed may have come twice.
            assert len(found) <= COUNT + 2 * 1000
        finally:
            there.__exit__(None, None, None)


def test_source_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """SPEC §9.8: the same with the source, from the side of the destination."""
    import pika

    with Shovelling(folder(tmp_path, "here")) as here:
        there = Shovelling(folder(tmp_path, "there")).__enter__()
        port = there.port
        with channel_of(there) as channel:
            channel.queue_declare("a", durable=True)
            channel.confirm_delivery()
            for body in bodies(1000):
                channel.basic_publish("", "a", body, pika.BasicProperties(delivery_mode=2))
        more = {"src-prefetch-count": 10}
        here.set("s", {"src-uri": there.uri(), "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b", **more})
        soon(lambda: length(here, "b") > 0)
        there.kill()
        here.wait("s", "terminated")
        there = Shovelling(folder(tmp_path, "there"), "--port", str(port)).__enter__()
        try:
            here.wait("s")
            soon(lambda: there.http().get("/api/queues/%2F/a")["messages"] == 0)
            assert set(taken(here, "b")) == set(bodies(1000))
        finally:
            there.__exit__(None, None, None)


def test_broker_stops_soon_and_goes_on_after_its_start(tmp_path: Path) -> None:
    """SPEC §9.8: shovels end with their broker, whatever their other ends do, and are there again when it is."""
    with Shovelling(folder(tmp_path, "there")) as there:
        with Shovelling(folder(tmp_path, "here")) as here:
            here.set("s", {"src-uri": "amqp://", "src-queue": "a", "dest-uri": there.uri(), "dest-queue": "b"})
            here.set("t", {"src-uri": there.uri(), "src-queue": "b", "dest-uri": "amqp://", "dest-queue": "c"})
            here.set("u", {"src-uri": "amqp://", "src-queue": "d", "dest-uri": "amqp://", "ack-mode": "no-ack"})
            here.set("v", {"src-uri": "amqp://127.0.0.1:1", "src-queue": "d", "dest-uri": "amqp://"})
            for name in ("s", "t", "u"):
                here.wait(name)
        assert "Task was destroyed" not in here.log
        assert "never retrieved" not in here.log
        with Shovelling(folder(tmp_path, "here")) as here:
            for name in ("s", "t", "u"):
                here.wait(name)
            fill(here, "a", bodies(10))
            soon(lambda: length(here, "c") == 10)


def test_broker_stops_soon_while_the_destination_hangs(tmp_path: Path) -> None:
    """SPEC §9.8: one that takes no more and answers nothing keeps nobody."""
    import os
    import signal

    with Shovelling(folder(tmp_path, "there")) as there:
        here = Shovelling(folder(tmp_path, "here")).__enter__()
        for mode in ("on-confirm", "no-ack"):
            value = {"src-uri": "amqp://", "src-queue": mode, "dest-uri": there.uri(), "dest-queue": mode, "ack-mode": mode}
            here.set(mode, value)
            here.wait(mode)
        os.kill(there.popen.pid, signal.SIGSTOP)
        try:
            for mode in ("on-confirm", "no-ack"):
                fill(here, mode, [bytes(100_000)] * 100)
            here.__exit__(None, None, None)
        finally:
            os.kill(there.popen.pid, signal.SIGCONT)


def test_memory_stays_bounded_while_the_destination_hangs(tmp_path: Path) -> None:
    """SPEC §9.8: without acknowledgements and without a prefetch, what is read is what can be passed on."""
    import os
    import signal

    with Shovelling(folder(tmp_path, "there")) as there, Shovelling(folder(tmp_path, "here")) as here:
        for mode, more in (("on-publish", {"src-prefetch-count": 0}), ("no-ack", {})):
            value = {"src-uri": "amqp://", "src-queue": mode, "dest-uri": there.uri(), "dest-queue": mode, "ack-mode": mode}
            here.set(mode, value | more)
            here.wait(mode)
        os.kill(there.popen.pid, signal.SIGSTOP)
        try:
            for mode in ("on-publish", "no-ack"):
                fill(here, mode, [bytes(100_000)] * 400)
                here.wait(mode, "flow")
                # 40 MB were given; sockets and buffers hold a few.
                assert length(here, mode) > 200
        finally:
            os.kill(there.popen.pid, signal.SIGCONT)
        for mode in ("on-publish", "no-ack"):
            soon(lambda mode=mode: length(there, mode) == 400)  # type: ignore[misc]


def test_parameter_from_before_they_were_checked(tmp_path: Path) -> None:
    """SPEC §9.8: what cannot be run is told in the log, and the others run."""
    node = InProcess()
    vhost = node.node.broker.vhosts["/"]
    vhost.parameters.values["shovel", "bad"] = {"src-uri": 5}
    vhost.parameters.set("shovel", "good", {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://"})
    with node:
        shovels = node.node.shovels
        assert shovels is not None
        eventually(lambda: [(one.name, one.state) for one in shovels.all()] == [("good", "running")])
        assert node.call(lambda: len(asyncio.all_tasks())) < 5


def test_nothing_is_left_of_shovels_that_come_and_go() -> None:
    """SPEC §9.8: no task, no connection, no queue."""
    with InProcess() as broker:
        vhost, node = broker.node.broker.vhosts["/"], broker.node
        value = {"src-uri": "amqp://", "src-exchange": "amq.fanout", "dest-uri": "amqp://", "dest-exchange": "amq.topic"}
        before = broker.call(lambda: len(asyncio.all_tasks()))
        for number in range(50):
            change = partial(vhost.parameters.set, "shovel", "s", value | {"reconnect-delay": number})
            broker.call(partial(node.do, change))
            if number % 3 == 0:
                broker.call(lambda: node.do(lambda: vhost.parameters.clear("shovel", "s")))
            if number % 5 == 0:
                time.sleep(0.01)
        broker.call(lambda: node.do(lambda: vhost.parameters.clear("shovel", "s")))
        eventually(lambda: not node.transports and not vhost.queues)
        eventually(lambda: broker.call(lambda: len(asyncio.all_tasks())) == before)
