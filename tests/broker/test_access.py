"""Users, passwords and where they may come from."""

import base64
import hashlib

import pytest

from leveret.broker.access import User, hash_password, is_loopback


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
