"""Where clients come in: which protocol is spoken at which address, and how a client shows who it is.

The settings say which there are to be (`endpoints`); a node has the list of those that it listens on, each with the port
that it got. Whatever names listeners names these: the line `ready`, the log, the HTTP API.
"""

import os
import socket
from dataclasses import dataclass, replace

from leveret.server.config import Config

AMQP, HTTP, PROMETHEUS = "amqp", "http", "prometheus"

# How a client shows who it is, as the log says it.
PASSWORD = "login with a password"
NO_LOGIN = "no login"
PASSWORD_OR_CERTIFICATE = "login with a password or a certificate"

# With TLS. RabbitMQ: this is what it calls the one for metrics.
TLS_SCHEMES = {AMQP: "amqps", HTTP: "https", PROMETHEUS: "https/prometheus"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One of them; before somebody listens there, port 0 is any that is free."""

    protocol: str
    host: str
    port: int
    tls: bool = False
    login: str = PASSWORD

    def at(self, address: tuple[str, int]) -> "Endpoint":
        """The same, where it was opened."""
        host, port = address
        return replace(self, host=host, port=port)

    @property
    def address(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def scheme(self) -> str:
        """The protocol, and whether there is TLS, in one word."""
        return TLS_SCHEMES[self.protocol] if self.tls else self.protocol

    def __str__(self) -> str:
        return f"{self.scheme}={self.address}"


class CannotListen(OSError):
    """A port is taken, or an address is not ours."""

    def __init__(self, endpoint: Endpoint, error: OSError) -> None:
        # A name that cannot be looked up has numbers of its own.
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        super().__init__(error.errno, f"cannot listen on {endpoint.host}:{endpoint.port}: {reason}")

    def __str__(self) -> str:
        return str(self.strerror)


def endpoints(config: Config) -> list[Endpoint]:
    """All that the settings ask for."""
    return [*amqp_endpoints(config), *(management_endpoints(config) if config.management else ())]


def amqp_endpoints(config: Config) -> list[Endpoint]:
    """Those that speak AMQP."""
    tls = config.tls
    login = PASSWORD if tls.clients == "ignored" else PASSWORD_OR_CERTIFICATE
    found = [] if tls.only else [Endpoint(AMQP, config.host, config.port)]
    return [*found, Endpoint(AMQP, config.host, tls.port, tls=True, login=login)] if tls.wanted else found


def management_endpoints(config: Config) -> list[Endpoint]:
    """Those that speak HTTP: the API, which has the metrics too, and the metrics alone."""
    tls = config.tls
    found = []
    if not tls.only:
        found += [
            Endpoint(HTTP, config.host, config.management_port),
            Endpoint(PROMETHEUS, config.host, config.prometheus_port, login=NO_LOGIN),
        ]
    if tls.wanted and tls.management:
        found += [
            Endpoint(HTTP, config.host, tls.management_port, tls=True),
            Endpoint(PROMETHEUS, config.host, tls.prometheus_port, tls=True, login=NO_LOGIN),
        ]
    return found
