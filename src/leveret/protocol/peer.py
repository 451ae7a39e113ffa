"""Who is at the other end of a connection, as far as that is known before a word is said.

The server makes it of the socket and hands it to the connection, whose handshake decides by it who may log in and how.
"""

from collections.abc import Mapping

from leveret.broker.access import User


class Peer:
    """What the connection is called, and where its client is.

    `user` is who the client is, if no password is asked for: known only of clients within this process, whose sockets it
    made itself. `tls` says whether there is TLS, and `certificate` what the client has shown to it, verified and as Python's
    `ssl` gives it; None without one.
    """

    __slots__ = ("certificate", "host", "name", "tls", "user")

    def __init__(
        self,
        name: str,
        host: str,
        user: User | None = None,
        certificate: Mapping[str, object] | None = None,
        tls: bool = False,
    ) -> None:
        self.name = name
        self.host = host
        self.user = user
        self.certificate = certificate
        self.tls = tls
