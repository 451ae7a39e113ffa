"""Users, passwords and where they may come from."""

import base64
import hashlib

import pytest

from leveret.broker.access import ADDRESSES_MAX, SHA256, User, hash_password, is_loopback
from leveret.broker.broker import Broker
from leveret.errors import NotFound, PreconditionFailed


def test_password_is_known_again() -> None:
    user = User("u", hash_password("пароль".encode()))
    assert user.has_password("пароль".encode())
    assert not user.has_password(b"other")


def test_blank_password_never_fits() -> None:
    assert not User("u", hash_password(b"")).has_password(b"")
    assert not User("u", "").has_password(b"")
    assert not User("u", "").has_password(b"x")


def test_hash_is_rabbitmqs() -> None:
    """https://www.rabbitmq.com/docs/passwords#computing-password-hash"""
    salt = bytes.fromhex("908DC60A")
    assert hash_password(b"test12", salt) == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert User("u", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR").has_password(b"test12")


def test_salt_is_new_each_time() -> None:
    one, two = hash_password(b"x"), hash_password(b"x")
    assert one != two
    stored = base64.b64decode(one)
    assert stored[4:] == hashlib.sha256(stored[:4] + b"x").digest()


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


# Hashes that come from elsewhere

SALT = bytes.fromhex("908DC60A")
HASHES = {
    # SPEC §7.4 SHA-256 and SPEC §7.4 SHA-512: salt 908DC60A and the password test12
    "rabbit_password_hashing_sha256": hashlib.sha256(SALT + b"test12").digest(),
    "rabbit_password_hashing_sha512": hashlib.sha512(SALT + b"test12").digest(),
    "rabbit_password_hashing_md5": hashlib.md5(SALT + b"test12").digest(),
}


@pytest.mark.parametrize("hashing", HASHES)
def test_hash_of_each_kind_lets_in(hashing: str, broker: Broker) -> None:
    """SPEC §7.4 password hashes"""
    stored = base64.b64encode(SALT + HASHES[hashing]).decode()
    user = broker.add_hashed_user("u", stored, hashing)
    assert user.has_password(b"test12")
    assert not user.has_password(b"test13")
    assert hash_password(b"test12", SALT, hashing) == stored


@pytest.mark.parametrize(
    ("stored", "hashing", "text"),
    [
        # SPEC §7.4 password hashes: one nobody could log in with is refused
        ("", "sha1", "unknown password hashing algorithm 'sha1'"),
        ("not base64!", SHA256, "password_hash is not base64"),
        ("жук", SHA256, "password_hash is not base64"),
        ("abc", SHA256, "password_hash is not base64"),
        (hash_password(b"x")[:-4], SHA256, "password_hash has not the length of rabbit_password_hashing_sha256"),
        (
            hash_password(b"x"),
            "rabbit_password_hashing_sha512",
            "password_hash has not the length of rabbit_password_hashing_sha512",
        ),
    ],
)
def test_bad_hash_is_refused(stored: str, hashing: str, text: str, broker: Broker) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        broker.add_hashed_user("u", stored, hashing)
    assert str(caught.value) == text
    assert "u" not in broker.users


def test_user_without_a_password_cannot_log_in(broker: Broker) -> None:
    """SPEC §7.4 password hashes: a blank one is always refused."""
    for user in (broker.add_user("u", ""), broker.add_hashed_user("v", "", SHA256)):
        assert not user.has_password(b"")
        assert not user.has_password(b"x")


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
