"""The asyncio client, with a real broker and with peers that behave as none should."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.certificates import Authority
from tests.client.conftest import Run
from tests.client.support import Heard, Peer, peer, until
from tests.server.support import InProcess

from leveret.client.client import Client, connect, login_of
from leveret.client.fault import ChannelClosed, Disconnected
from leveret.client.incoming import BODY_MAX
from leveret.uri import parse_uri
from leveret.wire import spec
from leveret.wire.content import frame_head
from leveret.wire.frames import HEARTBEAT
from leveret.wire.properties import Properties, encode_properties

PLAIN = encode_properties(Properties())
HOUR_S = 3600


@asynccontextmanager
async def connected(broker: InProcess, query: str = "") -> AsyncIterator[Client]:
    client = await connect(parse_uri(f"amqp://127.0.0.1:{broker.port}{query}"), "test")
    try:
        yield client
    finally:
        await client.close()


def test_messages_go_there_and_back(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: publish with confirms, consume, acknowledge; bodies of no, one and many frames."""

    async def main() -> None:
        async with connected(broker) as client:
            heard = Heard(client)
            queue = (await client.declare_queue(exclusive=True)).queue
            await client.bind_queue(queue, "amq.direct", "k")
            await client.confirm()
            properties = encode_properties(Properties(message_id="m", headers={"a": [1, "x"]}, priority=3))
            bodies = [b"", b"x", b"y" * 131_064, b"z" * 400_000]
            numbers = [client.publish("amq.direct", "k", properties, body) for body in bodies]
            assert numbers == [1, 2, 3, 4]
            await until(lambda: heard.confirms and heard.confirms[-1][0] == 4)
            assert all(accepted for _, _, accepted in heard.confirms)
            await client.qos(10)
            tag = await client.consume(queue)
            await until(lambda: len(heard.deliveries) == 4)
            assert [one.body for one in heard.deliveries] == bodies
            first = heard.deliveries[0]
            assert (first.exchange, first.routing_key, first.tag, first.redelivered) == ("amq.direct", "k", 1, False)
            assert first.properties == properties
            assert first.decoded().headers == {"a": [1, "x"]}
            client.ack(3, multiple=True)
            client.nack(4)
            await until(lambda: len(heard.deliveries) == 5)
            assert heard.deliveries[4].redelivered
            client.ack(heard.deliveries[4].tag)
            await client.cancel(tag)
            assert (await client.declare_queue(queue, passive=True)).message_count == 0
            assert heard.faults == []

    run(main())


