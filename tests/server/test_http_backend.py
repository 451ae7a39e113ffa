"""Logins that an HTTP server decides, as with rabbitmq_auth_backend_http."""

import base64
import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.properties.dialogue import PROTOCOL_HEADER, method
from tests.server.support import PATIENCE, Process

from leveret.wire import spec
from leveret.wire.values import Table

WORD = "hidden-word"
ANSWERS = {"allow": WORD, "allow management": "tagged", "deny": "denied", "": "empty", "allowed": "allowed"}


class Server:
    """Says `allow` to one password, and what the table has to others; remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("GET", urlsplit(self.path).query)

            def do_POST(self) -> None:
                self._answer("POST", self.rfile.read(int(self.headers["Content-Length"])).decode())

            def _answer(self, verb: str, form: str) -> None:
                fields = parse_qs(form)
                name, password = fields["username"][0], fields["password"][0]
                asked.append((verb, name, password))
                text = next((text for text, known in ANSWERS.items() if known == password), "deny").encode()
                self.send_response(500 if password == "broken" else 200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                """Not on stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/auth/user"

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def running(folder: Path, server: Server, verb: str = "post") -> Process:
    text = f"""
login_failures = 0
users = [
    {{name = "guest", password = "guest", tags = ["administrator"]}},
    {{name = "shop", tags = ["management"]}},
]
permissions = [{{user = "shop", configure = "^own", write = "", read = ""}}]
[auth_http]
user_path = "{server.url}"
http_method = "{verb}"
"""
    (folder / "leveret.toml").write_text(text)
    return Process(folder, "--config", str(folder / "leveret.toml"))


def status_of(broker: Process, name: str, password: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", broker.http_port, timeout=PATIENCE)
    encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
    connection.request("GET", "/api/whoami", headers={"Authorization": f"Basic {encoded}"})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("verb", ["get", "post"])
def test_server_is_asked_for_users_without_a_password(tmp_path: Path, server: Server, verb: str) -> None:
    with running(tmp_path, server, verb) as broker:
        assert status_of(broker, "shop", WORD) == 200
        assert status_of(broker, "shop", WORD) == 200
        assert server.asked == [(verb.upper(), "shop", WORD)], "it is known for a while"
        assert status_of(broker, "shop", "tagged") == 200
        for wrong in ("denied", "empty", "allowed", "broken", "anything"):
            assert status_of(broker, "shop", wrong) == 401, wrong
        count = len(server.asked)
        assert status_of(broker, "guest", "guest") == 200
        assert status_of(broker, "guest", WORD) == 401
        assert status_of(broker, "nobody", WORD) == 401
        assert len(server.asked) == count, "others are the broker's own"
        assert WORD not in broker.log


def test_over_amqp_with_the_brokers_own_rights(tmp_path: Path, server: Server) -> None:
    about: Table = {"capabilities": {"authentication_failure_close": True}}
    with running(tmp_path, server) as broker:
        for password in ("denied", WORD):
            with broker.connect() as client:
                client.socket.sendall(PROTOCOL_HEADER)
                client.expect(spec.ConnectionStart)
                client.send(method(0, spec.ConnectionStartOk(about, "PLAIN", f"\0shop\0{password}".encode(), "en_US")))
                if password == "denied":
                    assert client.expect(spec.ConnectionClose).reply_code == 403
                    continue
                client.expect(spec.ConnectionTune)
                client.send(method(0, spec.ConnectionTuneOk(2047, 131_072, 0)), method(0, spec.ConnectionOpen("/")))
                client.expect(spec.ConnectionOpenOk)
                client.send(method(1, spec.ChannelOpen()))
                client.expect(spec.ChannelOpenOk)
                client.call(spec.QueueDeclare("own"), spec.QueueDeclareOk)
                client.send(method(1, spec.QueueDeclare("other")))
                assert client.expect(spec.ChannelClose).reply_code == 403


def test_without_an_answer_it_is_refused(tmp_path: Path, server: Server) -> None:
    with running(tmp_path, server, "get") as broker:
        server.close()
        assert status_of(broker, "shop", WORD) == 401
        assert "the HTTP back end for logins does not answer" in broker.log
        assert WORD not in broker.log
