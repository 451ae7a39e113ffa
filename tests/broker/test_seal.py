"""Secrets at rest."""

import pytest

from leveret.broker.seal import KEY_MIN, BadSeal, Seal

FACTS: dict[str, object] = {"value": {"src-uri": "amqp://shop:hidden-word@host"}}


def test_what_is_sealed_is_opened_with_its_key() -> None:
    seal = Seal(b"k" * KEY_MIN)
    row = seal.close(FACTS)
    assert "hidden-word" not in str(row)
    assert Seal(b"k" * KEY_MIN + b"\n").open(row, "it") == FACTS
    assert seal.close(FACTS) != row


def test_another_key_is_said() -> None:
    row = Seal(b"k" * KEY_MIN).close(FACTS)
    with pytest.raises(BadSeal, match=r"^it is sealed with another key than that in secrets_key_file$"):
        Seal(b"x" * KEY_MIN).open(row, "it")
    with pytest.raises(BadSeal, match=r"^it is sealed: set secrets_key_file to the file that it was sealed with$"):
        Seal().open(row, "it")


def test_without_a_key_it_is_as_it_is() -> None:
    assert Seal().close(FACTS) == FACTS
    assert Seal(b"k" * KEY_MIN).open(FACTS, "it") == FACTS


def test_short_key_is_none() -> None:
    with pytest.raises(BadSeal, match="at least 16 octets"):
        Seal(b"k" * (KEY_MIN - 1))
