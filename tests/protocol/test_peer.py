"""Who is at the other end, as far as that is known before the handshake."""

from leveret.broker.access import TrustedUser
from leveret.broker.broker import default_broker
from leveret.protocol.handshake import Handshake
from leveret.protocol.peer import Peer
from leveret.wire.spec import ConnectionStartOk


def test_nothing_more_is_known_of_a_client_from_the_network() -> None:
    peer = Peer("client", "192.0.2.1")
    assert (peer.name, peer.host, peer.user, peer.certificate) == ("client", "192.0.2.1", None, None)


def test_handshake_has_the_certificate() -> None:
    certificate = {"subject": ((("commonName", "shop"),),)}
    assert Handshake(default_broker(), Peer("client", "192.0.2.1", certificate=certificate)).peer.certificate is certificate


def test_who_is_known_shows_no_password() -> None:
    """SPEC §9.8: a local URI without a user."""
    user = TrustedUser("none", "")
    handshake = Handshake(default_broker(), Peer("inner", "127.0.0.1", user))
    handshake.on_method(ConnectionStartOk({}, "PLAIN", b"\0nobody\0wrong", "en_US"))
    assert handshake.user is user
