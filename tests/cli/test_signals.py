"""What a running broker does when it is told something: to read its settings again, or to stop."""

import signal
import socket
from pathlib import Path

from tests.management.support import Http
from tests.server.support import PATIENCE, Process, eventually

from leveret.management import server
from leveret.server import node
from leveret.wire import spec


def test_sighup_reads_settings_again(tmp_path: Path) -> None:
    """SPEC §9.6: what can be set is, what cannot be is named, and the broker goes on."""
    file = tmp_path / "leveret.toml"
    file.write_text('log_level = "info"\n')
    with Process(tmp_path, "--config", str(file)) as broker, broker.login() as client:
        broker.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "SIGHUP: no setting has changed" in broker.log)
        file.write_text('log_level = "debug"\ndisk_free_limit = 999000000\nheartbeat = 7\n')
        broker.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "SIGHUP: heartbeat takes effect at the next start" in broker.log)
        assert "SIGHUP: log_level is changed" in broker.log
        assert Http(broker.http_port).get("/api/nodes")[0]["disk_free_limit"] == 999_000_000
        with broker.connect():
            eventually(lambda: ": accepted" in broker.log)
        client.declare("still here")


def test_sighup_with_a_bad_setting_changes_nothing(tmp_path: Path) -> None:
    """SPEC §9.6: one line says what is wrong."""
    file = tmp_path / "leveret.toml"
    file.write_text("")
    with Process(tmp_path, "--config", str(file)) as broker, broker.login() as client:
        file.write_text("heartbeat = -1\n")
        broker.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "all settings stay as they are" in broker.log)
        assert f"SIGHUP: bad setting heartbeat = -1 in {file}: " in broker.log
        client.declare("still here")


def test_clients_that_are_idle_do_not_keep_it(tmp_path: Path) -> None:
    """SPEC §9.6: those that answer nothing, have asked for nothing, or not wholly, or listen to a stream."""
    with Process(tmp_path) as broker:
        mute = [broker.login() for _ in range(5)]
        half = b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nuser"
        stream = b"GET /api/stream HTTP/1.1\r\nHost: x\r\nAuthorization: %b\r\n\r\n" % (
            Http(0).headers["Authorization"].encode()
        )
        asked = [connected(broker.http_port, octets) for octets in (b"", b"GET / HT", half, stream)]
        assert asked[-1].recv(1) == b"H"
        broker.popen.send_signal(signal.SIGTERM)
        # An answer of HTTP that does not end would be waited for a minute.
        assert broker.popen.wait(PATIENCE / 2) == 0
        assert node.STOP_S + 2 * server.STOP_S < 1
        for client in mute:
            assert client.expect(spec.ConnectionClose).reply_code == 320
            client.socket.close()
        for one in asked:
            one.close()


def connected(port: int, octets: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), PATIENCE)
    client.sendall(octets)
    return client
