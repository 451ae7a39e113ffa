"""The real broker in this process: soon there, soon gone, and nothing of it left, which every test here looks at."""

import asyncio
import gc
import logging
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import aio_pika
import pika
import pytest
import uvloop
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, ProbableAuthenticationError
from tests.management.support import Http
from tests.properties.dialogue import publish
from tests.server.support import Client
from tests.server.tls_support import PORTS, TlsClient, Trust

from leveret.definitions.settings import BadDefinition
from leveret.errors import NotFound
from leveret.server.certificates import BadTls
from leveret.server.config import BadSetting
from leveret.testing import Broker
from leveret.wire import spec

SOON_S = 0.1


def exchange(url: str, body: bytes) -> bytes:
    """Publish to a new queue, and what is got from it."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        name = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", name, body)
        got: bytes = channel.basic_get(name, auto_ack=True)[2]
        return got


def timed(function: Callable[[], object]) -> float:
    """Processor time that it takes, in all threads."""
    start = time.process_time()
    function()
    return time.process_time() - start


# Soon there, soon gone


def test_broker_is_ready_and_gone_within_100_ms() -> None:
    """The median of 20."""
    brokers = [Broker() for _ in range(20)]
    starts, stops = zip(*[(timed(broker.start), timed(broker.stop)) for broker in brokers], strict=True)
    assert statistics.median(starts) < SOON_S
    assert statistics.median(stops) < SOON_S


def test_fifty_at_once_each_with_a_client() -> None:
    brokers = [Broker() for _ in range(50)]
    try:
        for broker in brokers:
            broker.start()
        assert len({broker.port for broker in brokers}) == 50
        connections = [pika.BlockingConnection(pika.URLParameters(broker.url)) for broker in brokers]
        channels = [connection.channel() for connection in connections]
        for number, channel in enumerate(channels):
            # The same name everywhere: each has its own.
            channel.queue_declare("q")
            channel.basic_publish("", "q", str(number).encode())
        got = [channel.basic_get("q", auto_ack=True)[2] for channel in channels]
        assert got == [str(number).encode() for number in range(50)]
        for connection in connections:
            connection.close()
    finally:
        for broker in brokers:
            broker.stop()


def test_brokers_start_and_stop_in_many_threads() -> None:
    def use(number: int) -> bytes:
        with Broker() as broker:
            return exchange(broker.url, str(number).encode())

    with ThreadPoolExecutor(10) as threads:
        assert list(threads.map(use, range(50))) == [str(number).encode() for number in range(50)]


def test_start_in_one_thread_stop_in_others() -> None:
    broker = Broker().start()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: broker.stop(), range(4)))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, broker.port))


# With asyncio


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_async_form_lets_the_loop_run(run: Callable[[Any], Any]) -> None:
    async def use() -> bytes:
        async with Broker() as broker:
            connection = await aio_pika.connect(broker.url)
            channel = await connection.channel()
            queue = await channel.declare_queue("q")
            await channel.default_exchange.publish(aio_pika.Message(b"hello"), "q")
            message = await queue.get(no_ack=True)
            await connection.close()
            return message.body

    assert run(use()) == b"hello"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_sync_form_works_inside_a_running_loop(run: Callable[[Any], Any]) -> None:
    async def use() -> bytes:
        with Broker() as broker:
            return exchange(broker.url, b"hello")

    assert run(use()) == b"hello"


def test_many_at_once_on_one_loop() -> None:
    async def use(number: int) -> bytes:
        async with Broker() as broker:
            return await asyncio.to_thread(exchange, broker.url, str(number).encode())

    async def all_of_them() -> list[bytes]:
        return await asyncio.gather(*(use(number) for number in range(10)))

    assert asyncio.run(all_of_them()) == [str(number).encode() for number in range(10)]


def test_cancelled_while_it_starts_or_stops() -> None:
    async def use(while_it_stops: bool) -> None:
        entered = asyncio.Event()

        async def enter() -> None:
            async with Broker():
                entered.set()

        task = asyncio.get_running_loop().create_task(enter())
        # After one turn of this loop it starts, which takes longer than that.
        await (entered.wait() if while_it_stops else asyncio.sleep(0))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert entered.is_set() == while_it_stops

    asyncio.run(use(False))
    asyncio.run(use(True))


def test_async_start_that_fails_says_why() -> None:
    async def use() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match=r"(?i)address already in use"):
            async with Broker(port=taken.getsockname()[1]):
                pass

    asyncio.run(use())


# What goes wrong


@pytest.mark.parametrize("settings", [{"name": "port"}, {"name": "management_port", "management": True}], ids=str)
def test_port_in_use_is_said_by_start(settings: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = {settings["name"]: taken.getsockname()[1]}
        broker = Broker(management="management" in settings, **ports)
        with pytest.raises(OSError, match=r"(?i)address already in use"):
            broker.start()
        broker.stop()
    # The port is free now, and the same object may try again.
    with broker:
        assert exchange(broker.url, b"now") == b"now"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"prot": 1}, "bad setting prot = 1 in the arguments: Object contains unknown field `prot`"),
        ({"port": "x"}, "bad setting port = 'x' in the arguments: Expected `int`, got `str`"),
        (
            {"users": [{"name": "a", "tags": 3}]},
            r"bad setting users\[0\].tags in the arguments: Expected `array`, got `int`",
        ),
        ({"storage": "disk"}, "bad setting storage = 'disk' in the arguments: it needs data_dir"),
    ],
)
def test_bad_setting_is_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadSetting, match=f"^{fault}$"):
        Broker(**settings)


def test_definition_that_cannot_be_is_said_by_start() -> None:
    with pytest.raises(BadDefinition, match="user 'nobody' not found"), Broker(permissions=[{"user": "nobody"}]):
        pass


def test_exception_inside_goes_on_and_the_broker_stops() -> None:
    broker = Broker()
    with pytest.raises(ZeroDivisionError), broker:
        _ = 1 / 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, broker.port))


def test_stop_is_idempotent_and_start_is_not() -> None:
    broker = Broker()
    broker.stop()
    with pytest.raises(RuntimeError, match="was not started"):
        _ = broker.url
    with broker:
        with pytest.raises(RuntimeError, match="is running already"):
            broker.start()
        assert exchange(broker.url, b"still") == b"still"
    broker.stop()
    broker.stop()
    with pytest.raises(RuntimeError, match="is not running"):
        broker.add_vhost("late")


# Clients that are there when it stops


def test_clients_hear_320_and_are_not_waited_for_long() -> None:
    broker = Broker().start()
    with Client(broker.port) as mute, Client(broker.port) as deaf:
        mute.login()
        deaf.login().declare("q")
        # Far below the five seconds that the broker has as a program.
        assert timed(broker.stop) < 1
        close = mute.expect(spec.ConnectionClose)
        assert (close.reply_code, close.reply_text) == (
            320,
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
        )
        assert mute.at_end()


def test_client_in_the_thread_that_stops_hears_320() -> None:
    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    with pytest.raises(ConnectionClosedByBroker, match=r"320.*shutdown"):
        connection.process_data_events(1)


def test_http_client_is_not_waited_for_long() -> None:
    """Half a request: the rest would be waited for."""
    broker = Broker(management=True).start()
    with socket.create_connection(broker.listeners["http"]) as client:
        client.sendall(b"GET /api/overview HTTP/1.1\r\nHost: x\r\n")
        assert timed(broker.stop) < 1


@pytest.mark.parametrize("management", [False, True])
def test_client_that_comes_just_then_is_closed(management: bool) -> None:
    for _ in range(20):
        broker = Broker(management=management).start()
        with socket.create_connection(broker.listeners["http" if management else "amqp"], timeout=60) as client:
            client.sendall(b"AMQP")
            broker.stop()
            # Or it was not even accepted.
            with suppress(ConnectionResetError):
                while client.recv(1000):
                    pass


# Settings


def test_settings_are_taken_by_name() -> None:
    with Broker(prefetch_size="refuse", max_message_size=10) as broker, pika_of(broker.url) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", bytes(11))
        with pytest.raises(ChannelClosedByBroker, match="message size 11 is larger than configured max size 10"):
            channel.queue_declare("q")
        with pytest.raises(ConnectionClosedByBroker, match=r"540.*prefetch_size"):
            connection.channel().basic_qos(prefetch_size=1)


def pika_of(url: str) -> Any:
    """A connection that is closed afterwards, if it is still open."""
    return Closing(pika.BlockingConnection(pika.URLParameters(url)))


class Closing:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __enter__(self) -> Any:
        return self._connection

    def __exit__(self, *_: object) -> None:
        if self._connection.is_open:
            self._connection.close()


def test_url_has_the_user_of_the_settings() -> None:
    user = {"name": "a b", "password": "p@ss/word", "tags": ["administrator"]}
    with Broker(users=[user], permissions=[{"user": "a b", "configure": ".*", "write": ".*", "read": ".*"}]) as broker:
        assert broker.url == f"amqp://a%20b:p%40ss%2Fword@127.0.0.1:{broker.port}/%2F"
        assert exchange(broker.url, b"x") == b"x"
        with pytest.raises(ProbableAuthenticationError):
            exchange(broker.url.replace("a%20b:p%40ss%2Fword", "guest:guest"), b"x")


def test_every_address_has_a_url() -> None:
    with Broker(host="::1") as six, Broker(host="0.0.0.0") as all_of_them:
        assert six.url == f"amqp://guest:guest@[::1]:{six.port}/%2F"
        assert all_of_them.url == f"amqp://guest:guest@127.0.0.1:{all_of_them.port}/%2F"
        assert exchange(six.url, b"x") == exchange(all_of_them.url, b"x") == b"x"


def test_memory_of_the_process_stops_publishers_only_if_asked_for() -> None:
    with Broker() as broker:
        assert exchange(broker.url, b"x") == b"x"
    with Broker(memory_watermark=1 << 20) as broker, Client(broker.port) as client:
        client.login(capabilities=("connection.blocked",)).declare("q")
        client.send(*publish(1, "q", b"x"))
        assert client.expect(spec.ConnectionBlocked).reason == "low on memory"


def test_disk_on_request(tmp_path: Path) -> None:
    broker = Broker(storage="disk", data_dir=tmp_path / "data")
    with broker, pika_of(broker.url) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
    with broker, pika_of(broker.url) as connection:
        assert connection.channel().basic_get("q", auto_ack=True)[2] == b"kept"


# Virtual hosts and management


def test_virtual_hosts_come_and_go() -> None:
    with Broker() as broker:
        broker.add_vhost("a/b c")
        assert broker.vhost_url("a/b c") == f"amqp://guest:guest@127.0.0.1:{broker.port}/a%2Fb%20c"
        with pika_of(broker.vhost_url("a/b c")) as connection:
            connection.channel().queue_declare("q")
            broker.delete_vhost("a/b c")
            with pytest.raises(ConnectionClosedByBroker, match=r"320.*is deleted"):
                connection.process_data_events(1)
        with pytest.raises(NotFound):
            broker.delete_vhost("a/b c")


def test_management_when_it_is_asked_for() -> None:
    with Broker() as broker:
        with pytest.raises(RuntimeError, match="management was not started"):
            _ = broker.management_url
        url = broker.start_management()
        assert broker.start_management() == url == broker.management_url
        assert url == f"http://guest:guest@127.0.0.1:{broker.listeners['http'][1]}"
        overview = Http(broker.listeners["http"][1]).get("/api/overview")
        # Not the name of this machine.
        assert overview["node"] == "leveret@localhost"
        assert {listener["protocol"] for listener in overview["listeners"]} == {"amqp", "http"}


def test_management_and_metrics_from_the_start() -> None:
    with Broker(management=True, prometheus_port=0) as broker:
        assert broker.management_url == f"http://guest:guest@127.0.0.1:{broker.listeners['http'][1]}"
        answer = Http(broker.listeners["prometheus"][1], None).ask("GET", "/metrics")
        assert (answer.status, b"rabbitmq_identity_info" in answer.body) == (200, True)


# The process it is a guest in


def test_process_stays_as_it_was() -> None:
    def state() -> object:
        names = ("", "leveret", "asyncio", "aiohttp.server")
        loggers = [(logging.getLogger(name).level, list(logging.getLogger(name).handlers)) for name in names]
        handlers = [signal.getsignal(number) for number in signal.valid_signals()]
        return gc.get_threshold(), handlers, signal.set_wakeup_fd(-1), loggers

    before = state()
    # Others may have frozen something, which may go.
    frozen = gc.get_freeze_count()
    with Broker(management=True) as broker:
        exchange(broker.url, b"x")
        inside = state()
    assert before == inside == state()
    assert gc.get_freeze_count() <= frozen


def test_nothing_around_it_has_a_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PORT", "HOST", "DATA_DIR", "STORAGE", "FRAME_MAX", "LOG_LEVEL", "MEMORY_WATERMARK"):
        monkeypatch.setenv(f"LEVERET_{name}", "nonsense")
    monkeypatch.setenv("LEVERET_CONFIG", str(tmp_path / "missing.toml"))
    monkeypatch.chdir(tmp_path)
    with Broker(management=True) as broker:
        assert exchange(broker.url, b"x") == b"x"
    assert list(tmp_path.iterdir()) == []


FORGOTTEN = """
import os, socket, sys
import pika
from leveret.testing import Broker

