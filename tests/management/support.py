"""A client of the HTTP API that knows nothing of ours: the standard library's http.client."""

import base64
import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.debian import RABBITMQ_SERVER, need
from tests.server.support import PATIENCE, Process


class Running(Process):
    """A broker with its HTTP API; tests try many wrong passwords, and are not slowed."""

    def __init__(self, folder: Path, *flags: str, **options: Any) -> None:
        environment = {"LEVERET_LOGIN_FAILURES": "0", **(options.pop("environment", None) or {})}
        super().__init__(folder, *flags, environment=environment, **options)

    def http(self, user: str | None = "guest", password: str = "guest") -> "Http":
        return Http(self.http_port, user, password)


class Response:
    """What came back."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Http:
    """One user's requests; without a user, nobody's."""

    def __init__(self, port: int, user: str | None = "guest", password: str = "guest") -> None:
        self.port = port
        self.headers: dict[str, str] = {}
        if user is not None:
            self.headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {**self.headers, **(headers or {})})
            answer = connection.getresponse()
            return Response(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed."""
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer.status, answer.body)
        return answer.json

    def put(self, path: str, body: Any = None) -> Response:
        return self.ask("PUT", path, {} if body is None else body)

    def post(self, path: str, body: Any = None) -> Response:
        return self.ask("POST", path, {} if body is None else body)

    def delete(self, path: str) -> Response:
        return self.ask("DELETE", path)

    @staticmethod
    def quoted(name: str) -> str:
        return quote(name, safe="")


def rabbitmqadmin() -> Path:
    """RabbitMQ's command line, as Debian's package has it."""
    need(RABBITMQ_SERVER)
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"))
    assert found, "rabbitmq-server is installed, but there is no rabbitmqadmin in it"
    return found[-1]
