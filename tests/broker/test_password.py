"""Passwords as they are kept."""

import base64
import hashlib

import pytest

from leveret.broker.access import User
from leveret.broker.broker import Broker
from leveret.broker.password import ARGON2ID, SHA256, check_password_length, hash_password, is_slow
from leveret.broker.settings import Settings
from leveret.errors import PreconditionFailed


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


# argon2id


def test_argon2id_is_known_again(broker: Broker) -> None:
    """SPEC §7.4 argon2id"""
    stored = hash_password(b"secret", hashing=ARGON2ID)
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    user = broker.add_hashed_user("u", stored, ARGON2ID)
    assert user.has_password(b"secret")
    assert not user.has_password(b"other")
    assert not user.has_password(b"")
    assert (is_slow(user.hashing), is_slow(SHA256)) == (True, False)


def test_new_passwords_are_hashed_as_it_is_set() -> None:
    """SPEC §7.4 argon2id: as a setting."""
    settings = Settings()
    settings.password_hashing = ARGON2ID
    user = Broker(settings).add_user("u", "secret")
    assert (user.hashing, user.has_password(b"secret")) == (ARGON2ID, True)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "password_hash is no argon2id hash"),
        ("$argon2i$v=19$m=8,t=1,p=1$c29tZXNhbHQ$Zm9vZm9vZm9v", "password_hash is no argon2id hash"),
        ("$argon2id$v=19$m=8,t=1$c29tZXNhbHQ$Zm9vZm9v", "password_hash is no argon2id hash"),
        (
            "$argon2id$v=19$m=262145,t=1,p=1$c29tZXNhbHQ$Zm9vZm9vZm9v",
            "password_hash would take too much memory or time to check",
        ),
        (
            "$argon2id$v=19$m=8,t=33,p=1$c29tZXNhbHQ$Zm9vZm9vZm9v",
            "password_hash would take too much memory or time to check",
        ),
    ],
)
def test_bad_argon2id_hash_is_refused(broker: Broker, stored: str, text: str) -> None:
    """A definition from elsewhere must not make each login take gigabytes."""
    with pytest.raises(PreconditionFailed) as caught:
        broker.add_hashed_user("u", stored, ARGON2ID)
    assert str(caught.value) == text


def test_the_largest_argon2id_hash_is_taken(broker: Broker) -> None:
    stored = "$argon2id$v=19$m=262144,t=32,p=16$c29tZXNhbHQ$Zm9vZm9vZm9v"
    assert broker.add_hashed_user("u", stored, ARGON2ID).password_hash == stored


# Length


@pytest.mark.parametrize(("password", "least", "fits"), [("abc", 3, True), ("ab", 3, False), ("", 3, True), ("a", 1, True)])
def test_password_has_a_least_length(password: str, least: int, fits: bool) -> None:
    """RabbitMQ's text; without any password nobody can log in, which is no short one."""
    if fits:
        check_password_length(password, least)
    else:
        with pytest.raises(PreconditionFailed, match=r"^minimum required password length: 3$"):
            check_password_length(password, least)


def test_short_password_changes_nothing() -> None:
    settings = Settings()
    settings.password_length_min = 8
    broker = Broker(settings)
    broker.add_user("u", "long enough")
    with pytest.raises(PreconditionFailed):
        broker.add_user("u", "short")
    assert broker.users["u"].has_password(b"long enough")
