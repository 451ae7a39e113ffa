"""The first minutes of a connection: protocol header, login, tuning, choosing a virtual host.

States, each left by one method of the client: starting (start-ok), securing (the login is decided, by others perhaps, and
later), tuning (tune-ok), opening (open), then the connection runs and this object is dropped.

RabbitMQ: an error before the client is trusted gets no answer, only a delay and the end of the connection; a refused
login gets one if the client can take it (authentication_failure_close), as does everything after tune-ok.
"""

from typing import Any, NoReturn

from leveret import __version__
from leveret.broker.access import User, is_loopback
from leveret.broker.broker import Broker
from leveret.broker.login import Login
from leveret.broker.settings import RABBITMQ_VERSION
from leveret.broker.vhost import VirtualHost
from leveret.errors import AccessRefused, AMQPError, ChannelError, CommandInvalid, NotAllowed, SyntaxFault
from leveret.protocol.certificate import login_name
from leveret.protocol.peer import Peer
from leveret.wire.methods import write_method
from leveret.wire.spec import (
    FRAME_MIN_SIZE,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from leveret.wire.values import decode_table

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
# RabbitMQ: what clients of 0-9 send is taken as 0-9-1.
ACCEPTED_HEADERS = (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09")
HEADER_SIZE = len(PROTOCOL_HEADER)

TIMEOUT_MS = 10_000
MECHANISMS = b"AMQPLAIN PLAIN"
# Who has shown a certificate may log in with that.
EXTERNAL = "EXTERNAL"
MECHANISMS_WITH_CERTIFICATE = b"EXTERNAL AMQPLAIN PLAIN"
# As logins are counted.
PROTOCOL = "amqp091"

# Clients decide by product and version what the broker can do.
SERVER_PROPERTIES: dict[str, Any] = {
    "capabilities": {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    },
    "cluster_name": "leveret",
    "copyright": "Apache License 2.0",
    "information": "Leveret, a message broker in Python that speaks AMQP 0-9-1",
    "leveret": __version__,
    "platform": "Python",
    "product": "RabbitMQ",
    "version": RABBITMQ_VERSION,
}


def _start(mechanisms: bytes) -> bytes:
    frame = bytearray()
    write_method(frame, 0, ConnectionStart(0, 9, SERVER_PROPERTIES, mechanisms, b"en_US"))
    return bytes(frame)


# The frame that is the same for every client, without and with a certificate.
START = _start(MECHANISMS)
START_WITH_CERTIFICATE = _start(MECHANISMS_WITH_CERTIFICATE)


class Refused(Exception):
    """A login that failed; the text is for the log only."""


class Handshake:
    """What is known of a client before its connection runs."""

    __slots__ = (
        "_broker",
        "capabilities",
        "channel_max",
        "client_properties",
        "frame_max",
        "header",
        "heartbeat_s",
        "login",
        "mechanism",
        "peer",
        "state",
        "user",
        "vhost",
    )

    user: User
    vhost: VirtualHost

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._broker = broker
        self.peer = peer
        self.header = b""
        self.state = "starting"
        self.mechanism = ""
        # While it is not decided, the client waits.
        self.login: Login | None = None
        self.client_properties: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {}
        self.channel_max = broker.settings.channel_max
        self.frame_max = FRAME_MIN_SIZE
        self.heartbeat_s = broker.settings.heartbeat_s

    @property
    def start(self) -> bytes:
        """The frame with which it begins."""
        return START if self.peer.certificate is None else START_WITH_CERTIFICATE

    @property
    def done(self) -> bool:
        return self.state == "running"

    def take_header(self, data: bytes) -> bytes:
        """Take what is still missing of the protocol header; what follows it."""
        missing = HEADER_SIZE - len(self.header)
        self.header += data[:missing]
        return data[missing:]

    def on_method(self, method: Method) -> Method | None:
        """Take the client's next method; the answer, if there is one."""
        if self.state == "starting" and isinstance(method, ConnectionStartOk):
            return self._on_connection_start_ok(method)
        if self.state == "tuning" and isinstance(method, ConnectionTuneOk):
            self._on_connection_tune_ok(method)
            return None
        if self.state == "opening" and isinstance(method, ConnectionOpen):
            self.vhost = self._broker.vhost(method.virtual_host, self.user, self.peer.host)
            self.state = "running"
            return None
        raise ChannelError(f"unexpected method in connection state {self.state}")

    def answers(self, error: AMQPError) -> bool:
        """Whether the client is told of this error."""
        if self.state == "opening":
            return True
        return isinstance(error, AccessRefused) and self.capabilities.get("authentication_failure_close") is True

    def _on_connection_start_ok(self, m: ConnectionStartOk) -> Method | None:
        self.client_properties = m.client_properties
        capabilities = m.client_properties.get("capabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.mechanism = m.mechanism
        self.state = "securing"
        if self.peer.user is not None:
            self.user = self.peer.user
        elif m.mechanism == EXTERNAL:
            self.user = self._user_of_certificate()
        else:
            self.login = self._begin_login(m)
            return self.logged_in() if self.login.done else None
        return self._tune()

    def logged_in(self) -> Method:
        """What follows on the login, which is decided."""
        login = self.login
        assert login is not None
        self.login = None
        self._broker.churn.logins.count(PROTOCOL, self.peer.host, login.name, succeeded=not login.refusal)
        if login.refusal:
            self._refuse(f"{self.mechanism} login refused: user '{login.name}' {login.refusal}")
        self.user = login.user
        return self._tune()

    def _tune(self) -> Method:
        self.state = "tuning"
        settings = self._broker.settings
        return ConnectionTune(settings.channel_max, settings.frame_max, settings.heartbeat_s)

    def _begin_login(self, m: ConnectionStartOk) -> Login:
        """Have it decided whether that is the name and the password of a user."""
        try:
            name, password = credentials(m.mechanism, m.response)
        except SyntaxFault:
            self._broker.churn.logins.count(PROTOCOL, self.peer.host, "", succeeded=False)
            raise
        login = Login(self._broker, name, password, self.peer.host)
        login.begin(self._broker.now)
        return login

    def _user_of_certificate(self) -> User:
        """The user whom the client's certificate logs in; counted, also if there is none."""
        logins, name = self._broker.churn.logins, ""
        try:
            name = self._certificate_name()
            user = self._known_user(name)
        except Refused as refused:
            logins.count(PROTOCOL, self.peer.host, name, succeeded=False)
            self._refuse(str(refused))
        logins.count(PROTOCOL, self.peer.host, name, succeeded=True)
        return user

    def _refuse(self, reason: str) -> NoReturn:
        """Refuse the login. The client is not told why."""
        raise AccessRefused(
            f"Login was refused using authentication mechanism {self.mechanism}. For details see the broker logfile."
        ) from Refused(reason)

    def _certificate_name(self) -> str:
        """The user whom the client's certificate logs in."""
        if not self.peer.tls:
            # RabbitMQ: a mechanism that it knows, and does not offer here.
            raise CommandInvalid(f"invalid authentication mechanism '{EXTERNAL}'")
        if self.peer.certificate is None:
            raise Refused(f"{EXTERNAL} login refused: connection peer presented no TLS (x.509) certificate")
        name = login_name(self.peer.certificate, *self._broker.settings.certificate_login)
        if name is None:
            raise Refused(f"{EXTERNAL} login refused: no name found")
        return name

    def _known_user(self, name: str) -> User:
        """The user of this name, who is known to be the one."""
        user = self._broker.users.get(name)
        if user is None:
            raise Refused(f"{EXTERNAL} login refused: user '{name}' - invalid credentials")
        if user.loopback_only and not is_loopback(self.peer.host):
            raise Refused(f"{EXTERNAL} login refused: user '{name}' can only connect via localhost")
        return user

    def _on_connection_tune_ok(self, m: ConnectionTuneOk) -> None:
        check_negotiated("frame_max", m.frame_max, FRAME_MIN_SIZE, self._broker.settings.frame_max)
        check_negotiated("channel_max", m.channel_max, 1, self._broker.settings.channel_max)
        self.frame_max = m.frame_max
        self.channel_max = m.channel_max
        self.heartbeat_s = m.heartbeat
        self.state = "opening"


def header_fault(header: bytes) -> str:
    """What is wrong with a protocol header."""
    if is_tls(header):
        return "a client with TLS has connected to a port without TLS"
    return f"bad protocol header {header!r}"


def is_tls(head: bytes) -> bool:
    """Whether what a client has said first is TLS's: a handshake record of any version."""
    return head[:2] == b"\x16\x03"


def check_negotiated(field: str, value: int, low: int, high: int) -> None:
    detail = " (no limit)" if field == "channel_max" and value == 0 else ""
    if value and value < low:
        raise NotAllowed(f"negotiated {field} = {value}{detail} is lower than the minimum allowed value ({low})")
    if not value or value > high:
        raise NotAllowed(f"negotiated {field} = {value}{detail} is higher than the maximum allowed value ({high})")


def credentials(mechanism: str, response: bytes) -> tuple[str, bytes]:
    """Name and password out of a SASL response."""
    if mechanism == "PLAIN":
        parts = response.split(b"\0")
        # RabbitMQ: nobody acts for another; the part in which that would be said is empty.
        if len(parts) != 3 or parts[0]:
            raise SyntaxFault("PLAIN response invalid")
        return parts[1].decode(errors="replace"), parts[2]
    if mechanism == "AMQPLAIN":
        table = decode_table(response, 0, len(response))
        name, password = table.get("LOGIN"), table.get("PASSWORD")
        if not isinstance(name, str) or not isinstance(password, str | bytes):
            raise SyntaxFault("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
        return name, password.encode() if isinstance(password, str) else password
    raise CommandInvalid(f"unknown authentication mechanism '{mechanism}'")