brokers = [Broker(management=number == 0).start() for number in range(3)]
client = socket.create_connection((brokers[1].host, brokers[1].port))
client.send(b"AMQP" + bytes([0, 0, 9, 1]))
client.detach()
child = os.fork() if "fork" in sys.argv else 0
if child:
    assert os.waitpid(child, 0)[1] == 0
    with pika.BlockingConnection(pika.URLParameters(brokers[1].url)) as connection:
        connection.channel().queue_declare("q")
print("end", flush=True)
"""


@pytest.mark.parametrize("arguments", ["", "fork"])
def test_interpreter_exits_although_brokers_were_forgotten(arguments: str) -> None:
    command = [sys.executable, "-W", "error", "-c", FORGOTTEN, *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    ends = ["end"] * (2 if "fork" in arguments else 1)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ends, "")


def test_nothing_is_left_of_the_first_one_either() -> None:
    """In a new process, where nothing was used before."""
    program = """if True:
        import os, threading
        from leveret.testing import Broker
        before = sorted(os.listdir("/proc/self/fd"))
        Broker().start().stop()
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert threading.enumerate() == [threading.main_thread()]
    """
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_have_a_name_and_do_not_hold_up_the_interpreter() -> None:
    others = threading.enumerate()
    with Broker():
        found = [thread for thread in threading.enumerate() if thread.name == "leveret" and thread not in others]
        assert [thread.daemon for thread in found] == [True]


# TLS


def test_broker_with_tls(tmp_path: Path) -> None:
    """Its URLs are those without, where there are any."""
    trust = Trust(tmp_path)
    tls = {name: getattr(trust.settings(), name) for name in (*PORTS, "certificate", "key")}
    with Broker(tls=tls, management=True) as broker:
        assert set(broker.listeners) == {"amqp", "amqps", "http", "https"}
        assert (broker.url[:7], broker.management_url[:7]) == ("amqp://", "http://")
    with Broker(tls={**tls, "only": True}, management=True) as broker:
        assert set(broker.listeners) == {"amqps", "https"}
        assert (broker.url[:8], broker.management_url[:8]) == ("amqps://", "https://")
        with TlsClient(broker.port, trust.context()) as client:
            client.login()


def test_tls_that_cannot_be_is_told() -> None:
    with pytest.raises(BadTls, match="cannot read /no/c"):
        Broker(tls={"certificate": "/no/c"}).start()