def test_prefetch_bounds_what_comes(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: qos."""

    async def main() -> None:
        async with connected(broker) as client:
            heard = Heard(client)
            queue = (await client.declare_queue(exclusive=True)).queue
            for number in range(5):
                assert client.publish("", queue, PLAIN, b"%d" % number) == 0
            await client.qos(2)
            await client.consume(queue)
            await until(lambda: len(heard.deliveries) == 2)
            await asyncio.sleep(0.05)
            assert len(heard.deliveries) == 2

    run(main())


def test_what_was_on_its_way_comes_before_cancelled(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: without acknowledgements nothing is lost in between, also when reading was paused."""

    async def main() -> None:
        async with connected(broker) as client:
            heard = Heard(client)
            queue = (await client.declare_queue(exclusive=True)).queue
            for _ in range(2000):
                client.publish("", queue, PLAIN, b"x" * 1000)
            tag = await client.consume(queue, no_ack=True)
            client.pause()
            await asyncio.sleep(0.05)
            assert len(heard.deliveries) < 2000
            await client.cancel(tag)
            left = (await client.declare_queue(queue, passive=True)).message_count
            assert len(heard.deliveries) + left == 2000

    run(main())


def test_closed_channel_says_why_and_another_can_be_opened(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: errors say code and text."""

    async def main() -> None:
        async with connected(broker) as client:
            with pytest.raises(ChannelClosed) as caught:
                await client.declare_queue("missing", passive=True)
            assert caught.value.code == 404
            assert str(caught.value) == "404: NOT_FOUND - no queue 'missing' in vhost '/'"
            with pytest.raises(ChannelClosed):
                await client.qos(1)
            await client.open_channel()
            await client.qos(1)

    run(main())


def test_channel_closed_while_nobody_waits(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: a publish that cannot be is told, and nothing more is sent."""

    async def main() -> None:
        async with connected(broker) as client:
            heard = Heard(client)
            client.publish("no such exchange", "k", PLAIN, b"x")
            await until(lambda: heard.faults)
            (fault,) = heard.faults
            assert isinstance(fault, ChannelClosed)
            assert (fault.code, client.fault) == (404, fault)
            with pytest.raises(ChannelClosed):
                client.publish("", "k", PLAIN, b"x")
            client.ack(1)
            client.nack(1)

    run(main())


def test_cancelled_consumer_is_told(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: the queue is deleted under it."""

    async def main() -> None:
        async with connected(broker) as client, connected(broker) as other:
            heard = Heard(client)
            queue = (await client.declare_queue("goes", durable=True)).queue
            tag = await client.consume(queue)
            await other.call(spec.QueueDelete(queue), spec.QueueDeleteOk)
            await until(lambda: heard.cancelled)
            assert heard.cancelled == [tag]

    run(main())


@pytest.mark.parametrize(
    ("uri", "code", "text"),
    [
        ("amqp://guest:wrong@127.0.0.1:{port}", 403, "ACCESS_REFUSED - Login was refused using"),
        ("amqp://guest@127.0.0.1:{port}/nowhere", 530, "NOT_ALLOWED - vhost nowhere not found"),
        ("amqp://127.0.0.1:1", 0, "cannot connect: "),
        ("amqp://a..b:1", 0, "cannot connect: "),
        ("amqps://127.0.0.1:{port}?connection_timeout=3000", 0, ""),
        ("amqps://127.0.0.1:{port}?cacertfile=/no/such/file", 0, "cannot connect: [Errno 2]"),
        # Who comes from a listener is trusted by nothing that it says.
        ("amqp://127.0.0.1:{port}?auth_mechanism=external", 0, "the connection was lost: "),
        ("amqp://none:@127.0.0.1:{port}", 403, "ACCESS_REFUSED - Login was refused using"),
    ],
)
def test_what_cannot_be_connected(broker: InProcess, run: Run, uri: str, code: int, text: str) -> None:
    """SPEC §9.8: connecting fails with what the broker says, or with what is wrong."""

    async def main() -> None:
        with pytest.raises(Disconnected) as caught:
            await connect(parse_uri(uri.format(port=broker.port)), "test")
        assert caught.value.code == code
        assert caught.value.text.startswith(text)

    run(main())


def test_amqplain(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: auth_mechanism."""

    async def main() -> None:
        async with connected(broker, "?auth_mechanism=amqplain") as client:
            await client.qos(1)

    run(main())


@pytest.mark.parametrize(
    ("uri", "login"),
    [
        ("amqp://u:p@h", ("PLAIN", b"\0u\0p")),
        ("amqp://u:p@h?auth_mechanism=external", ("EXTERNAL", b"")),
        ("amqp://", ("EXTERNAL", b"")),
        ("amqp://u@", ("EXTERNAL", b"")),
        ("amqp://u:p@", ("PLAIN", b"\0u\0p")),
        ("amqp://u:p@h?auth_mechanism=amqplain", ("AMQPLAIN", b"\x05LOGINS\0\0\0\1u\x08PASSWORDS\0\0\0\1p")),
    ],
)
def test_login(uri: str, login: tuple[str, bytes]) -> None:
    """SPEC §9.8: mechanism and response."""
    assert login_of(parse_uri(uri)) == login


def test_peer_that_says_nothing(run: Run) -> None:
    """SPEC §9.8: connection_timeout."""

    async def main() -> None:
        async with peer(lambda _: asyncio.sleep(HOUR_S)) as uri:
            with pytest.raises(Disconnected, match=r"^no answer in 2 s$"):
                await connect(uri, "test")

    run(main())


def test_broker_that_stops_tells(run: Run) -> None:
    """SPEC §9.8: 320 reaches whoever listens, and whoever waits."""

    async def main() -> None:
        broker = InProcess().__enter__()
        client = await connect(parse_uri(f"amqp://127.0.0.1:{broker.port}"), "test")
        heard = Heard(client)
        await asyncio.to_thread(broker.__exit__)
        await until(lambda: heard.faults)
        (fault,) = heard.faults
        assert isinstance(fault, Disconnected)
        assert (fault.code, "CONNECTION_FORCED" in fault.text) == (320, True)
        with pytest.raises(Disconnected):
            await client.qos(1)
        await client.close()

    run(main())


# Heartbeats


def test_heartbeats_keep_an_idle_connection(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: heartbeats both ways, also while we do not read."""

    async def main() -> None:
        async with connected(broker, "?heartbeat=1") as client:
            heard = Heard(client)
            await asyncio.sleep(2.6)
            client.pause()
            await asyncio.sleep(2.6)
            client.resume()
            await client.qos(1)
            assert heard.faults == []

    run(main())


def test_silent_peer_is_given_up(run: Run) -> None:
    """SPEC §9.8: two intervals without a word; meanwhile it hears our heartbeats."""
    beats: list[bytes] = []

    async def talk(peer: Peer) -> None:
        assert (await peer.welcome(heartbeat_s=5)).heartbeat == 1
        while True:
            beats.append(await peer.reader.readexactly(8))

    async def main() -> None:
        async with peer(talk) as uri:
            client = await connect(uri, "test")
            heard = Heard(client)
            await until(lambda: heard.faults)
            assert str(heard.faults[0]) == "missed heartbeats from the broker, timeout: 1s"
            assert len(beats) >= 2
            assert set(beats) == {HEARTBEAT}
            await client.close()

    run(main())


# Flow


def test_blocked_and_unblocked(run: Run) -> None:
    """SPEC §9.8: connection.blocked is respected."""

    async def talk(peer: Peer) -> None:
        await peer.welcome()
        await peer.expect(spec.BasicAck)
        peer.send(0, spec.ConnectionBlocked("low on memory"))
        await peer.expect(spec.BasicAck)
        peer.send(0, spec.ConnectionUnblocked())
        await peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    async def main() -> None:
        async with peer(talk) as uri:
            client = await connect(uri, "test")
            heard = Heard(client)
            client.ack(1)
            await until(lambda: client.full)
            assert (client.blocked, heard.flows) == ("low on memory", 1)
            client.ack(1)
            await until(lambda: not client.full)
            assert (client.blocked, heard.flows) == (None, 2)
            await client.close()

    run(main())


def test_peer_that_does_not_read_makes_it_full(run: Run) -> None:
    """SPEC §9.8: who publishes is told to wait, and when to go on."""
    go_on = asyncio.Event()

    async def talk(peer: Peer) -> None:
        await peer.welcome()
        await go_on.wait()
        while await peer.reader.read(1 << 16):
            pass

    async def main() -> None:
        async with peer(talk) as uri:
            client = await connect(uri, "test")
            heard = Heard(client)
            sent = 0
            while not client.full:
                client.publish("", "q", PLAIN, bytes(100_000))
                sent += 1
                await asyncio.sleep(0)
            assert sent < 200
            go_on.set()
            await until(lambda: not client.full)
            assert heard.flows == 2
            await client.close(0.1)

    run(main())


# What no broker should send


HEADER = b"\x00\x3c\x00\x00" + (5).to_bytes(8, "big") + PLAIN
DELIVER = spec.BasicDeliver("c", 1, False, "", "k")


def framed(kind: int, payload: bytes) -> bytes:
    return frame_head(kind, 1, len(payload)) + payload + b"\xce"


@pytest.mark.parametrize(
    ("deliver", "octets", "text"),
    [
        (False, b"HTTP/1.1 400 Bad Request\r\n\r\n", "the broker sent invalid AMQP: "),
        (False, framed(1, b"\xff\xff\xff\xff"), "unimplemented method"),
        (False, framed(1, b""), "the broker sent invalid AMQP: "),
        (False, framed(1, b"\x00\x3c\x00\x3c\x05"), "cannot decode"),
        (False, b"\x01\x00\x01\x7f\xff\xff\xff", "frame_too_large"),
        (True, framed(3, b"body"), "unexpected body frame"),
        (True, framed(2, b"short"), "unexpected header frame"),
        (True, framed(2, HEADER) + framed(2, HEADER), "unexpected header frame"),
        (True, framed(2, HEADER) + framed(3, b"too long"), "unexpected body frame"),
        (True, framed(2, b"\x00\x3c\x00\x00" + (BODY_MAX + 1).to_bytes(8, "big") + PLAIN), "message of 536870913 bytes"),
    ],
)
def test_what_is_no_amqp_ends_the_connection(run: Run, deliver: bool, octets: bytes, text: str) -> None:
    """SPEC §9.8: nothing a peer sends makes it grow or hang."""

    async def talk(peer: Peer) -> None:
        await peer.welcome()
        await peer.expect(spec.BasicAck)
        if deliver:
            peer.send(1, DELIVER)
        peer.writer.write(octets)
        await asyncio.sleep(HOUR_S)

    async def main() -> None:
        async with peer(talk) as uri:
            client = await connect(uri, "test")
            heard = Heard(client)
            client.ack(1)
            await until(lambda: heard.faults)
            assert text in str(heard.faults[0])
            assert heard.deliveries == []
            await client.close()

    run(main())


def test_content_that_nobody_asked_for_is_passed_over(run: Run) -> None:
    """SPEC §9.8: a header without a method, heartbeats, answers to nothing, a message that comes back."""

    async def talk(peer: Peer) -> None:
        await peer.welcome()
        await peer.expect(spec.BasicAck)
        peer.writer.write(framed(2, HEADER) + framed(3, b"12345") + HEARTBEAT)
        peer.send(1, spec.BasicQosOk())
        peer.send(1, spec.BasicReturn(312, "NO_ROUTE", "", "k"))
        peer.writer.write(framed(2, HEADER) + framed(3, b"12345"))
        peer.send(1, DELIVER)
        peer.writer.write(framed(2, HEADER) + framed(3, b"123") + framed(3, b"45"))
        await asyncio.sleep(HOUR_S)

    async def main() -> None:
        async with peer(talk) as uri:
            client = await connect(uri, "test")
            heard = Heard(client)
            client.ack(1)
            await until(lambda: heard.deliveries)
            assert [one.body for one in heard.deliveries] == [b"12345"]
            await client.close(0.05)

    run(main())


def test_frames_are_as_small_as_the_peer_wants_them(run: Run) -> None:
    """SPEC §9.8: frame_max is kept; properties that do not fit are refused before anything is sent."""
    sizes: list[int] = []

    async def talk(peer: Peer) -> None:
        assert (await peer.welcome(frame_max=4096)).frame_max == 4096
        while True:
            _, payload = await peer.frame()
            sizes.append(len(payload))

    async def main() -> None:
        async with peer(talk) as uri:
            client = await connect(uri, "test")
            with pytest.raises(ValueError, match="properties of 5008 bytes do not fit a frame of 4096"):
                client.publish("", "q", encode_properties(Properties(headers={"a": "x" * 4995})), b"")
            client.publish("", "q", PLAIN, bytes(10_000))
            await until(lambda: len(sizes) == 5)
            assert sizes[2:] == [4088, 4088, 1824]
            await client.close(0.05)

    run(main())


def test_one_question_at_a_time(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: answers have no numbers."""

    async def main() -> None:
        async with connected(broker) as client:
            first = asyncio.ensure_future(client.qos(1))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="while waiting for"):
                await client.confirm()
            await first

    run(main())


def test_fault_in_a_callback_ends_the_connection(broker: InProcess, run: Run) -> None:
    """SPEC §9.8: no exception reaches the loop."""

    async def main() -> None:
        async with connected(broker) as client:
            heard = Heard(client)
            client.on_delivery = lambda delivery: 1 // 0  # type: ignore[assignment]
            queue = (await client.declare_queue(exclusive=True)).queue
            client.publish("", queue, PLAIN, b"x")
            await client.consume(queue)
            await until(lambda: heard.faults)
            assert "division" in str(heard.faults[0])

    run(main())


# TLS


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key, found = folder / f"{name}.key", folder / f"{name}.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {found} -days 2 -subj /CN={name}"
    subprocess.run(["openssl", *words.split(), "-addext", f"subjectAltName=DNS:{name}"], check=True, capture_output=True)
    return found, key


@pytest.mark.parametrize(
    ("own", "query", "said"),
    [
        ("localhost", "", "the broker's certificate is not accepted: self-signed certificate; cacertfile=FILE in the URI"),
        ("expired", "cacertfile={old}", "the broker's certificate is not accepted: certificate has expired; "),
        ("elsewhere", "cacertfile={elsewhere}", "the broker's certificate is not accepted: Hostname mismatch, "),
        (None, "verify=verify_none", "what listens there does not speak TLS (wrong version number)"),
    ],
)
def test_what_is_wrong_with_tls_is_said(
    broker: InProcess,
    run: Run,
    certificates: dict[str, tuple[Path, Path]],
    own: str | None,
    query: str,
    said: str,
) -> None:
    """SPEC §9.8: amqps"""
    filled = query.format(**{name: str(pair[0]) for name, pair in certificates.items()})

    async def fault(port: int) -> str:
        with pytest.raises(Disconnected) as refused:
            await connect(parse_uri(f"amqps://localhost:{port}?{filled}"), "test")
        return str(refused.value)

    async def main() -> None:
        if own is None:
            found = await fault(broker.port)
        else:
            async with tls_door(broker, certificates[own]) as port:
                found = await fault(port)
        assert found.startswith(f"cannot connect: {said}")

    run(main())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "old")
    old = authority.issue("localhost", days=-1)
    return (
        {"old": (authority.certificate, old.key)}
        | {name: certificate(folder, name) for name in ("localhost", "elsewhere")}
        | {"expired": old}
    )


@asynccontextmanager
async def tls_door(broker: InProcess, own: tuple[Path, Path], client_ca: Path | None = None) -> AsyncIterator[int]:
    """A port that is the broker's behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*own)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", broker.port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("own", "query", "works"),
    [
        ("localhost", "", False),
        ("localhost", "verify=verify_none", True),
        ("localhost", "cacertfile={localhost}", True),
        ("expired", "cacertfile={old}", False),
        ("localhost", "verify=verify_peer&cacertfile={localhost}", True),
        ("localhost", "verify=verify_peer", False),
        ("localhost", "cacertfile={elsewhere}", False),
        ("localhost", "cacertfile={elsewhere}&verify=verify_none", True),
        ("elsewhere", "cacertfile={elsewhere}", False),
        ("elsewhere", "cacertfile={elsewhere}&server_name_indication=elsewhere", True),
        ("elsewhere", "cacertfile={elsewhere}&server_name_indication=disable", True),
    ],
)
def test_tls(
    broker: InProcess, run: Run, certificates: dict[str, tuple[Path, Path]], own: str, query: str, works: bool
) -> None:
    """SPEC §9.8: amqps, and what is asked of the broker's certificate."""
    filled = query.format(**{name: quote(str(pair[0]), safe="") for name, pair in certificates.items()})

    async def main() -> None:
        async with tls_door(broker, certificates[own]) as port:
            uri = parse_uri(f"amqps://localhost:{port}?{filled}")
            if not works:
                with pytest.raises(Disconnected, match="certificate"):
                    await connect(uri, "test")
                return
            client = await connect(uri, "test")
            await client.qos(1)
            await client.close()

    run(main())


def test_certificate_of_our_own(broker: InProcess, run: Run, certificates: dict[str, tuple[Path, Path]]) -> None:
    """SPEC §9.8: amqps with certfile and keyfile."""
    found, key = certificates["elsewhere"]

    async def main() -> None:
        async with tls_door(broker, certificates["localhost"], client_ca=found) as port:
            client = await connect(
                parse_uri(f"amqps://localhost:{port}?verify=verify_none&certfile={found}&keyfile={key}"), "test"
            )
            await client.close()
            with pytest.raises(Disconnected):
                await connect(parse_uri(f"amqps://localhost:{port}?verify=verify_none"), "test")

    run(main())
