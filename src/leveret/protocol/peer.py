"""Who is at the other end of a connection, as far as that is known before a word is said.

The server makes it of the socket and hands it to the connection, whose handshake decides by it who may log in and how.
"""

from collections.abc import Mapping

from leveret.broker.access import User


class Peer:
    """What the connection is called, and where its client is.

    `user` is who the client is, if no password is asked for: known only of clients within this process, whose sockets it
    made itself. `certificate` is what the client has shown to TLS, as Python's `ssl` gives it; None without one.
    """

    __slots__ = ("certificate", "host", "name", "user")

    def __init__(
        self, name: str, host: str, user: User | None = None, certificate: Mapping[str, object] | None = None
    ) -> None:
        self.name = name
        self.host = host
        self.user = user
        self.certificate = certificate
