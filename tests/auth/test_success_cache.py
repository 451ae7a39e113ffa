"""What is remembered of logins that have succeeded."""

import pytest

from leveret.auth.success_cache import REMEMBERED_MAX, SuccessCache


def test_a_success_is_known_for_its_time() -> None:
    cache = SuccessCache(60)
    cache.add(0, b"shop", b"secret")
    assert cache.knows(59.9, b"shop", b"secret")
    assert not cache.knows(60, b"shop", b"secret")


@pytest.mark.parametrize("parts", [(b"shop", b"other"), (b"sho", b"psecret"), (b"shopsecret",), (b"shop", b"secret", b"")])
def test_nothing_else_is_known(parts: tuple[bytes, ...]) -> None:
    cache = SuccessCache(60)
    cache.add(0, b"shop", b"secret")
    assert not cache.knows(1, *parts)


def test_passwords_are_not_kept() -> None:
    cache = SuccessCache(60)
    cache.add(0, b"shop", b"secret")
    assert b"secret" not in b"".join(cache._until)


def test_not_more_is_remembered_than_the_limit() -> None:
    cache = SuccessCache(60)
    for number in range(REMEMBERED_MAX + 1):
        cache.add(0, str(number).encode())
    assert len(cache._until) == REMEMBERED_MAX
    assert cache.knows(1, str(REMEMBERED_MAX).encode())
    assert not cache.knows(1, b"0")
