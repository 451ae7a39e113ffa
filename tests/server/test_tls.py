"""AMQP over TLS: the same broker, the same limits, and handshakes that harm nobody."""

import hashlib
import shutil
import socket
import ssl
import subprocess
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.bench.brokers import raise_open_files
from tests.certificates import Authority, Pair
from tests.properties.dialogue import PROTOCOL_HEADER, method, publish
from tests.server.support import MIB, PATIENCE, Client, InProcess, Process, eventually
from tests.server.tls_support import TlsClient, Trust

from leveret.server.endpoint import AMQP
from leveret.server.tls_settings import NamedCertificate
from leveret.server.tls_transport import TlsTransport
from leveret.server.transport import UNREAD_MAX, WRITE_HIGH
from leveret.wire import spec

KIB = 1024
IDLE_KIB = 120
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
REFUSED = "offers only versions of TLS before 1.2"


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


@pytest.fixture
def node(trust: Trust) -> Iterator[InProcess]:
    with InProcess(trust.config()) as node:
        yield node


def port_of(node: InProcess) -> int:
    (port,) = [one.port for one in node.node.listeners if one.protocol == AMQP and one.tls]
    return port


def connect(node: InProcess, trust: Trust, own: Pair | None = None, version: ssl.TLSVersion | None = None) -> TlsClient:
    return TlsClient(port_of(node), trust.context(own, version), clock=node.processor_time)


def begin(node: InProcess, trust: Trust, own: Pair | None = None, version: ssl.TLSVersion | None = None) -> bytes:
    """What the broker says first: with 1.3, a client hears only then that it is refused."""
    with connect(node, trust, own, version) as client:
        client.socket.sendall(PROTOCOL_HEADER)
        return client.socket.recv(KIB)


def handshakes(node: InProcess) -> int:
    assert node.node.tls is not None
    return node.node.tls._handshakes.count


# Versions, ciphers, certificates


