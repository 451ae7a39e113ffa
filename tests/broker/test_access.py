"""Users, passwords and where they may come from."""

import pytest

from leveret.broker.access import ADDRESSES_MAX, User, is_loopback
from leveret.broker.broker import Broker
from leveret.errors import NotFound, PreconditionFailed


def test_user_keeps_what_it_was_made_with() -> None:
    user = User("u", "hash", ("administrator",), loopback_only=True)
    assert (user.name, user.password_hash, user.tags, user.loopback_only) == ("u", "hash", ("administrator",), True)


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::1%lo", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback_addresses(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


def test_address_is_looked_at_once() -> None:
    """SPEC §5: who connects again and again costs no more than the first time; how many are remembered is limited."""
    is_loopback.cache_clear()
    for number in range(ADDRESSES_MAX + 1):
        assert not is_loopback(f"10.0.{number // 250}.{number % 250}")
        assert is_loopback("127.0.0.1")
    assert is_loopback.cache_info().misses == ADDRESSES_MAX + 2
    assert is_loopback.cache_info().currsize == ADDRESSES_MAX


def test_user_that_is_there_gets_another_password(broker: Broker) -> None:
    """SPEC §7.2 users: rights, limits and connections stay."""
    user = broker.add_user("u", "old", ("management",))
    broker.set_permissions("u", "/", "a", "b", "c")
    broker.set_user_limits("u", {"max-channels": 5})
    assert broker.add_user("u", "new", ("monitoring",)) is user
    assert (user.has_password(b"new"), user.has_password(b"old"), user.tags) == (True, False, ("monitoring",))
    assert (user.rights["/"].pattern("write"), user.limits) == ("b", {"max-channels": 5})


def test_what_is_not_there_cannot_be_deleted(broker: Broker) -> None:
    """SPEC §7.1 virtual hosts, §7.2 users"""
    with pytest.raises(NotFound, match=r"^user 'u' not found$"):
        broker.delete_user("u")
    with pytest.raises(NotFound, match=r"^vhost 'v' not found$"):
        broker.delete_vhost("v")
    with pytest.raises(NotFound, match=r"^user 'u' not found$"):
        broker.set_user_limits("u", {})


def test_vhost_is_made_once(broker: Broker) -> None:
    """SPEC §7.1 virtual hosts"""
    vhost = broker.add_vhost("v")
    vhost.declare_queue("q")
    assert broker.add_vhost("v") is vhost
    assert broker.find_vhost("v").queues


def test_default_queue_type_must_be_one_there_is(broker: Broker) -> None:
    """SPEC §7.1 default queue type"""
    vhost = broker.vhosts["/"]
    with pytest.raises(PreconditionFailed, match=r"^unsupported queue type 'stream'$"):
        vhost.set_default_queue_type("stream")
    vhost.set_default_queue_type("quorum")
    vhost.set_default_queue_type(None)
    assert vhost.declare_queue("q", durable=True).arguments == {}
