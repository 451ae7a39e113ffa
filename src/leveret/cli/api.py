"""Requests to a broker's HTTP API: through the socket in its data folder, which needs no password, or to a URL."""

import base64
import http.client
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from leveret.client.tls import fault_text, server_name, tls_context

# An object of an answer; the API's documentation says what is in it.
JsonObject = dict[str, Any]

SOCKET_NAME = "control.sock"
TIMEOUT_S = 60.0


class Unreachable(Exception):
    """No broker answers; the text says where."""


class Failed(Exception):
    """The broker has refused; `status` is HTTP's, the text its reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class LocalConnection(http.client.HTTPConnection):
    """HTTP through a UNIX socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class TlsConnection(http.client.HTTPSConnection):
    """HTTP within TLS, as a URL's query asks for it."""

    def __init__(self, host: str, port: int, timeout: float, options: dict[str, str], shown: str) -> None:
        self._tls = tls_context(options, shown)
        self._name = server_name(options, host)
        super().__init__(host, port, timeout=timeout, context=self._tls)

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


class Api:
    """One broker, by its data folder or by a URL with name and password in it.

    The query of an https URL may have the options of TLS that an amqps URI has, such as `?cacertfile=ca.pem`.
    """

    def __init__(self, data_dir: str, url: str | None = None, timeout: float = TIMEOUT_S) -> None:
        self._folder = Path(data_dir)
        self._url = None if url is None else urlsplit(url)
        self._timeout = timeout

    @property
    def where(self) -> str:
        if self._url is not None:
            return f"{self._url.scheme}://{self._url.hostname}:{self._port}"
        return str(self._folder)

    @property
    def _port(self) -> int:
        assert self._url is not None
        return self._url.port or (15671 if self._url.scheme == "https" else 15672)

    def _connection(self) -> http.client.HTTPConnection:
        if self._url is None:
            return LocalConnection(self._folder / SOCKET_NAME, self._timeout)
        host = self._url.hostname or "localhost"
        if self._url.scheme == "https":
            options = dict(parse_qsl(self._url.query))
            return TlsConnection(host, self._port, self._timeout, options, self.where)
        return http.client.HTTPConnection(host, self._port, timeout=self._timeout)

    def _headers(self) -> dict[str, str]:
        if self._url is None:
            return {}
        name, password = unquote(self._url.username or "guest"), unquote(self._url.password or "guest")
        return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}

    def ask(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
        """What the broker answers, decoded if it is JSON; None if that is nothing."""
        data = None if body is None else json.dumps(body).encode()
        connection = None
        try:
            connection = self._connection()
            connection.request(method, path, data, self._headers() | (headers or {}))
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            reason = fault_text(error) if isinstance(error, OSError) else str(error)
            raise Unreachable(f"cannot connect to a broker at {self.where}: {reason}") from None
        finally:
            if connection is not None:
                connection.close()
        found: Any = content.decode("utf-8", "replace") or None
        if content and "json" in answer.getheader("Content-Type", ""):
            found = json.loads(content)
        if answer.status >= 400:
            reason = found.get("reason", "") if isinstance(found, dict) else ""
            raise Failed(answer.status, str(reason) or answer.reason)
        return found

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def put(self, path: str, body: object) -> None:
        self.ask("PUT", path, body)

    def delete(self, path: str, headers: dict[str, str] | None = None) -> None:
        self.ask("DELETE", path, headers=headers)


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
