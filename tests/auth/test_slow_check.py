"""Passwords that take long to check: in a thread, and the loop goes on."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from leveret.auth import slow_check
from leveret.auth.chain import LoginChain
from leveret.broker.broker import Broker
from leveret.broker.login import INVALID, Login
from leveret.broker.password import ARGON2ID, is_password
from leveret.broker.settings import Settings


def run(test: Callable[[Broker, LoginChain], Awaitable[None]]) -> None:
    """Run it with a broker whose user `shop` has the password `secret`, as argon2id."""

    async def whole() -> None:
        settings = Settings()
        settings.password_hashing = ARGON2ID
        broker = Broker(settings)
        broker.add_user("shop", "secret")
        chain = LoginChain(broker, asyncio.get_running_loop())
        try:
            await test(broker, chain)
        finally:
            chain.close()

    asyncio.run(whole())


async def tried(broker: Broker, password: bytes, name: str = "shop") -> Login:
    login = Login(broker, name, password, "192.0.2.1")
    login.begin(0)
    assert not login.done, "it was checked on the loop"
    done = asyncio.Event()
    login.on_done = done.set
    await done.wait()
    return login


@pytest.mark.parametrize(
    ("name", "password", "refusal"),
    [("shop", b"secret", ""), ("shop", b"wrong", INVALID), ("nobody", b"secret", INVALID)],
)
def test_decided_in_the_thread(name: str, password: bytes, refusal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §7.4 argon2id: the loop never checks one; a name that nobody has is checked too, so that it takes as long."""
    threads: list[str] = []
    check = is_password

    def recorded(*arguments: bytes) -> bool:
        threads.append(threading.current_thread().name)
        return check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(slow_check, "is_password", recorded)

    async def test(broker: Broker, chain: LoginChain) -> None:
        assert (await tried(broker, password, name)).refusal == refusal

    run(test)
    assert len(threads) == 1
    assert threads[0].startswith("passwords")


def test_success_is_known_for_a_while() -> None:
    async def test(broker: Broker, chain: LoginChain) -> None:
        await tried(broker, b"secret")
        again = Login(broker, "shop", b"secret", "192.0.2.1")
        again.begin(0)
        assert (again.done, again.refusal) == (True, "")
        assert (await tried(broker, b"wrong")).refusal == INVALID

    run(test)


def test_changed_password_is_not_known_any_more() -> None:
    async def test(broker: Broker, chain: LoginChain) -> None:
        await tried(broker, b"secret")
        broker.add_user("shop", "other")
        assert (await tried(broker, b"secret")).refusal == INVALID

    run(test)


def test_quick_passwords_are_decided_at_once() -> None:
    async def test(broker: Broker, chain: LoginChain) -> None:
        broker.settings.password_hashing = "rabbit_password_hashing_sha256"
        broker.add_user("quick", "secret")
        login = Login(broker, "quick", b"secret", "192.0.2.1")
        login.begin(0)
        assert (login.done, login.refusal) == (True, "")

    run(test)


def test_not_more_than_the_limit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login storm: those beyond the limit are refused unread."""
    monkeypatch.setattr(slow_check, "WAITING_MAX", 1)

    async def test(broker: Broker, chain: LoginChain) -> None:
        first, second = (Login(broker, "shop", b"secret", "192.0.2.1") for _ in range(2))
        done = asyncio.Event()
        first.begin(0)
        first.on_done = done.set
        second.begin(0)
        assert (second.done, second.refusal) == (True, "- too many logins are being checked")
        await done.wait()
        assert first.refusal == ""

    run(test)


def test_new_password_is_hashed_in_the_thread() -> None:
    async def test(broker: Broker, chain: LoginChain) -> None:
        stored = await chain.slow_check.hash("new one")
        assert broker.add_hashed_user("u", stored, ARGON2ID).has_password(b"new one")

    run(test)
