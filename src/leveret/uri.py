"""AMQP URIs as RabbitMQ's Erlang client reads them. Imports nothing of ours.

  amqp[s]://[user[:password]@][host[:port]][/vhost][?name=value&…]

(1) Without a host it is the broker itself that is meant: `amqp://`, `amqp:///vhost`, `amqp://user@/vhost`.
(2) Without a path the vhost is `/`; a path of one slash is the vhost with the empty name.
(3) What is wrong is told as RabbitMQ tells it, as an Erlang term.
(4) `shown` is what may be logged and displayed: no name, no password, no query.
"""

import re
from dataclasses import dataclass, field

PORTS = {"amqp": 5672, "amqps": 5671}
HEARTBEAT_S = 10
TIMEOUT_MS = 60_000
# Some, but not all day.
TIMEOUT_MAX_MS = 600_000

NUMBERS = ("channel_max", "frame_max", "heartbeat", "connection_timeout", "depth")
TLS = ("cacertfile", "certfile", "keyfile", "verify", "fail_if_no_peer_cert", "password", "server_name_indication")
# RabbitMQ: these have a place of their own in the URI.
ELSEWHERE = ("username", "host", "port", "virtual_host", "node", "adapter_info")
MECHANISMS = ("plain", "amqplain", "external")

SCHEME = re.compile(r"[^:]*:")
PLACE = re.compile(r"//([^/?#]*)")
# As much as there may be of them: in a bad URI a password can have any character.
CREDENTIALS = re.compile(r"(?<=//).*@", re.DOTALL)
PASSWORD = re.compile(r"(password=)[^&#]*")


class BadUri(Exception):
    """A text that is no AMQP URI; the message is an Erlang term that says why."""


@dataclass(frozen=True, slots=True)
class Uri:
    """Where a broker is, and who asks. `host` is None for the broker that is asked to use it."""

    scheme: str
    host: str | None
    port: int
    vhost: str
    user: str | None
    password: str | None
    heartbeat_s: int
    timeout_s: float
    mechanism: str
    shown: str
    tls: dict[str, str] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        return self.host is None


def parse_uri(text: str) -> Uri:
    """Take a URI apart, or raise BadUri."""
    scheme, userinfo, host, port_text, path, query = _parts(text)
    if scheme not in PORTS:
        raise BadUri(f'{{unexpected_uri_scheme,"{scheme}"}}')
    port = _port(port_text, text)
    if not host and port is not None:
        raise BadUri("port_requires_host")
    if not host and scheme == "amqps":
        raise BadUri("tls_requires_host")
    user, password = _login(userinfo, host)
    numbers = {name: _number(name, query[name]) for name in NUMBERS if name in query}
    for name in ELSEWHERE:
        if name in query:
            raise BadUri(f'{{parameter_unconfigurable_in_query,{name},"{query[name]}"}}')
    return Uri(
        scheme=scheme,
        host=_decoded(host) if host else None,
        port=PORTS[scheme] if port is None else port,
        vhost=_vhost(path),
        user=user,
        password=password,
        heartbeat_s=min(max(0, numbers.get("heartbeat", HEARTBEAT_S)), 0xFFFF),
        timeout_s=min(max(1, numbers.get("connection_timeout", TIMEOUT_MS)), TIMEOUT_MAX_MS) / 1000,
        mechanism=_mechanism(query.get("auth_mechanism", "plain")),
        shown=_shown(scheme, host, port_text, path),
        tls={name: _decoded(query[name]) for name in TLS if name in query},
    )


def without_credentials(text: str) -> str:
    """A URI that may be shown to others; "" for one that is none."""
    try:
        return parse_uri(text).shown
    except BadUri:
        return ""


def redacted(text: str) -> str:
    """A text that should have been a URI, without what may be credentials; for faults, which may end in a log."""
    return PASSWORD.sub(r"\1", CREDENTIALS.sub("", text))


def _shown(scheme: str, host: str, port: str | None, path: str) -> str:
    named = f"[{host}]" if ":" in host else host
    return f"{scheme}://{named}{'' if port is None else f':{port}'}{path}"


def _parts(text: str) -> tuple[str, str, str, str | None, str, dict[str, str]]:
    """Scheme, user info, host, port, path and query, as they stand there."""
    found = SCHEME.match(text)
    if found is None:
        raise BadUri("{unable_to_parse_uri,no_scheme}")
    scheme, rest = found[0][:-1].lower(), text[found.end() :]
    place = PLACE.match(rest)
    authority, rest = (place[1], rest[place.end() :]) if place else ("", rest)
    path, _, query_text = rest.partition("#")[0].partition("?")
    before, at, after = authority.partition("@")
    userinfo, address = (before, after) if at else ("", before)
    if address.startswith("["):
        host, bracket, tail = address[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise BadUri(f'{{unable_to_parse_uri,{{invalid_port,"{tail}"}}}}')
        port = tail[1:] if tail else None
    else:
        host, colon, tail = address.partition(":")
        port = tail if colon else None
    query = dict(one.split("=", 1) for one in query_text.split("&") if "=" in one)
    return scheme, userinfo, host, port, path, query


def _port(text: str | None, uri: str) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise BadUri(f'{{unable_to_parse_uri,{{malformed_uri,"{redacted(uri)}",badarg}}}}')
    port = int(text)
    if not 0 < port <= 65535:
        raise BadUri(f"{{port_out_of_range,{port}}}")
    return port


def _vhost(path: str) -> str:
    if not path:
        return "/"
    if not path.startswith("/") or "/" in path[1:]:
        # It may be the rest of a password that has a slash in it.
        raise BadUri(f'{{invalid_vhost,"{path.removeprefix("/").rpartition("@")[2]}"}}')
    return _decoded(path[1:])


def _login(userinfo: str, host: str) -> tuple[str | None, str | None]:
    """Name and password. RabbitMQ: guest and guest where they are not said, unless it is this broker."""
    words = [_decoded(word) for word in userinfo.split(":")] if userinfo else []
    default = "guest" if host else None
    return words[0] if words else default, words[1] if len(words) > 1 else default


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise BadUri(f'{{invalid_amqp_params_parameter,{name},"{text}",{{not_an_integer,"{text}"}}}}')
    return int(text)


def _mechanism(text: str) -> str:
    if text.lower() not in MECHANISMS:
        raise BadUri(f'{{unsupported_auth_mechanism,"{text}"}}')
    return text.lower()


def _decoded(text: str) -> str:
    """Text with its %XX replaced."""
    octets = bytearray()
    at = 0
    raw = text.encode(errors="surrogateescape")
    while at < len(raw):
        if raw[at] != ord("%"):
            octets.append(raw[at])
            at += 1
            continue
        digits = raw[at + 1 : at + 3].decode(errors="replace")
        if not re.fullmatch(r"[0-9a-fA-F]{2}", digits):
            raise BadUri(f'{{unterminated_entity,"%{digits}"}}')
        octets.append(int(digits, 16))
        at += 3
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise BadUri("invalid_utf8") from None