@pytest.mark.parametrize("version", VERSIONS)
def test_message_over_tls(node: InProcess, trust: Trust, version: ssl.TLSVersion) -> None:
    """SPEC §7.4: 1.2 and 1.3"""
    with connect(node, trust, version=version) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.version() == version.name.replace("_", ".")
        client.login().declare("q")
        client.publish_many("q", [b"over TLS"])
        client.call(spec.BasicGet("q", no_ack=True), spec.BasicGetOk)
        client.skip_content()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_older_versions_are_refused(
    node: InProcess, trust: Trust, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    context = trust.context()
    # What OpenSSL does not do by itself any more, neither as a client.
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        TlsClient(port_of(node), context)
    assert REFUSED in caplog.text


def test_weak_cipher_is_refused(node: InProcess, trust: Trust, caplog: pytest.LogCaptureFixture) -> None:
    context = trust.context(version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("ECDHE-ECDSA-AES128-SHA256:AES128-SHA")
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        TlsClient(port_of(node), context)
    assert "no cipher in common" in caplog.text


def s_client(node: InProcess, trust: Trust, *options: str, said: str = "") -> str:
    """What openssl's own client says."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port_of(node)}", "-CAfile", str(trust.ca), *options]
    done = subprocess.run(command, input=said, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.stdout + done.stderr


def test_renegotiation_is_refused(node: InProcess, trust: Trust) -> None:
    """Each would cost the broker more than the client."""
    said = s_client(node, trust, "-tls1_2", said="R\n")
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said


def test_fallback_is_refused(node: InProcess, trust: Trust, caplog: pytest.LogCaptureFixture) -> None:
    """Who offers 1.2 and says that it could do better has been kept from it by somebody between."""
    assert "inappropriate fallback" in s_client(node, trust, "-tls1_2", "-fallback_scsv")
    assert "has fallen back to a lower version" in caplog.text


def test_session_is_never_taken_up_again(node: InProcess, trust: Trust) -> None:
    """A certificate is shown, and looked at, each time. (What OpenSSL remembers for 1.2, Python cannot switch off.)"""
    assert "Reused" not in s_client(node, trust, "-tls1_3", "-reconnect")
    assert "TLS session ticket" not in s_client(node, trust, "-tls1_2")


def test_hostname_that_is_not_in_the_certificate(node: InProcess, trust: Trust, caplog: pytest.LogCaptureFixture) -> None:
    other = trust.authority.issue("elsewhere", names="DNS:elsewhere.example")
    config = trust.config(certificate=str(other.certificate), key=str(other.key))
    with InProcess(config) as elsewhere, pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        connect(elsewhere, trust)
    eventually(lambda: "does not accept this broker's certificate" in caplog.text)


def test_client_that_does_not_trust_the_authority(node: InProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stranger = Trust(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        connect(node, stranger)
    eventually(lambda: "does not trust whoever signed this broker's certificate (unknown CA)" in caplog.text)


# Wrong doors


@pytest.mark.parametrize(
    ("said", "kind"), [(PROTOCOL_HEADER, "AMQP"), (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP")], ids=["AMQP", "HTTP"]
)
def test_plain_client_on_the_port_for_tls(node: InProcess, caplog: pytest.LogCaptureFixture, said: bytes, kind: str) -> None:
    with Client(port_of(node)) as client:
        client.socket.sendall(said)
        assert client.at_end()
    assert f"a client without TLS ({kind}) has connected to a port for TLS" in caplog.text


def test_something_else_on_the_port_for_tls(node: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    with Client(port_of(node)) as client:
        client.socket.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        client.socket.recv(KIB)
    eventually(lambda: "what has connected to a port for TLS speaks something else" in caplog.text)


def test_client_with_tls_on_the_plain_port(node: InProcess, trust: Trust, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ssl.SSLError):
        TlsClient(node.port, trust.context())
    assert "a client with TLS has connected to a port without TLS" in caplog.text


# Clients' certificates


@pytest.fixture
def demanding(trust: Trust) -> Iterator[InProcess]:
    """A broker that lets nobody in who has no certificate; its common name is the user's."""
    with InProcess(trust.config(clients="required", ssl_cert_login_from="common_name")) as node:
        node.call(lambda: node.node.broker.add_user("client", "", ()))
        node.call(lambda: node.node.broker.set_permissions("client", "/", ".*", ".*", ".*"))
        yield node


def external(client: Client) -> None:
    """Log in with the certificate."""
    client.socket.sendall(PROTOCOL_HEADER)
    assert b"EXTERNAL" in client.expect(spec.ConnectionStart).mechanisms
    client.send(method(0, spec.ConnectionStartOk({}, "EXTERNAL", b"", "en_US")))
    client.expect(spec.ConnectionTune)
    client.send(method(0, spec.ConnectionTuneOk(2047, 131_072, 0)), method(0, spec.ConnectionOpen("/")))
    client.expect(spec.ConnectionOpenOk)


@pytest.mark.parametrize("version", VERSIONS)
def test_certificate_logs_in(demanding: InProcess, trust: Trust, version: ssl.TLSVersion) -> None:
    """SPEC §7.4 EXTERNAL"""
    with connect(demanding, trust, trust.client, version) as client:
        external(client)
        client.open(1).declare("q")


@pytest.mark.parametrize("version", VERSIONS)
def test_client_without_the_certificate_that_is_demanded(
    demanding: InProcess, trust: Trust, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told why, also where it has begun to speak already, as with 1.3 it may."""
    told = "CERTIFICATE_REQUIRED" if version == ssl.TLSVersion.TLSv1_3 else "HANDSHAKE_FAILURE"
    with pytest.raises(ssl.SSLError, match=told):
        begin(demanding, trust, version=version)
    assert "the client has shown no certificate, and must" in caplog.text


def test_certificates_that_are_refused(
    demanding: InProcess, trust: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that another has signed, and one that has expired; also where none is demanded."""
    strange = Authority(tmp_path, "stranger").issue("client")
    expired = trust.authority.issue("expired", days=-1)
    with InProcess(trust.config(clients="asked")) as asking:
        for node in (demanding, asking):
            for own in (strange, expired):
                with pytest.raises(ssl.SSLError, match="ALERT"):
                    begin(node, trust, own)
    refusals = [message.partition(": ")[2] for message in caplog.messages if "certificate is refused" in message]
    assert len(refusals) == 4
    assert all("expired" in text for text in refusals[1::2])
    assert all("issuer" in text for text in refusals[::2])


def test_certificate_may_be_missing_where_it_is_only_asked_for(trust: Trust) -> None:
    """SPEC §7.4 EXTERNAL: a password does then, and EXTERNAL is not offered."""
    with InProcess(trust.config(clients="asked")) as node:
        with connect(node, trust) as client:
            client.login().declare("q")
        with connect(node, trust) as client:
            client.socket.sendall(PROTOCOL_HEADER)
            assert b"EXTERNAL" not in client.expect(spec.ConnectionStart).mechanisms
        with connect(node, trust, trust.client) as client:
            client.socket.sendall(PROTOCOL_HEADER)
            assert b"EXTERNAL" in client.expect(spec.ConnectionStart).mechanisms


def test_certificate_is_demanded_under_each_name(trust: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SNI: who asks for another of the broker's certificates has to show the same."""
    other = trust.authority.issue("other", names="DNS:other.example")
    names = {"localhost": NamedCertificate(str(trust.server.certificate), str(trust.server.key))}
    config = trust.config(
        certificate=str(other.certificate),
        key=str(other.key),
        names=names,
        clients="required",
        ssl_cert_login_from="common_name",
    )
    strange = Authority(tmp_path, "stranger").issue("client")
    with InProcess(config) as node:
        node.call(lambda: node.node.broker.add_user("client", "", ()))
        node.call(lambda: node.node.broker.set_permissions("client", "/", ".*", ".*", ".*"))
        with connect(node, trust, trust.client) as client:
            external(client)
        for own in (None, strange):
            with pytest.raises(ssl.SSLError, match="ALERT"):
                begin(node, trust, own)
    assert "the client has shown no certificate, and must" in caplog.text
    assert "the client's certificate is refused" in caplog.text


def test_certificate_is_not_looked_at_where_none_is_asked_for(node: InProcess, trust: Trust) -> None:
    with connect(node, trust, trust.client) as client:
        client.socket.sendall(PROTOCOL_HEADER)
        assert b"EXTERNAL" not in client.expect(spec.ConnectionStart).mechanisms


# New certificates


def test_new_files_are_shown_to_new_connections(trust: Trust, tmp_path: Path) -> None:
    """SPEC §7.4: and who is connected stays."""
    own = [tmp_path / "own.pem", tmp_path / "own.key"]
    for source, target in zip(trust.server, own, strict=True):
        shutil.copy(source, target)
    with InProcess(trust.config(certificate=str(own[0]), key=str(own[1]))) as node, connect(node, trust) as first:
        first.login()
        seen = peer_of(first)
        for source, target in zip(trust.authority.issue("renewed"), own, strict=True):
            shutil.copy(source, target)

        def renewed() -> bool:
            with connect(node, trust) as client:
                return peer_of(client) != seen

        eventually(renewed)
        first.declare("still here")


def peer_of(client: Client) -> bytes | None:
    assert isinstance(client.socket, ssl.SSLSocket)
    return client.socket.getpeercert(binary_form=True)


# Handshakes that do not end


def hello() -> bytes:
    """What a client says first."""
    out = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", hello()], ids=["nothing", "a beginning", "a hello"])
def test_handshake_that_hangs_has_its_time(trust: Trust, caplog: pytest.LogCaptureFixture, said: bytes) -> None:
    """SPEC §1.5"""
    with InProcess(trust.config(handshake_timeout=200)) as node, Client(port_of(node)) as client:
        client.socket.sendall(said)
        while client.socket.recv(64 * KIB):
            pass
        eventually(lambda: handshakes(node) == 0)
        said_of_it = "TLS handshakes that took longer than 0.2 s: 1 in the last second, the last one from 127.0.0.1"
        eventually(lambda: said_of_it in caplog.text)


def test_handshake_may_come_octet_by_octet(node: InProcess, trust: Trust) -> None:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trust.context().wrap_bio(back, there, server_hostname="localhost")
    with Client(port_of(node)) as client:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                for octet in there.read():
                    client.socket.sendall(bytes([octet]))
                back.write(client.socket.recv(64 * KIB))
        tls.write(PROTOCOL_HEADER)
        for octet in there.read():
            client.socket.sendall(bytes([octet]))
        back.write(client.socket.recv(64 * KIB))
        assert tls.read(7)[:1] == b"\x01"


def test_as_many_handshakes_as_may_hang_do(trust: Trust, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §1.5: at the limit nobody has to go."""
    with InProcess(trust.config(handshakes=5)) as node, ExitStack() as hanging:
        for _ in range(5):
            hanging.enter_context(Client(port_of(node)))
        eventually(lambda: handshakes(node) == 5)
        with connect(node, trust) as client:
            client.login()
            # One had to give way, and then it did not count any more itself.
            eventually(lambda: handshakes(node) == 4)
        eventually(lambda: "TLS handshakes cut off, as there were more than 5 at once: 1 in the last second" in caplog.text)


def test_who_is_alone_is_not_cut_off_for_those_who_are_many(trust: Trust) -> None:
    """SPEC §1.5: the oldest of the address that has most goes."""
    with InProcess(trust.config(handshakes=5)) as node, ExitStack() as stack:
        alone = socket.socket()
        stack.callback(alone.close)
        alone.bind(("127.0.0.2", 0))
        alone.connect(("127.0.0.1", port_of(node)))
        eventually(lambda: handshakes(node) == 1)
        for _ in range(20):
            stack.enter_context(Client(port_of(node)))
        eventually(lambda: len(node.node.transports) == 0 and handshakes(node) == 5)
        found = trust.context().wrap_socket(alone, server_hostname="localhost")
        stack.callback(found.close)
        assert found.version() == "TLSv1.3"


def test_a_thousand_hanging_handshakes_leave_others_alone(trust: Trust) -> None:
    """SPEC §1.5: there are never more than may be, those who are connected are answered, and others come in."""
    said = hello()
    raise_open_files()
    with InProcess(trust.config(handshakes=200)) as node, connect(node, trust) as client, ExitStack() as hanging:
        client.login().declare("ping")
        for number in range(1000):
            one = hanging.enter_context(Client(port_of(node)))
            if number % 2:
                one.socket.sendall(said)
        assert client.longest_ping(0.5) < 0.2
        assert handshakes(node) <= 200
        with connect(node, trust) as other:
            other.login().declare("q")
        hanging.close()
        eventually(lambda: handshakes(node) == 0)


# What is under TLS is the same as without


def body_of(size: int) -> bytes:
    return hashlib.shake_128(b"body").digest(size)


@pytest.mark.parametrize("size", [0, 1, 16 * KIB, 131_064, MIB + 1, 20_000_000])
def test_bodies_of_all_sizes_both_ways(node: InProcess, trust: Trust, size: int) -> None:
    body = body_of(size)
    with connect(node, trust) as client:
        client.login().declare("q")
        client.send(method(1, spec.BasicConsume("q", no_ack=True)))
        client.expect(spec.BasicConsumeOk)
        for _ in range(2):
            client.send(*publish(1, "q", body))
            assert client.delivery() == body


def test_many_messages_keep_their_order_and_go_out_together(node: InProcess, trust: Trust) -> None:
    with connect(node, trust) as client:
        client.login().declare("q")
        client.call(spec.BasicConsume("q", no_ack=True), spec.BasicConsumeOk)
        (transport,) = node.node.transports
        before = transport.sent_count
        client.send(*[frame for number in range(10_000) for frame in publish(1, "q", str(number).encode())])
        for number in range(10_000):
            assert client.delivery() == str(number).encode()
        # One write for all that a turn has gathered.
        assert transport.sent_count - before < 1000


def test_client_that_does_not_read_is_not_sent_more_than_its_share(node: InProcess, trust: Trust) -> None:
    """SPEC §8.8: and reads all of it when it does."""
    body = body_of(MIB)
    with connect(node, trust) as writer, TlsClient(port_of(node), trust.context(), receive_buffer=64 * KIB) as reader:
        writer.login().declare("q")
        reader.login().call(spec.BasicConsume("q", no_ack=True), spec.BasicConsumeOk)
        writer.publish_many("q", [body] * 50)
        unsent = max(transport.unsent_bytes() for transport in node.node.transports)
        assert WRITE_HIGH < unsent < UNREAD_MAX
        for _ in range(50):
            assert reader.delivery() == body


def test_client_that_asks_and_does_not_read_is_not_read(node: InProcess, trust: Trust) -> None:
    """SPEC §8.8: its requests wait, those that were read already too; then it has each answer."""
    body = body_of(MIB)
    with TlsClient(port_of(node), trust.context(), receive_buffer=64 * KIB) as client:
        client.login().declare("q")
        client.publish_many("q", [body] * 60)
        client.send(*[method(1, spec.BasicGet("q", no_ack=True)) for _ in range(60)])
        (transport,) = node.node.transports
        eventually(lambda: transport.unsent_bytes() > UNREAD_MAX)
        assert transport.unsent_bytes() < 8 * UNREAD_MAX
        for _ in range(60):
            assert client.delivery() == body


def test_publisher_that_is_stopped_is_not_read_and_nothing_is_lost(node: InProcess, trust: Trust) -> None:
    """SPEC §8.6"""
    with connect(node, trust) as writer, connect(node, trust) as other:
        writer.login().declare("q")
        other.login()
        node.call(lambda: node.node.set_limit("memory_watermark", 1_000_000))
        frames = b"".join(frame.encode() for _ in range(300) for frame in publish(1, "q", body_of(64 * KIB)))
        sending = threading.Thread(target=writer.socket.sendall, args=(frames,))
        sending.start()
        # The first is its last until then.
        assert other.declare("q") <= 1
        assert sending.is_alive()
        node.call(lambda: node.node.set_limit("memory_watermark", 1 << 50))
        sending.join(PATIENCE)
        assert writer.declare("q") == 300


def test_close_ok_reaches_a_client_that_still_writes(node: InProcess, trust: Trust) -> None:
    with connect(node, trust) as client:
        client.login().declare("q")
        client.send(method(0, spec.ConnectionClose(200, "", 0, 0)))
        for _ in range(100):
            client.send(*publish(1, "q", body_of(64 * KIB)))
        client.expect(spec.ConnectionCloseOk)
        client.socket.close()
        eventually(lambda: not node.node.transports)


def test_goodbye_of_tls_ends_the_connection(node: InProcess, trust: Trust) -> None:
    with connect(node, trust) as client:
        client.login()
        assert isinstance(client.socket, ssl.SSLSocket)
        # The broker says goodbye as well.
        client.socket = client.socket.unwrap()
        eventually(lambda: not node.node.transports)


def test_what_is_no_tls_any_more_ends_the_connection(
    node: InProcess, trust: Trust, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(node, trust) as client:
        client.login()
        assert isinstance(client.socket, ssl.SSLSocket)
        plain = socket.socket(fileno=client.socket.detach())
        plain.settimeout(PATIENCE)
        plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        while plain.recv(KIB):
            pass
        plain.close()
        eventually(lambda: not node.node.transports)
    assert "the client has sent what is no TLS" in caplog.text


def test_broker_that_stops_says_so(trust: Trust, tmp_path: Path) -> None:
    with Process(tmp_path, environment=trust.environment()) as broker:
        client = TlsClient(broker.port_of("amqps"), trust.context()).login()
        broker.popen.terminate()
        with client:
            assert client.expect(spec.ConnectionClose).reply_code == 320
            client.send(method(0, spec.ConnectionCloseOk()))
            assert client.at_end()


def test_nothing_is_left_of_connections_that_are_gone(node: InProcess, trust: Trust) -> None:
    import gc

    for _ in range(20):
        with connect(node, trust) as client:
            client.login()
    eventually(lambda: not node.node.transports)

    def left() -> int:
        return sum(isinstance(one, TlsTransport) for one in gc.get_objects())

    # No cycles: nobody has to come and collect them. The last two are remembered as those who were active.
    eventually(lambda: node.call(left) <= 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_of_idle_connections(trust: Trust, tmp_path: Path, version: ssl.TLSVersion) -> None:
    """SPEC §8.5: a thousand of them, with a channel each."""
    raise_open_files()
    with Process(tmp_path, environment=trust.environment()) as broker, ExitStack() as stack:
        context = trust.context(version=version)
        port = broker.port_of("amqps")
        for _ in range(20):
            stack.enter_context(TlsClient(port, context).login())
        before = broker.resident
        for _ in range(1000):
            stack.enter_context(TlsClient(port, context).login())
        each = (broker.resident - before) / 1000 / KIB
        assert each < IDLE_KIB, f"{each:.1f} KiB"
